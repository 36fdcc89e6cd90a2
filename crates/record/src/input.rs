// SPDX-License-Identifier: MIT OR Apache-2.0
//! Preparation of a capture before replay: packets left out, with causes, and repairs.

use crate::tally::Tally;
use crate::units::counted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Shares of omitted bytes above which a warning is issued, and above which a path is rejected
/// unless it requests the rest.
pub const WARNED_SHARE: f64 = 0.05;
/// See [`WARNED_SHARE`].
pub const REFUSED_SHARE: f64 = 0.5;

/// Causes by which packets are left out of a capture, as records name them.
pub mod cause {
    /// TCP segments that segmentation offload joined, longer than a buffer.
    pub const JOINED_SEGMENTS: &str = "joined_segments";
    /// Longer than a buffer.
    pub const TOO_LONG: &str = "too_long";
    /// Cut by the snap length of the capture.
    pub const CUT_SHORT: &str = "cut_short";
    /// Without a byte.
    pub const ZERO_LENGTH: &str = "zero_length";
    /// Recorded on a link whose packets have no Ethernet or IP header.
    pub const OTHER_LINK_TYPE: &str = "other_link_type";
    /// In a block whose content contradicts its length.
    pub const DAMAGED_BLOCK: &str = "damaged_block";
    /// The file ends within a packet.
    pub const TRUNCATED_TAIL: &str = "truncated_tail";
    /// The lengths of the file contradict each other.
    pub const DAMAGED_TAIL: &str = "damaged_tail";
}

/// The end of a capture file that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnreadTail {
    /// Its start, in bytes from the start of the file.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// Joined TCP segments that were cut again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CutSegments {
    /// Frames of the capture.
    pub frames: u64,
    /// Frames made of them.
    pub segments: u64,
    /// Longest IP packet of the wire, in bytes, among the connections of these frames.
    pub mtu: u64,
}

/// Outcome of the input packets before the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InputReport {
    /// Packets offered by the source, in one pass.
    pub offered: Tally,
    /// Packets left out, by cause: packets with their bytes on the wire; blocks and the end of a
    /// damaged file with their bytes in the file.
    pub left_out: BTreeMap<String, Tally>,
    /// The end of the file that cannot be read; `null` where there is none.
    pub unread: Option<UnreadTail>,
    /// Joined segments that were cut; `null` where there were none.
    pub cut_segments: Option<CutSegments>,
    /// Frames that the capture had cut and that were filled with zeros to their length.
    pub padded_frames: u64,
    /// Frames captured before the interface computed their TCP or UDP checksum, which was added.
    #[serde(default)]
    pub completed_checksums: u64,
    /// Packets that were recorded without an Ethernet header and got one.
    #[serde(default)]
    pub framed_packets: u64,
    /// Packets that `skip` and `sample` passed over, as far as the file was read.
    #[serde(default)]
    pub unselected_packets: u64,
}

impl InputReport {
    /// Everything left out, whatever the cause.
    pub fn left_out_total(&self) -> Tally {
        self.left_out.values().copied().sum()
    }

    /// Share of the bytes that was left out, 0 to 1.
    pub fn left_out_share(&self) -> f64 {
        self.share(self.left_out_total().bytes)
    }

    /// `bytes` as a share of all bytes of the input, 0 to 1.
    pub fn share(&self, bytes: u64) -> f64 {
        match self.offered.bytes + self.left_out_total().bytes {
            0 => 0.0,
            all => bytes as f64 / all as f64,
        }
    }

    /// The cause that left out most bytes.
    pub fn main_cause(&self) -> Option<&str> {
        let most = self.left_out.iter().max_by_key(|(_, tally)| tally.bytes);
        most.map(|(cause, _)| cause.as_str())
    }

    /// Repairs and skipped parts, a sentence each.
    pub fn repairs(&self) -> Vec<String> {
        let cut = self.cut_segments.map(|cut| {
            format!(
                "{} of joined TCP segments cut into {} for an MTU of {} bytes",
                counted(cut.frames, "frame"),
                cut.segments,
                cut.mtu
            )
        });
        let padded = (self.padded_frames > 0).then(|| {
            format!("{} cut by the capture padded with zeros", counted(self.padded_frames, "frame"))
        });
        let completed = (self.completed_checksums > 0).then(|| {
            format!(
                "checksum of {} computed that was left to the interface",
                counted(self.completed_checksums, "frame")
            )
        });
        let framed = (self.framed_packets > 0).then(|| {
            format!(
                "{} recorded without an Ethernet header; one was added",
                counted(self.framed_packets, "packet")
            )
        });
        let selected = (self.unselected_packets > 0).then(|| {
            format!("{} passed over (skip, sample)", counted(self.unselected_packets, "packet"))
        });
        [cut, padded, completed, framed, selected].into_iter().flatten().collect()
    }
}

/// The fix that brings back packets left out for `cause`.
pub fn remedy(cause: &str) -> &'static str {
    match cause {
        cause::JOINED_SEGMENTS => {
            "`segment = \"cut\"` in [source] cuts what segmentation offload joined, \
             `buffer_bytes = 65407` holds it; `ethtool -K IF tso off gso off gro off` before \
             recording avoids it"
        }
        cause::TOO_LONG => "raise `buffer_bytes` in [source]",
        cause::CUT_SHORT => {
            "`pad = true` in [source] fills packets with zeros whose headers are whole; record \
             whole packets with `tcpdump -s 0`"
        }
        cause::OTHER_LINK_TYPE => "record on an Ethernet or IP interface",
        cause::DAMAGED_BLOCK | cause::TRUNCATED_TAIL | cause::DAMAGED_TAIL => {
            "the file is damaged: copy or record it again"
        }
        _ => "replace the capture",
    }
}
