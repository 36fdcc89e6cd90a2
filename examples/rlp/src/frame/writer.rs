// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes access-side packets.

use super::nak::RANGE_BYTES;
use super::{
    ETHERTYPE, FRAME_HEADER_BYTES, KIND_AGAIN, KIND_DATA, KIND_IDLE, KIND_NAK, MAX_FRAME_BYTES,
    NakList, PACKET_HEADER_BYTES, VERSION,
};

/// Writes frames one after another, then the packet header in front of them.
#[derive(Debug)]
pub struct Writer<'b> {
    packet: &'b mut [u8],
    /// Bytes written so far, including the space reserved for the header.
    at: usize,
    frames: u8,
}

impl<'b> Writer<'b> {
    /// Starts an empty packet, limited to the length of `packet` and to 65535 bytes of frames.
    /// Returns `None` if not even the header fits.
    #[inline]
    pub fn new(packet: &'b mut [u8]) -> Option<Self> {
        let longest = PACKET_HEADER_BYTES + usize::from(u16::MAX);
        let bytes = packet.len().min(longest);
        (bytes >= PACKET_HEADER_BYTES).then(|| Self {
            packet: &mut packet[..bytes],
            at: PACKET_HEADER_BYTES,
            frames: 0,
        })
    }

    /// Returns how many bytes can follow the header of another frame; `None` if no frame fits.
    #[inline]
    pub fn room(&self) -> Option<usize> {
        let bytes = (self.packet.len() - self.at).checked_sub(FRAME_HEADER_BYTES)?;
        (self.frames < u8::MAX).then_some(bytes)
    }

    /// Writes a data frame, whose bytes come in two pieces because they may wrap around a ring.
    /// Returns `false`, and writes nothing, if it does not fit or is not a valid frame.
    #[inline]
    pub fn data(&mut self, sequence: u32, pieces: [&[u8]; 2], again: bool) -> bool {
        let bytes = pieces[0].len() + pieces[1].len();
        if bytes == 0 || bytes > MAX_FRAME_BYTES {
            return false;
        }
        let kind = if again { KIND_AGAIN } else { KIND_DATA };
        let Some(body) = self.frame(kind, sequence, bytes) else {
            return false;
        };
        let (head, tail) = body.split_at_mut(pieces[0].len());
        head.copy_from_slice(pieces[0]);
        tail.copy_from_slice(pieces[1]);
        true
    }

    /// Writes an idle frame. Returns `false` if it does not fit.
    #[inline]
    pub fn idle(&mut self, sequence: u32) -> bool {
        self.frame(KIND_IDLE, sequence, 0).is_some()
    }

    /// Writes a NAK. Returns `false` if it does not fit or the list is empty.
    pub fn nak(&mut self, list: &NakList) -> bool {
        let ranges = list.ranges();
        if ranges.is_empty() {
            return false;
        }
        let Some(body) = self.frame(KIND_NAK, 0, ranges.len() * RANGE_BYTES) else {
            return false;
        };
        for (entry, range) in body.as_chunks_mut::<RANGE_BYTES>().0.iter_mut().zip(ranges) {
            entry[..4].copy_from_slice(&range.first.to_be_bytes());
            entry[4..].copy_from_slice(&range.bytes.to_be_bytes());
        }
        true
    }

    /// Writes a frame header and returns the space for the `bytes` bytes after it.
    #[inline]
    fn frame(&mut self, kind: u8, sequence: u32, bytes: usize) -> Option<&mut [u8]> {
        if self.room()? < bytes {
            return None;
        }
        let frame = &mut self.packet[self.at..][..FRAME_HEADER_BYTES + bytes];
        let (header, body) = frame.split_first_chunk_mut::<FRAME_HEADER_BYTES>()?;
        header[..2].copy_from_slice(&[kind, 0]);
        // At most 65535: `new` limits the space.
        header[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
        header[4..].copy_from_slice(&sequence.to_be_bytes());
        self.at += FRAME_HEADER_BYTES + bytes;
        self.frames += 1;
        Some(body)
    }

    /// Returns the number of frames written.
    #[inline]
    pub fn frames(&self) -> u8 {
        self.frames
    }

    /// Writes the headers in front of the frames; `ethernet` holds the destination address followed
    /// by the source address. Returns the packet length.
    #[inline]
    pub fn finish(self, ethernet: &[u8; 12], session: u32) -> usize {
        let bytes = (self.at - PACKET_HEADER_BYTES) as u16;
        let header = &mut self.packet[..PACKET_HEADER_BYTES];
        header[..12].copy_from_slice(ethernet);
        header[12..14].copy_from_slice(&ETHERTYPE);
        header[14..16].copy_from_slice(&[VERSION, self.frames]);
        header[16..18].copy_from_slice(&bytes.to_be_bytes());
        header[18..].copy_from_slice(&session.to_be_bytes());
        self.at
    }
}
