// SPDX-License-Identifier: MIT OR Apache-2.0
//! What travels on the access side: an Ethernet packet of one session that bundles RLP frames.
//!
//! ```text
//!  0              14        15        16          18              22
//!  +--------------+---------+---------+-----------+---------------+--------+--------+--
//!  | Ethernet     | version | frames, | octets of | session,      | frame  | frame  | ..
//!  | 0x88b5       | 1       | 0..255  | the frames| 32 bits       |        |        |
//!  +--------------+---------+---------+-----------+---------------+--------+--------+--
//!
//!  0        1        2                 4                                8
//!  +--------+--------+-----------------+--------------------------------+--------------
//!  | kind   | 0      | octets behind   | number of the first octet of   | octets of the
//!  |        |        | this header     | data; next new one             | stream, or ranges
//!  +--------+--------+-----------------+--------------------------------+--------------
//! ```
//!
//! Kinds: data, data sent again, idle (no data; names the next new octet, so that a lost end is
//! found out), NAK (at most [`MAX_RANGES`] ranges: first octet, number of octets, 32 bits each;
//! ascending and apart; the number in its header is 0). All numbers are big-endian. These widths
//! are this project's own, see docs/rlp.md; 0x88b5 is the EtherType for local experiments (IEEE Std
//! 802).
//!
//! Leaves out: which session exists, and what the numbers mean to it.

use crate::envelope::ETHERNET_OCTETS;

/// EtherType of the access side: local experiments.
pub const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
const VERSION: u8 = 1;
/// Header of the packet behind the Ethernet header.
const ACCESS_OCTETS: usize = 8;
/// What stands in front of the first frame.
pub const PACKET_HEADER_OCTETS: usize = ETHERNET_OCTETS + ACCESS_OCTETS;
/// Header of a frame.
pub const FRAME_HEADER_OCTETS: usize = 8;
/// Octets of the stream a frame carries at most.
pub const MAX_FRAME_OCTETS: usize = 1024;
/// Ranges in a NAK at most.
pub const MAX_RANGES: usize = 32;
/// Octets from the first of a list to its end at most: what numbers of 32 bits tell apart.
const MAX_SPAN: u32 = 1 << 31;
const RANGE_OCTETS: usize = 8;
/// Octets of the longest NAK behind the header of its frame.
pub const MAX_NAK_OCTETS: usize = MAX_RANGES * RANGE_OCTETS;

const KIND_DATA: u8 = 1;
const KIND_AGAIN: u8 = 2;
const KIND_IDLE: u8 = 3;
const KIND_NAK: u8 = 4;

/// What is wrong with a packet or a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// Another EtherType.
    NotAccess,
    /// Ends within a header, or within what a header promises.
    Cut,
    /// Another version.
    BadVersion,
    /// More or fewer octets or frames than the header says, or octets that must be zero are not.
    BadHeader,
    /// No kind of frame.
    BadKind,
    /// Data of no octets, or of more than a frame may carry; octets where none belong.
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

/// Octets of a stream, by wire number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OctetRange {
    /// Number of the first.
    pub first: u32,
    /// How many; 1 to 2^31 in a list.
    pub octets: u32,
}

/// The ranges a receiver asks for again, ascending and apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NakList {
    ranges: [OctetRange; MAX_RANGES],
    len: usize,
}

impl Default for NakList {
    fn default() -> Self {
        Self { ranges: [OctetRange::default(); MAX_RANGES], len: 0 }
    }
}

impl NakList {
    /// Adds a range behind the others.
    ///
    /// Returns `false`, and adds nothing, when the list is full, the range empty, or not behind the
    /// last one and within 2^31 octets of the first.
    #[inline]
    pub fn push(&mut self, range: OctetRange) -> bool {
        if range.octets == 0
            || range.octets > MAX_SPAN
            || self.len == MAX_RANGES
            || !self.is_behind(range)
        {
            return false;
        }
        self.ranges[self.len] = range;
        self.len += 1;
        true
    }

    fn is_behind(&self, range: OctetRange) -> bool {
        let (Some(first), Some(last)) = (self.ranges().first(), self.ranges().last()) else {
            return true;
        };
        let to = |number: u32| number.wrapping_sub(first.first);
        // The sum of the last one is below 2^31 by this very check, or it is the first.
        let end = to(range.first).saturating_add(range.octets);
        to(range.first) >= to(last.first) + last.octets && end <= MAX_SPAN
    }

    /// The ranges.
    #[inline]
    pub fn ranges(&self) -> &[OctetRange] {
        &self.ranges[..self.len]
    }
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'p> {
    /// Octets of the stream.
    Data {
        /// Number of the first.
        sequence: u32,
        /// 1 to [`MAX_FRAME_OCTETS`] octets.
        octets: &'p [u8],
        /// Whether they were asked for.
        again: bool,
    },
    /// Nothing new.
    Idle {
        /// Number of the next new octet.
        sequence: u32,
    },
    /// What the other side lacks.
    Nak(Ranges<'p>),
}

/// A packet of the access side whose header is in order.
#[derive(Clone, Copy, Debug)]
pub struct Access<'p> {
    /// Key of the session.
    pub session: u32,
    /// How many frames it says it has.
    pub frames: u8,
    octets: &'p [u8],
}

/// Whether a packet is for [`parse`] to judge.
#[inline]
pub fn is_access(packet: &[u8]) -> bool {
    packet.get(ETHERNET_OCTETS - 2..ETHERNET_OCTETS) == Some(&ETHERTYPE)
}

/// Reads the header of a packet that starts at its Ethernet header. Padding behind the frames is
/// left alone.
///
/// # Errors
/// What is wrong with the header; frames are judged one by one, see [`Access::frames`].
#[inline]
pub fn parse(packet: &[u8]) -> Result<Access<'_>, Fault> {
    if !is_access(packet) {
        return Err(Fault::NotAccess);
    }
    let header: &[u8; ACCESS_OCTETS] = packet[ETHERNET_OCTETS..].first_chunk().ok_or(Fault::Cut)?;
    if header[0] != VERSION {
        return Err(Fault::BadVersion);
    }
    let octets = usize::from(u16::from_be_bytes([header[2], header[3]]));
    Ok(Access {
        session: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
        frames: header[1],
        octets: packet[PACKET_HEADER_OCTETS..].get(..octets).ok_or(Fault::Cut)?,
    })
}

impl<'p> Access<'p> {
    /// The frames in order. The first fault ends them.
    #[inline]
    pub fn frames(&self) -> Frames<'p> {
        Frames { rest: self.octets, left: self.frames }
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
            (_, octets) => read(octets),
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

/// Reads the frame at the start of `octets`; returns what stands behind it.
#[inline]
fn read(octets: &[u8]) -> Result<(Frame<'_>, &[u8]), Fault> {
    let (header, rest) = octets.split_first_chunk::<FRAME_HEADER_OCTETS>().ok_or(Fault::Cut)?;
    let [kind, zero, length @ .., a, b, c, d] = *header;
    let (body, rest) =
        rest.split_at_checked(u16::from_be_bytes(length).into()).ok_or(Fault::Cut)?;
    if zero != 0 {
        return Err(Fault::BadHeader);
    }
    let sequence = u32::from_be_bytes([a, b, c, d]);
    let frame = match kind {
        KIND_DATA | KIND_AGAIN if body.is_empty() || body.len() > MAX_FRAME_OCTETS => {
            return Err(Fault::BadLength);
        }
        KIND_DATA | KIND_AGAIN => Frame::Data { sequence, octets: body, again: kind == KIND_AGAIN },
        KIND_IDLE if !body.is_empty() => return Err(Fault::BadLength),
        KIND_IDLE => Frame::Idle { sequence },
        KIND_NAK if sequence != 0 => return Err(Fault::BadHeader),
        KIND_NAK => Frame::Nak(Ranges::read(body)?),
        _ => return Err(Fault::BadKind),
    };
    Ok((frame, rest))
}

/// The ranges of a NAK as they stand in its packet, found in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges<'p>(&'p [[u8; RANGE_OCTETS]]);

impl<'p> Ranges<'p> {
    fn read(body: &'p [u8]) -> Result<Self, Fault> {
        let (entries, rest) = body.as_chunks::<RANGE_OCTETS>();
        if entries.is_empty() || !rest.is_empty() {
            return Err(Fault::BadNak);
        }
        let mut list = NakList::default();
        for entry in entries {
            if !list.push(range(entry)) {
                return Err(Fault::BadNak);
            }
        }
        Ok(Self(entries))
    }

    /// The ranges, ascending and apart.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = OctetRange> + use<'p> {
        self.0.iter().map(range)
    }
}

fn range([a, b, c, d, e, f, g, h]: &[u8; RANGE_OCTETS]) -> OctetRange {
    OctetRange {
        first: u32::from_be_bytes([*a, *b, *c, *d]),
        octets: u32::from_be_bytes([*e, *f, *g, *h]),
    }
}

/// Writes frames one behind the other, and then the header in front of them.
#[derive(Debug)]
pub struct Writer<'b> {
    packet: &'b mut [u8],
    /// Octets written, the room for the header counted.
    at: usize,
    frames: u8,
}

impl<'b> Writer<'b> {
    /// A packet of no frames, that may become as long as `packet` and 65535 octets of frames.
    ///
    /// Returns `None` when not even the header fits.
    #[inline]
    pub fn new(packet: &'b mut [u8]) -> Option<Self> {
        let longest = PACKET_HEADER_OCTETS + usize::from(u16::MAX);
        let octets = packet.len().min(longest);
        (octets >= PACKET_HEADER_OCTETS).then(|| Self {
            packet: &mut packet[..octets],
            at: PACKET_HEADER_OCTETS,
            frames: 0,
        })
    }

    /// Octets a frame may have behind its header and still fit; `None`: no frame fits.
    #[inline]
    pub fn room(&self) -> Option<usize> {
        let octets = (self.packet.len() - self.at).checked_sub(FRAME_HEADER_OCTETS)?;
        (self.frames < u8::MAX).then_some(octets)
    }

    /// Writes a frame of data, handed over in two pieces because a ring wraps. Returns `false`, and
    /// writes nothing, when it does not fit or is no valid frame.
    #[inline]
    pub fn data(&mut self, sequence: u32, pieces: [&[u8]; 2], again: bool) -> bool {
        let octets = pieces[0].len() + pieces[1].len();
        if octets == 0 || octets > MAX_FRAME_OCTETS {
            return false;
        }
        let kind = if again { KIND_AGAIN } else { KIND_DATA };
        let Some(body) = self.frame(kind, sequence, octets) else {
            return false;
        };
        let (head, tail) = body.split_at_mut(pieces[0].len());
        head.copy_from_slice(pieces[0]);
        tail.copy_from_slice(pieces[1]);
        true
    }

    /// Writes an idle frame; `false` when it does not fit.
    #[inline]
    pub fn idle(&mut self, sequence: u32) -> bool {
        self.frame(KIND_IDLE, sequence, 0).is_some()
    }

    /// Writes a NAK; `false` when it does not fit or asks for nothing.
    pub fn nak(&mut self, list: &NakList) -> bool {
        let ranges = list.ranges();
        if ranges.is_empty() {
            return false;
        }
        let Some(body) = self.frame(KIND_NAK, 0, ranges.len() * RANGE_OCTETS) else {
            return false;
        };
        for (entry, range) in body.as_chunks_mut::<RANGE_OCTETS>().0.iter_mut().zip(ranges) {
            entry[..4].copy_from_slice(&range.first.to_be_bytes());
            entry[4..].copy_from_slice(&range.octets.to_be_bytes());
        }
        true
    }

    /// Writes the header of a frame; returns the room for what follows it.
    #[inline]
    fn frame(&mut self, kind: u8, sequence: u32, octets: usize) -> Option<&mut [u8]> {
        if self.room()? < octets {
            return None;
        }
        let frame = &mut self.packet[self.at..][..FRAME_HEADER_OCTETS + octets];
        let (header, body) = frame.split_first_chunk_mut::<FRAME_HEADER_OCTETS>()?;
        header[..2].copy_from_slice(&[kind, 0]);
        // At most 65535: `new` leaves no room for more.
        header[2..4].copy_from_slice(&(octets as u16).to_be_bytes());
        header[4..].copy_from_slice(&sequence.to_be_bytes());
        self.at += FRAME_HEADER_OCTETS + octets;
        self.frames += 1;
        Some(body)
    }

    /// How many frames were written.
    #[inline]
    pub fn frames(&self) -> u8 {
        self.frames
    }

    /// Writes the headers in front of the frames; `ethernet` is destination, then source. Returns
    /// the octets of the packet.
    #[inline]
    pub fn finish(self, ethernet: &[u8; 12], session: u32) -> usize {
        let octets = (self.at - PACKET_HEADER_OCTETS) as u16;
        let header = &mut self.packet[..PACKET_HEADER_OCTETS];
        header[..12].copy_from_slice(ethernet);
        header[12..14].copy_from_slice(&ETHERTYPE);
        header[14..16].copy_from_slice(&[VERSION, self.frames]);
        header[16..18].copy_from_slice(&octets.to_be_bytes());
        header[18..].copy_from_slice(&session.to_be_bytes());
        self.at
    }
}
