// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access-side format: an Ethernet packet that bundles one session's RLP frames.
//!
//! ```text
//!  0              14        15        16          18              22
//!  +--------------+---------+---------+-----------+---------------+--------+--------+--
//!  | Ethernet     | version | frames, | bytes of  | session,      | frame  | frame  | ..
//!  | 0x88b5       | 1       | 0..255  | the frames| 32 bits       |        |        |
//!  +--------------+---------+---------+-----------+---------------+--------+--------+--
//!
//!  0        1        2                 4                                8
//!  +--------+--------+-----------------+--------------------------------+--------------
//!  | kind   | 0      | bytes after     | data: number of first byte     | bytes of the
//!  |        |        | this header     | idle: number of next new byte  | stream, or ranges
//!  +--------+--------+-----------------+--------------------------------+--------------
//! ```
//!
//! There are four kinds of frames:
//!
//! - Data, and retransmitted data.
//! - Idle: carries no data, only the number of the next new byte, so that the receiver detects the
//!   loss of the last frames.
//! - NAK: carries up to [`MAX_RANGES`] ranges, ascending and disjoint. A range is the number of its
//!   first byte and its length, 32 bits each. The number in the frame header is 0.
//!
//! All numbers are big-endian. The field widths are this project's own, see docs/rlp.md; 0x88b5 is
//! the EtherType for local experiments (IEEE Std 802).
//!
//! This module only parses and writes frames: sessions and the protocol itself are elsewhere.

mod nak;
mod writer;

pub use nak::{ByteRange, MAX_NAK_BYTES, MAX_RANGES, NakList, Ranges};
pub use writer::Writer;

use crate::envelope::ETHERNET_BYTES;

/// Access-side EtherType, reserved for local experiments.
pub const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
const VERSION: u8 = 1;
/// Length of the packet header after the Ethernet header.
const ACCESS_BYTES: usize = 8;
/// Bytes before the first frame.
pub const PACKET_HEADER_BYTES: usize = ETHERNET_BYTES + ACCESS_BYTES;
/// Frame header length.
pub const FRAME_HEADER_BYTES: usize = 8;
/// Maximum stream bytes per frame.
pub const MAX_FRAME_BYTES: usize = 1024;

const KIND_DATA: u8 = 1;
const KIND_AGAIN: u8 = 2;
const KIND_IDLE: u8 = 3;
const KIND_NAK: u8 = 4;

/// What is wrong with a packet or frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// The EtherType is not [`ETHERTYPE`].
    NotAccess,
    /// The packet ends within a header, or is shorter than a header indicates.
    Cut,
    /// Unknown format version.
    BadVersion,
    /// The number of bytes or frames differs from the number in the header, or a reserved byte is
    /// not zero.
    BadHeader,
    /// Unknown kind of frame.
    BadKind,
    /// Invalid length: a data frame is empty or exceeds the maximum, or a frame of another kind has
    /// bytes where it must have none.
    BadLength,
    /// The NAK list is empty, too long or out of order, or contains an empty range.
    BadNak,
}

/// Fault names, in declaration order.
pub const FAULT_NAMES: [&str; 7] =
    ["not_access", "cut", "bad_version", "bad_header", "bad_kind", "bad_length", "bad_nak"];

impl Fault {
    /// Returns the index into [`FAULT_NAMES`].
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// A parsed RLP frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'p> {
    /// Data, sent for the first time or retransmitted.
    Data {
        /// Number of the first byte.
        sequence: u32,
        /// 1 to [`MAX_FRAME_BYTES`] bytes.
        bytes: &'p [u8],
        /// Whether this is a retransmission.
        again: bool,
    },
    /// Sent when there is no new data.
    Idle {
        /// Number of the next new byte.
        sequence: u32,
    },
    /// Ranges of bytes missing at the other end.
    Nak(Ranges<'p>),
}

/// An access-side packet with a valid header.
#[derive(Clone, Copy, Debug)]
pub struct Access<'p> {
    /// Session key.
    pub session: u32,
    /// Number of frames according to the header.
    pub frames: u8,
    bytes: &'p [u8],
}

/// Returns whether a packet has the access-side EtherType and should be passed to [`parse`].
#[inline]
pub fn is_access(packet: &[u8]) -> bool {
    packet.get(ETHERNET_BYTES - 2..ETHERNET_BYTES) == Some(&ETHERTYPE)
}

/// Parses the header of a packet that starts at its Ethernet header. Padding after the frames is
/// ignored.
///
/// # Errors
/// Returns the fault in the header. Frames are checked one by one, see [`Access::frames`].
#[inline]
pub fn parse(packet: &[u8]) -> Result<Access<'_>, Fault> {
    if !is_access(packet) {
        return Err(Fault::NotAccess);
    }
    let header: &[u8; ACCESS_BYTES] = packet[ETHERNET_BYTES..].first_chunk().ok_or(Fault::Cut)?;
    if header[0] != VERSION {
        return Err(Fault::BadVersion);
    }
    let bytes = usize::from(u16::from_be_bytes([header[2], header[3]]));
    Ok(Access {
        session: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
        frames: header[1],
        bytes: packet[PACKET_HEADER_BYTES..].get(..bytes).ok_or(Fault::Cut)?,
    })
}

impl<'p> Access<'p> {
    /// Iterates over the frames in order, up to the first fault.
    #[inline]
    pub fn frames(&self) -> Frames<'p> {
        Frames { rest: self.bytes, left: self.frames }
    }
}

/// Iterator over the frames of a packet.
#[derive(Clone, Debug)]
pub struct Frames<'p> {
    rest: &'p [u8],
    left: u8,
}

impl<'p> Iterator for Frames<'p> {
    type Item = Result<Frame<'p>, Fault>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let result = match (self.left, self.rest) {
            (0, []) => return None,
            (0, _) => Err(Fault::BadHeader),
            (_, bytes) => read(bytes),
        };
        match result {
            Ok((frame, rest)) => {
                (self.rest, self.left) = (rest, self.left - 1);
                Some(Ok(frame))
            }
            Err(fault) => {
                (self.rest, self.left) = (&[], 0);
                Some(Err(fault))
            }
        }
    }
}

/// Parses the frame at the start of `bytes`, and returns it with the remaining bytes.
#[inline]
fn read(bytes: &[u8]) -> Result<(Frame<'_>, &[u8]), Fault> {
    let (header, rest) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>().ok_or(Fault::Cut)?;
    let [kind, zero, length @ .., a, b, c, d] = *header;
    let (body, rest) =
        rest.split_at_checked(u16::from_be_bytes(length).into()).ok_or(Fault::Cut)?;
    if zero != 0 {
        return Err(Fault::BadHeader);
    }
    let sequence = u32::from_be_bytes([a, b, c, d]);
    let frame = match kind {
        KIND_DATA | KIND_AGAIN if body.is_empty() || body.len() > MAX_FRAME_BYTES => {
            return Err(Fault::BadLength);
        }
        KIND_DATA | KIND_AGAIN => Frame::Data { sequence, bytes: body, again: kind == KIND_AGAIN },
        KIND_IDLE if !body.is_empty() => return Err(Fault::BadLength),
        KIND_IDLE => Frame::Idle { sequence },
        KIND_NAK if sequence != 0 => return Err(Fault::BadHeader),
        KIND_NAK => Frame::Nak(Ranges::read(body)?),
        _ => return Err(Fault::BadKind),
    };
    Ok((frame, rest))
}
