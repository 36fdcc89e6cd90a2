// SPDX-License-Identifier: MIT OR Apache-2.0
//! Capture files: reads pcap and pcapng one packet at a time, and writes pcap.
//!
//! The reader delivers every usable packet and counts the others; a bad packet is never an error.
//! It buffers only one packet at a time, and limits its length, so invalid length fields cannot
//! make it allocate a lot of memory. Packets without an Ethernet header get a synthetic one.
//! Compressed files and link types that do not carry IP are not supported. Comments, names, secrets
//! and statistics are ignored.

mod input;
mod layers;
mod link;
pub mod mtu;
mod pcap;
mod pcapng;
pub mod repair;

#[cfg(test)]
mod tests;

pub use link::LinkType;
pub use pcap::PcapWriter;

use input::{Input, PACKET_BYTES_MAX};
use linerate_record::run::{Tally, UnreadTail};
use link::Link;
use std::fmt;
use std::io::Read;
use std::ops::{ControlFlow, Range};

/// One packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedPacket<'a> {
    /// Time of capture, nanoseconds since 1970-01-01 UTC. A packet without a timestamp (pcapng
    /// simple packet block) gets the timestamp of the previous packet, or 0 if it is the first
    /// packet.
    pub time_ns: u64,
    /// On-wire length without FCS; greater than the length of `bytes` if the packet was truncated.
    pub original_bytes: u32,
    /// Captured part of the frame, starting at the Ethernet header.
    pub bytes: &'a [u8],
}

/// How a capture file ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tail {
    /// The file ends after a complete packet or block.
    #[default]
    Whole,
    /// The file ends within a packet or block. All complete packets before that point were read.
    Truncated,
    /// The two length fields of a block differ. All packets before the block were read.
    Damaged,
}

/// Results of the scan of a capture file: packets delivered, packets and blocks skipped, and how
/// the file ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Number of packets passed to the callback.
    pub packets: u64,
    /// Packets that got a synthetic Ethernet header.
    pub framed: u64,
    /// Skipped packets of unsupported link types, with their bytes on the wire.
    pub other_link_types: Tally,
    /// Blocks that were skipped because their contents contradict their length, with their size in
    /// the file.
    pub damaged_blocks: Tally,
    /// How the file ends.
    pub tail: Tail,
    /// The part of the file that could not be read; `None` if all of it was read.
    pub unread: Option<UnreadTail>,
}

/// Result of the callback that receives the packets: whether the scan continues.
pub type Flow = ControlFlow<()>;

/// State of a scan.
struct Scan<R, F> {
    input: Input<R>,
    contents: Contents,
    /// First unsupported link type found.
    other_link: Option<LinkType>,
    /// Buffer for packets that get a synthetic Ethernet header.
    scratch: Vec<u8>,
    each: F,
}

impl<R: Read, F: FnMut(&CapturedPacket<'_>) -> Flow> Scan<R, F> {
    /// Stops delivering packets at `offset`. Counts the file from there on as unread, and sets
    /// `tail`.
    fn break_off(&mut self, tail: Tail, offset: u64) -> Result<(), CaptureError> {
        let bytes = self.input.end()? - offset;
        self.contents.tail = tail;
        self.contents.unread = Some(UnreadTail { offset, bytes });
        Ok(())
    }

    /// Passes a packet to the callback. `at` is the packet's range in the input buffer, and `link`
    /// is the link on which the packet was captured.
    fn hand_out(
        &mut self,
        link: Link,
        time_ns: u64,
        original_bytes: u32,
        at: Range<usize>,
    ) -> Flow {
        let captured = &self.input.buffer()[at];
        let framed = match link.link_type.is_known() {
            true => link.framed(captured, original_bytes, &mut self.scratch),
            false => None,
        };
        let Some((bytes, original_bytes)) = framed else {
            self.contents.other_link_types.add(1, original_bytes.into());
            self.other_link.get_or_insert(link.link_type);
            return Flow::Continue(());
        };
        self.contents.packets += 1;
        self.contents.framed += u64::from(link.link_type != LinkType::ETHERNET);
        (self.each)(&CapturedPacket { time_ns, original_bytes, bytes })
    }
}

/// Why a capture cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaptureError {
    /// The file is empty.
    Empty,
    /// The magic number is unknown. Holds the first bytes of the file, at most 4.
    NotACapture(Vec<u8>),
    /// The file header is truncated after this number of bytes.
    HeaderCut(usize),
    /// No packet has a supported link type; holds the first unsupported one.
    LinkType(LinkType),
    /// I/O error; holds the reason.
    Unreadable(String),
    /// The capture contains no complete packet.
    NoPackets(Tail),
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str(
                "the file is empty: record it again, for example with `tcpdump -i eth0 -w FILE`",
            ),
            Self::NotACapture(first) if first.starts_with(&[0x1f, 0x8b]) => {
                f.write_str("the file is compressed: run `gunzip` on it first")
            }
            Self::NotACapture(first) => write!(
                f,
                "neither pcap nor pcapng: the file begins with {first:02x?}; \
                 `editcap -F pcapng IN OUT` converts other capture formats"
            ),
            Self::HeaderCut(bytes) => write!(
                f,
                "the file is truncated within its header, after {bytes} bytes: record or copy it \
                 again"
            ),
            Self::LinkType(link) => write!(
                f,
                "unsupported link type {link}; supported are Ethernet, Linux cooked, raw IP and \
                 BSD loopback"
            ),
            Self::Unreadable(why) => f.write_str(why),
            Self::NoPackets(Tail::Whole) => {
                f.write_str("the capture contains no packets: record again while there is traffic")
            }
            Self::NoPackets(_) => f.write_str(
                "the capture is truncated or damaged before its first complete packet: record or \
                 copy it again",
            ),
        }
    }
}

impl std::error::Error for CaptureError {}

/// Reads a pcap or pcapng file and passes its packets to `each`, in file order.
///
/// # Errors
/// Returns an error if the file is not a capture or has no usable packet.
pub fn scan(
    from: impl Read,
    each: impl FnMut(&CapturedPacket<'_>) -> Flow,
) -> Result<Contents, CaptureError> {
    let mut input = Input::new(from);
    input.take(4)?;
    let first = input.buffer().to_vec();
    if first.is_empty() {
        return Err(CaptureError::Empty);
    }
    let contents = Contents::default();
    let mut scan = Scan { input, contents, other_link: None, scratch: Vec::new(), each };
    if let Some(format) = pcap::Format::from_magic(&first) {
        pcap::scan(&mut scan, format)?;
    } else if first == pcapng::MAGIC {
        pcapng::scan(&mut scan)?;
    } else {
        return Err(CaptureError::NotACapture(first));
    }
    let Scan { contents, other_link, .. } = scan;
    match other_link {
        _ if contents.packets > 0 => Ok(contents),
        Some(link) => Err(CaptureError::LinkType(link)),
        None => Err(CaptureError::NoPackets(contents.tail)),
    }
}

/// Byte order of a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// Returns the 16-bit number at offset `at`; `None` if out of bounds.
    fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let word = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u16::from_le_bytes(word),
            Self::Big => u16::from_be_bytes(word),
        })
    }

    /// Returns the 32-bit number at offset `at`; `None` if out of bounds.
    fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let word = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(word),
            Self::Big => u32::from_be_bytes(word),
        })
    }

    /// Returns the 64-bit number at offset `at`; `None` if out of bounds.
    fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let word = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u64::from_le_bytes(word),
            Self::Big => u64::from_be_bytes(word),
        })
    }
}
