// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a capture was prepared for replay: packets skipped, by cause, and repairs made.

use crate::tally::Tally;
use crate::units::counted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Share of a capture's bytes, 0 to 1, that may be skipped without a warning.
pub const WARNED_SHARE: f64 = 0.05;
/// Share of a capture's bytes, 0 to 1, above which skipping is an error unless the path sets
/// `allow_left_out`.
pub const REFUSED_SHARE: f64 = 0.5;

/// Keywords for why packets of a capture were skipped.
pub mod cause {
    /// TCP segments coalesced by offload into a frame that does not fit in a packet buffer.
    pub const JOINED_SEGMENTS: &str = "joined_segments";
    /// A packet that does not fit in a packet buffer.
    pub const TOO_LONG: &str = "too_long";
    /// A packet truncated to the capture's snap length.
    pub const CUT_SHORT: &str = "cut_short";
    /// A packet of length zero.
    pub const ZERO_LENGTH: &str = "zero_length";
    /// A packet from a link type without Ethernet or IP headers.
    pub const OTHER_LINK_TYPE: &str = "other_link_type";
    /// A packet in a damaged block: the block's contents contradict its length.
    pub const DAMAGED_BLOCK: &str = "damaged_block";
    /// The tail of a capture file that breaks off in the middle of a packet.
    pub const TRUNCATED_TAIL: &str = "truncated_tail";
    /// A packet that the kernel dropped because the receive ring of an interface was full.
    pub const RING_FULL: &str = "rx_ring_full";
    /// The tail of a capture file in which lengths contradict each other.
    pub const DAMAGED_TAIL: &str = "damaged_tail";
}

/// Unreadable tail of a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnreadTail {
    /// File offset at which the unreadable part starts, in bytes.
    pub offset: u64,
    /// Length of the unreadable part, in bytes.
    pub bytes: u64,
}

/// Coalesced frames that were split back into TCP segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CutSegments {
    /// Number of coalesced frames in the capture.
    pub frames: u64,
    /// Number of frames after splitting.
    pub segments: u64,
    /// MTU of the connections whose frames were split: the longest IP packet on the wire, in bytes.
    pub mtu: u64,
}

/// How the input was prepared before the run: packets offered, skipped and repaired.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InputReport {
    /// Packets offered in one pass over the input.
    pub offered: Tally,
    /// Skipped packets, by cause. Bytes are on-wire bytes for packets, and file bytes for damaged
    /// blocks or tails.
    pub left_out: BTreeMap<String, Tally>,
    /// The unreadable tail of the file; `null` if the file was read completely.
    pub unread: Option<UnreadTail>,
    /// Coalesced frames that were split; `null` if there were none.
    pub cut_segments: Option<CutSegments>,
    /// Number of truncated frames zero-padded to their original length.
    pub padded_frames: u64,
    /// Number of frames whose TCP or UDP checksum was filled in, because they were captured before
    /// the NIC computed it.
    #[serde(default)]
    pub completed_checksums: u64,
    /// Number of packets captured without an Ethernet header and given a synthetic one.
    #[serde(default)]
    pub framed_packets: u64,
    /// Number of packets excluded by `skip` and `sample`, in the part of the file that was read.
    #[serde(default)]
    pub unselected_packets: u64,
}

impl InputReport {
    /// Returns the total packets and bytes skipped.
    pub fn left_out_total(&self) -> Tally {
        self.left_out.values().copied().sum()
    }

    /// Returns the fraction of the input's bytes that was skipped, 0 to 1.
    pub fn left_out_share(&self) -> f64 {
        self.share(self.left_out_total().bytes)
    }

    /// Returns `bytes` as a fraction of all input bytes, offered and skipped, 0 to 1.
    pub fn share(&self, bytes: u64) -> f64 {
        match self.offered.bytes + self.left_out_total().bytes {
            0 => 0.0,
            all => bytes as f64 / all as f64,
        }
    }

    /// Returns the cause that accounts for the most skipped bytes; `None` if nothing was skipped.
    pub fn main_cause(&self) -> Option<&str> {
        let most = self.left_out.iter().max_by_key(|(_, tally)| tally.bytes);
        most.map(|(cause, _)| cause.as_str())
    }

    /// Returns one phrase per kind of repair, and one for packets excluded by `skip` and `sample`.
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
                "checksums completed in {} (the sender left them to checksum offload)",
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
            format!(
                "{} excluded by `skip` and `sample`",
                counted(self.unselected_packets, "packet")
            )
        });
        [cut, padded, completed, framed, selected].into_iter().flatten().collect()
    }
}

/// Returns advice on packets skipped for `cause`, a keyword from [`mod@cause`].
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
