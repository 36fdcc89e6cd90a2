// SPDX-License-Identifier: MIT OR Apache-2.0
//! Format of the access side: an Ethernet packet of one session that bundles RLP frames.
//!
//! ```text
//!  0              14        15        16          18              22
//!  +--------------+---------+---------+-----------+---------------+--------+--------+--
//!  | Ethernet     | version | frames, | bytes of | session,      | frame  | frame  | ..
//!  | 0x88b5       | 1       | 0..255  | the frames| 32 bits       |        |        |
//!  +--------------+---------+---------+-----------+---------------+--------+--------+--
//!
//!  0        1        2                 4                                8
//!  +--------+--------+-----------------+--------------------------------+--------------
//!  | kind   | 0      | bytes behind   | number of the first byte of   | bytes of the
//!  |        |        | this header     | data; next new one             | stream, or ranges
//!  +--------+--------+-----------------+--------------------------------+--------------
//! ```
//!
//! Kinds: data, retransmitted data, idle (no data; contains the number of the next new byte, so
//! that a lost end is detected), NAK (at most [`MAX_RANGES`] ranges: first byte, number of bytes,
//! 32 bits each; ascending and disjoint; the number in its header is 0). All numbers are
//! big-endian. These widths are this project's own, see docs/rlp.md; 0x88b5 is the EtherType for
//! local experiments (IEEE Std 802).
//!
//! Leaves out: which session exists, and what the numbers mean to it.

mod nak;
mod writer;

pub use nak::{ByteRange, MAX_NAK_BYTES, MAX_RANGES, NakList, Ranges};
pub use writer::Writer;

use crate::envelope::ETHERNET_BYTES;

/// EtherType of the access side: local experiments.
pub const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
const VERSION: u8 = 1;
/// Header of the packet behind the Ethernet header.
const ACCESS_BYTES: usize = 8;
/// Bytes before the first frame.
pub const PACKET_HEADER_BYTES: usize = ETHERNET_BYTES + ACCESS_BYTES;
/// Header of a frame.
pub const FRAME_HEADER_BYTES: usize = 8;
/// Bytes of the stream a frame carries at most.
pub const MAX_FRAME_BYTES: usize = 1024;

const KIND_DATA: u8 = 1;
const KIND_AGAIN: u8 = 2;
const KIND_IDLE: u8 = 3;
const KIND_NAK: u8 = 4;

/// Error in a packet or a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// Another EtherType.
    NotAccess,
    /// Ends within a header, or within what a header promises.
    Cut,
    /// Another version.
    BadVersion,
    /// More or fewer bytes or frames than the header says, or bytes that must be zero are not.
    BadHeader,
    /// Unknown kind of frame.
    BadKind,
    /// Data of no bytes, or of more than a frame may carry; bytes where none belong.
    BadLength,
    /// A list that is empty, too long, out of order, or has an empty range.
    BadNak,
}

/// The names of the faults, in order.
pub const FAULT_NAMES: [&str; 7] =
    ["not_access", "cut", "bad_version", "bad_header", "bad_kind", "bad_length", "bad_nak"];

impl Fault {
    /// Index into [`FAULT_NAMES`].
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'p> {
    /// Bytes of the stream.
    Data {
        /// Number of the first.
        sequence: u32,
        /// 1 to [`MAX_FRAME_BYTES`] bytes.
        bytes: &'p [u8],
        /// Whether they were asked for.
        again: bool,
    },
    /// No new data.
    Idle {
        /// Number of the next new byte.
        sequence: u32,
    },
    /// Bytes that the other side lacks.
    Nak(Ranges<'p>),
}

/// A packet of the access side whose header is in order.
#[derive(Clone, Copy, Debug)]
pub struct Access<'p> {
    /// Key of the session.
    pub session: u32,
    /// Number of frames according to the header.
    pub frames: u8,
    bytes: &'p [u8],
}

/// Whether a packet is for [`parse`] to judge.
#[inline]
pub fn is_access(packet: &[u8]) -> bool {
    packet.get(ETHERNET_BYTES - 2..ETHERNET_BYTES) == Some(&ETHERTYPE)
}

/// Reads the header of a packet that starts at its Ethernet header. Padding behind the frames is
/// left alone.
///
/// # Errors
/// The error in the header; frames are checked one by one, see [`Access::frames`].
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
    /// The frames in order. The first fault ends them.
    #[inline]
    pub fn frames(&self) -> Frames<'p> {
        Frames { rest: self.bytes, left: self.frames }
    }
}

/// The frames of a packet.
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

/// Reads the frame at the start of `bytes`; returns the rest.
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
