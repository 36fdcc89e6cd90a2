// SPDX-License-Identifier: MIT OR Apache-2.0
//! Capture files: reads pcap and pcapng from memory, writes pcap.
//!
//! The reader keeps every packet it can and counts the rest; it never fails because of one bad
//! packet, and what it allocates is bounded by the bytes it was given, whatever their length
//! fields claim. Left out: compressed files, link types other than Ethernet, comments, names,
//! secrets and statistics, and the FCS some captures carry (it stays at the end of the frame).

mod layers;
mod pcap;
mod pcapng;
pub mod repair;

#[cfg(test)]
mod tests;

pub use pcap::PcapWriter;

use linerate_record::run::{Tally, UnreadTail};
use std::fmt;

/// One packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedPacket<'a> {
    /// Time of capture, nanoseconds since 1970-01-01 UTC. A packet without a time (pcapng simple
    /// packet block) has that of the packet before it, the first one 0.
    pub time_ns: u64,
    /// Length of the frame on the wire, without FCS; more than `bytes` when the capture cut it.
    pub original_bytes: u32,
    /// The frame from its Ethernet header, as far as it was captured.
    pub bytes: &'a [u8],
}

/// How a file ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tail {
    /// After a whole packet or block.
    #[default]
    Whole,
    /// Within a packet or block; what came before it was read.
    Truncated,
    /// From some block on its lengths contradict each other; what came before it was read.
    Damaged,
}

/// What a capture file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture<'a> {
    /// The Ethernet packets, in the order of the file. Never empty.
    pub packets: Vec<CapturedPacket<'a>>,
    /// Packets of another link type, recorded on another interface of the same file; their bytes
    /// on the wire.
    pub other_link_types: Tally,
    /// Blocks whose content contradicts their length, skipped; their bytes in the file.
    pub damaged_blocks: Tally,
    /// How the file ends.
    pub tail: Tail,
    /// What is behind the place where the file could be read no further; `None` where it is whole.
    pub unread: Option<UnreadTail>,
}

impl Capture<'_> {
    /// Ends reading within `file`, of which `rest` is left.
    fn break_off(&mut self, tail: Tail, file: &[u8], rest: &[u8]) {
        let offset = (file.len() - rest.len()) as u64;
        self.tail = tail;
        self.unread = Some(UnreadTail { offset, bytes: rest.len() as u64 });
    }
}

/// A link type, by its number in the registry of the tcpdump group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkType(pub u16);

impl LinkType {
    /// Ethernet, the only one that is replayed.
    pub const ETHERNET: Self = Self(1);

    fn name(self) -> &'static str {
        match self.0 {
            0 => "BSD loopback",
            1 => "Ethernet",
            9 => "PPP",
            12 | 14 | 101 => "raw IP",
            105 => "IEEE 802.11",
            113 => "Linux cooked",
            127 => "IEEE 802.11 with radiotap",
            228 => "raw IPv4",
            229 => "raw IPv6",
            276 => "Linux cooked, version 2",
            _ => "unnamed link type",
        }
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

/// Why nothing could be read from a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaptureError {
    /// The file has no bytes.
    Empty,
    /// The file begins with none of the magic numbers; its first bytes, 4 at most.
    NotACapture(Vec<u8>),
    /// The file ends within its own header, after this many bytes.
    HeaderCut(usize),
    /// No packet was recorded on Ethernet, but some on a link of this type.
    LinkType(LinkType),
    /// A capture without a single whole packet.
    NoPackets(Tail),
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str(
                "the file is empty: record it again, for example with `tcpdump -i eth0 -w FILE`",
            ),
            Self::NotACapture(first) if first.starts_with(&[0x1f, 0x8b]) => {
                f.write_str("the file is compressed: unpack it with `gunzip` first")
            }
            Self::NotACapture(first) => write!(
                f,
                "neither pcap nor pcapng: the file begins with {first:02x?}; \
                 `editcap -F pcapng IN OUT` converts other capture formats"
            ),
            Self::HeaderCut(bytes) => write!(
                f,
                "the file ends within its header, after {bytes} bytes: record or copy it again"
            ),
            Self::LinkType(link) => write!(
                f,
                "the link type is {link}, only Ethernet (1) can be replayed: record on one \
                 Ethernet interface, not on `any`"
            ),
            Self::NoPackets(Tail::Whole) => {
                f.write_str("the capture holds no packets: record again while there is traffic")
            }
            Self::NoPackets(_) => f.write_str(
                "the capture is cut or damaged before its first whole packet: record or copy it \
                 again",
            ),
        }
    }
}

impl std::error::Error for CaptureError {}

/// Reads a whole capture file, pcap or pcapng.
pub fn read(file: &[u8]) -> Result<Capture<'_>, CaptureError> {
    if file.is_empty() {
        return Err(CaptureError::Empty);
    }
    let capture = if let Some(format) = pcap::Format::of(file) {
        pcap::read(file, format)?
    } else if file.starts_with(&pcapng::MAGIC) {
        pcapng::read(file)?
    } else {
        return Err(CaptureError::NotACapture(file[..file.len().min(4)].to_vec()));
    };
    if capture.packets.is_empty() {
        return Err(CaptureError::NoPackets(capture.tail));
    }
    Ok(capture)
}

/// In which order the bytes of a number stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// The 16-bit number at `at`, if it lies within `bytes`.
    fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let word = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u16::from_le_bytes(word),
            Self::Big => u16::from_be_bytes(word),
        })
    }

    /// The 32-bit number at `at`, if it lies within `bytes`.
    fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let word = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(word),
            Self::Big => u32::from_be_bytes(word),
        })
    }

    /// The 64-bit number at `at`, if it lies within `bytes`.
    fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let word = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u64::from_le_bytes(word),
            Self::Big => u64::from_be_bytes(word),
        })
    }
}
