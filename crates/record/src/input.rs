// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a capture was prepared for replay: the packets that were skipped, by cause, and the repairs.

use crate::tally::Tally;
use crate::units::counted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Share of a capture's bytes, 0 to 1; if more than this was skipped, a warning is issued.
pub const WARNED_SHARE: f64 = 0.05;
/// Share of a capture's bytes, 0 to 1; if more than this was skipped, the path is rejected, unless
/// it sets `allow_left_out`.
pub const REFUSED_SHARE: f64 = 0.5;

/// Reasons for skipping packets of a capture, as keywords in records.
pub mod cause {
    /// TCP segments that segmentation offload coalesced into a frame longer than a packet buffer.
    pub const JOINED_SEGMENTS: &str = "joined_segments";
    /// A packet that is longer than a packet buffer.
    pub const TOO_LONG: &str = "too_long";
    /// A packet that was truncated to the snap length of the capture.
    pub const CUT_SHORT: &str = "cut_short";
    /// A packet of length zero.
    pub const ZERO_LENGTH: &str = "zero_length";
    /// A packet that was captured on a link type without Ethernet or IP headers.
    pub const OTHER_LINK_TYPE: &str = "other_link_type";
    /// A packet in a block of the capture file whose content contradicts the length of the block.
    pub const DAMAGED_BLOCK: &str = "damaged_block";
    /// End of a capture file that stops within a packet.
    pub const TRUNCATED_TAIL: &str = "truncated_tail";
    /// End of a capture file in which lengths contradict each other.
    pub const DAMAGED_TAIL: &str = "damaged_tail";
}

/// The end of a capture file that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnreadTail {
    /// Offset at which the unreadable end starts, in bytes from the start of the file.
    pub offset: u64,
    /// Length of the unreadable end, in bytes.
    pub bytes: u64,
}

/// Frames with coalesced TCP segments that were split into separate segments again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CutSegments {
    /// Number of coalesced frames in the capture.
    pub frames: u64,
    /// Number of frames into which the coalesced frames were split.
    pub segments: u64,
    /// MTU of the connections of these frames: the longest IP packet on the wire, in bytes.
    pub mtu: u64,
}

/// How the input was prepared before the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InputReport {
    /// Packets that the source offers in one pass over the input.
    pub offered: Tally,
    /// What was skipped, by cause. Packets are counted with their bytes on the wire; blocks, and
    /// the end of a damaged file, with their bytes in the file.
    pub left_out: BTreeMap<String, Tally>,
    /// The end of the file that could not be read; `null` if the file was read completely.
    pub unread: Option<UnreadTail>,
    /// Frames with coalesced segments that were split; `null` if there were none.
    pub cut_segments: Option<CutSegments>,
    /// Number of truncated frames that were zero-padded to their original length.
    pub padded_frames: u64,
    /// Number of frames that were captured before the NIC computed their TCP or UDP checksum, and
    /// whose checksum was completed.
    #[serde(default)]
    pub completed_checksums: u64,
    /// Number of packets that were captured without an Ethernet header, and to which one was added.
    #[serde(default)]
    pub framed_packets: u64,
    /// Number of packets that `skip` and `sample` excluded, in the part of the file that was read.
    #[serde(default)]
    pub unselected_packets: u64,
}

impl InputReport {
    /// Returns the number of skipped packets and bytes, summed over all causes.
    pub fn left_out_total(&self) -> Tally {
        self.left_out.values().copied().sum()
    }

    /// Returns the share of the input's bytes that was skipped, 0 to 1.
    pub fn left_out_share(&self) -> f64 {
        self.share(self.left_out_total().bytes)
    }

    /// Returns `bytes` as a share of all bytes in the input, offered and skipped, 0 to 1.
    pub fn share(&self, bytes: u64) -> f64 {
        match self.offered.bytes + self.left_out_total().bytes {
            0 => 0.0,
            all => bytes as f64 / all as f64,
        }
    }

    /// Returns the cause for which the most bytes were skipped; `None` if nothing was skipped.
    pub fn main_cause(&self) -> Option<&str> {
        let most = self.left_out.iter().max_by_key(|(_, tally)| tally.bytes);
        most.map(|(cause, _)| cause.as_str())
    }

    /// Returns a phrase for each kind of repair, and for packets that `skip` and `sample` excluded.
    pub fn repairs(&self) -> Vec<String> {
        let cut = self.cut_segments.map(|cut| {
            format!(
                "{} with coalesced TCP segments split into {} (MTU {} bytes)",
                counted(cut.frames, "frame"),
                cut.segments,
                cut.mtu
            )
        });
        let padded = (self.padded_frames > 0).then(|| {
            format!(
                "{} zero-padded (truncated in the capture)",
                counted(self.padded_frames, "frame")
            )
        });
        let completed = (self.completed_checksums > 0).then(|| {
            format!(
                "checksums completed in {} (left to checksum offload by the sender)",
                counted(self.completed_checksums, "frame")
            )
        });
        let framed = (self.framed_packets > 0).then(|| {
            format!(
                "Ethernet header added to {} captured without one",
                counted(self.framed_packets, "packet")
            )
        });
        let selected = (self.unselected_packets > 0).then(|| {
            format!("{} not selected (skip, sample)", counted(self.unselected_packets, "packet"))
        });
        [cut, padded, completed, framed, selected].into_iter().flatten().collect()
    }
}

/// Returns advice for the user on packets that were skipped for `cause`, a keyword of the module
/// `cause`.
pub fn remedy(cause: &str) -> &'static str {
    match cause {
        cause::JOINED_SEGMENTS => {
            "`segment = \"cut\"` in [source] splits coalesced segments, `buffer_bytes = 65407` \
             accepts them whole; to avoid them, run `ethtool -K IF tso off gso off gro off` before \
             capturing"
        }
        cause::TOO_LONG => "raise `buffer_bytes` in [source]",
        cause::CUT_SHORT => {
            "`pad = true` in [source] zero-pads packets with complete headers; or capture whole \
             packets with `tcpdump -s 0`"
        }
        cause::OTHER_LINK_TYPE => "capture on an Ethernet or IP interface",
        cause::DAMAGED_BLOCK | cause::TRUNCATED_TAIL | cause::DAMAGED_TAIL => {
            "the file is damaged or still being written; copy it again, or repeat the capture"
        }
        _ => "replace the capture",
    }
}
