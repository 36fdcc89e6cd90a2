// SPDX-License-Identifier: MIT OR Apache-2.0
//! Preparation of a capture before replay: packets skipped, with causes, and repairs.

use crate::tally::Tally;
use crate::units::counted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Share of skipped bytes above which a warning is issued, and above which a path is rejected
/// unless it opts in.
pub const WARNED_SHARE: f64 = 0.05;
/// See [`WARNED_SHARE`].
pub const REFUSED_SHARE: f64 = 0.5;

/// Reasons for skipping packets of a capture, as named in records.
pub mod cause {
    /// TCP segments coalesced by segmentation offload and longer than a buffer.
    pub const JOINED_SEGMENTS: &str = "joined_segments";
    /// Longer than a buffer.
    pub const TOO_LONG: &str = "too_long";
    /// Truncated to the snap length of the capture.
    pub const CUT_SHORT: &str = "cut_short";
    /// Of length zero.
    pub const ZERO_LENGTH: &str = "zero_length";
    /// Captured on a link type without Ethernet or IP headers.
    pub const OTHER_LINK_TYPE: &str = "other_link_type";
    /// Stored in a block whose content contradicts its length.
    pub const DAMAGED_BLOCK: &str = "damaged_block";
    /// The file ends within a packet.
    pub const TRUNCATED_TAIL: &str = "truncated_tail";
    /// Lengths at the end of the file contradict each other.
    pub const DAMAGED_TAIL: &str = "damaged_tail";
}

/// Unreadable end of a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnreadTail {
    /// Where the unreadable end starts, in bytes from the start of the file.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// Coalesced TCP segments that were split again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CutSegments {
    /// Number of coalesced frames in the capture.
    pub frames: u64,
    /// Number of frames created from them.
    pub segments: u64,
    /// Longest IP packet on the wire, in bytes, on the connections of these frames.
    pub mtu: u64,
}

/// Preparation of the input before the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InputReport {
    /// Packets offered by the source in one pass.
    pub offered: Tally,
    /// Packets skipped, by cause: packets are counted with their bytes on the wire; blocks, and the
    /// end of a damaged file, with their bytes in the file.
    pub left_out: BTreeMap<String, Tally>,
    /// Unreadable end of the file; `null` if there is none.
    pub unread: Option<UnreadTail>,
    /// Coalesced segments that were split; `null` if there were none.
    pub cut_segments: Option<CutSegments>,
    /// Truncated frames that were zero-padded to their original length.
    pub padded_frames: u64,
    /// Frames captured before the NIC computed their TCP or UDP checksum, which was added.
    #[serde(default)]
    pub completed_checksums: u64,
    /// Packets captured without an Ethernet header, which was added.
    #[serde(default)]
    pub framed_packets: u64,
    /// Packets excluded by `skip` and `sample` in the part of the file that was read.
    #[serde(default)]
    pub unselected_packets: u64,
}

impl InputReport {
    /// Returns the total skipped, over all causes.
    pub fn left_out_total(&self) -> Tally {
        self.left_out.values().copied().sum()
    }

    /// Returns the share of bytes skipped, 0 to 1.
    pub fn left_out_share(&self) -> f64 {
        self.share(self.left_out_total().bytes)
    }

    /// Returns `bytes` as a share of all bytes in the input, 0 to 1.
    pub fn share(&self, bytes: u64) -> f64 {
        match self.offered.bytes + self.left_out_total().bytes {
            0 => 0.0,
            all => bytes as f64 / all as f64,
        }
    }

    /// Returns the cause with the most skipped bytes.
    pub fn main_cause(&self) -> Option<&str> {
        let most = self.left_out.iter().max_by_key(|(_, tally)| tally.bytes);
        most.map(|(cause, _)| cause.as_str())
    }

    /// Returns the repairs and skipped parts, one sentence each.
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

/// Returns the remedy for packets skipped for `cause`.
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
