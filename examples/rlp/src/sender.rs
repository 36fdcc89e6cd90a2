// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cuts a byte stream into frames, and retransmits on request.
//!
//! A single ring holds the stream: byte `n` is at index `n` modulo the ring size. New bytes are
//! appended at the head; frames are cut behind it; sent bytes remain available for retransmission
//! until new bytes overwrite them.
//!
//! ```text
//!          overwritten    | can be retransmitted   | waits to be cut |
//!  -----------------------+------------------------+-----------------+
//!                 appended - ring                 cut            appended
//! ```
//!
//! Ranges requested by NAKs are queued, and sent before new data. A range that was never sent is
//! rejected; if part of a range has been overwritten, the rest is sent. Every copy of a NAK is
//! answered: the receiver sends copies to get several answers.
//!
//! The protocol has neither acknowledgements nor flow control.

use crate::frame::{ByteRange, FRAME_HEADER_BYTES, MAX_FRAME_BYTES, Writer};
use crate::unwrap_near;
use std::collections::VecDeque;

/// Maximum ranges queued for retransmission.
const MAX_QUEUED: usize = 64;

/// Frame size and ring size of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Stream bytes per frame, 1 to [`MAX_FRAME_BYTES`].
    pub frame_bytes: usize,
    /// Ring size in bytes: a power of two, at least two frames, at most 2^30.
    pub ring_bytes: usize,
}

impl Default for Limits {
    /// 128 bytes per frame, and a 16 KiB ring.
    fn default() -> Self {
        Self { frame_bytes: 128, ring_bytes: 16 << 10 }
    }
}

impl Limits {
    /// Returns an error message with the valid range if a size is invalid.
    pub fn fault(&self) -> Option<String> {
        let Self { frame_bytes, ring_bytes } = *self;
        if !(1..=MAX_FRAME_BYTES).contains(&frame_bytes) {
            return Some(format!(
                "invalid frame size {frame_bytes}; expected 1 to {MAX_FRAME_BYTES} bytes"
            ));
        }
        let least = (2 * frame_bytes).next_power_of_two();
        if !ring_bytes.is_power_of_two() || !(least..=1 << 30).contains(&ring_bytes) {
            return Some(format!(
                "invalid ring size {ring_bytes}; expected a power of two, at least {least} bytes \
                 for frames of {frame_bytes}"
            ));
        }
        None
    }
}

/// Sender statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames cut from the stream.
    pub frames: u64,
    /// Frames retransmitted.
    pub frames_again: u64,
    /// Bytes retransmitted.
    pub bytes_again: u64,
    /// Requested ranges that were never sent.
    pub nak_unsent: u64,
    /// Requested ranges partly or completely overwritten in the ring.
    pub nak_gone: u64,
    /// Requested ranges dropped because the queue was full.
    pub nak_overflow: u64,
}

/// A range queued for retransmission.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    first: u64,
    end: u64,
}

// docs/rlp.md states the memory per session, which depends on this size.
const _: () = assert!(size_of::<Wanted>() == 16);

/// A session's sending half.
#[derive(Clone, Debug)]
pub struct Sender {
    ring: Box<[u8]>,
    frame_bytes: usize,
    /// Number of the next byte to be appended.
    appended: u64,
    /// Number of the next byte to be sent for the first time.
    cut: u64,
    wanted: VecDeque<Wanted>,
    /// Bytes queued in `wanted`; at most the ring size.
    wanted_bytes: u64,
    counts: Counts,
}

impl Sender {
    /// Creates a sender with an empty stream.
    ///
    /// # Panics
    /// Panics if the limits have a [fault](Limits::fault).
    pub fn new(limits: Limits) -> Self {
        if let Some(fault) = limits.fault() {
            panic!("{fault}");
        }
        Self {
            ring: vec![0; limits.ring_bytes].into(),
            frame_bytes: limits.frame_bytes,
            appended: 0,
            cut: 0,
            wanted: VecDeque::with_capacity(MAX_QUEUED),
            wanted_bytes: 0,
            counts: Counts::default(),
        }
    }

    /// Appends bytes to the stream.
    ///
    /// Returns `false`, and appends nothing, if the ring has no room for them in addition to the
    /// unsent bytes.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) -> bool {
        if self.pending() + bytes.len() > self.ring.len() {
            return false;
        }
        let at = self.place(self.appended);
        let head = bytes.len().min(self.ring.len() - at);
        self.ring[at..at + head].copy_from_slice(&bytes[..head]);
        self.ring[..bytes.len() - head].copy_from_slice(&bytes[head..]);
        self.appended += bytes.len() as u64;
        true
    }

    /// Returns how many bytes are waiting to be cut.
    #[inline]
    pub fn pending(&self) -> usize {
        (self.appended - self.cut) as usize
    }

    /// Returns an upper bound on the bytes that [`Sender::emit`] would write after the packet
    /// header, given enough room. It writes fewer if requested bytes have been overwritten.
    #[inline]
    pub fn wire_bytes(&self, flush: bool) -> usize {
        let again: usize = self.wanted.iter().map(|w| self.wire((w.end - w.first) as usize)).sum();
        let pending = self.pending();
        let new = if flush { pending } else { pending - pending % self.frame_bytes };
        again + self.wire(new)
    }

    fn wire(&self, bytes: usize) -> usize {
        bytes + bytes.div_ceil(self.frame_bytes) * FRAME_HEADER_BYTES
    }

    /// Queues the ranges requested by a NAK.
    pub fn serve(&mut self, ranges: impl IntoIterator<Item = ByteRange>) {
        for range in ranges {
            self.want(range);
        }
    }

    fn want(&mut self, range: ByteRange) {
        let first = unwrap_near(range.first, self.cut);
        let end = first + i64::from(range.bytes);
        if end > self.cut as i64 {
            self.counts.nak_unsent += 1;
            return;
        }
        let oldest = self.oldest();
        if first < oldest as i64 {
            self.counts.nak_gone += 1;
        }
        if end <= oldest as i64 {
            return;
        }
        // Both are positive: `end` is above `oldest`, and `first` is raised to `oldest`.
        let (first, end) = ((first.max(oldest as i64)) as u64, end as u64);
        let bytes = end - first;
        if self.wanted.len() == MAX_QUEUED || self.wanted_bytes + bytes > self.ring.len() as u64 {
            self.counts.nak_overflow += 1;
            return;
        }
        self.wanted.push_back(Wanted { first, end });
        self.wanted_bytes += bytes;
    }

    /// Writes as many frames as fit: retransmissions first, then new data. A partial frame waits
    /// unless `flush` is set, in which case it is sent short. Frames are not shortened to fit.
    #[inline]
    pub fn emit(&mut self, writer: &mut Writer<'_>, flush: bool) {
        if !self.wanted.is_empty() && !self.emit_again(writer) {
            return;
        }
        loop {
            let bytes = self.pending().min(self.frame_bytes);
            if bytes == 0 || (bytes < self.frame_bytes && !flush) {
                return;
            }
            if !writer.data(self.cut as u32, self.pieces(self.cut, bytes), false) {
                return;
            }
            self.cut += bytes as u64;
            self.counts.frames += 1;
        }
    }

    /// Writes the queued retransmissions. Returns whether all of them fit.
    fn emit_again(&mut self, writer: &mut Writer<'_>) -> bool {
        while let Some(mut wanted) = self.wanted.pop_front() {
            self.wanted_bytes -= wanted.end - wanted.first;
            let oldest = self.oldest();
            if wanted.first < oldest {
                self.counts.nak_gone += 1;
                wanted.first = oldest.min(wanted.end);
            }
            while wanted.first < wanted.end {
                let bytes = ((wanted.end - wanted.first) as usize).min(self.frame_bytes);
                let pieces = self.pieces(wanted.first, bytes);
                if !writer.data(wanted.first as u32, pieces, true) {
                    self.wanted_bytes += wanted.end - wanted.first;
                    self.wanted.push_front(wanted);
                    return false;
                }
                wanted.first += bytes as u64;
                self.counts.frames_again += 1;
                self.counts.bytes_again += bytes as u64;
            }
        }
        true
    }

    /// Returns the wire number of the next new byte, for an idle frame.
    #[inline]
    pub fn next(&self) -> u32 {
        self.cut as u32
    }

    /// Returns whether no retransmission is queued.
    #[inline]
    pub fn is_served(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Returns the statistics.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the number of the oldest byte still in the ring.
    #[inline]
    fn oldest(&self) -> u64 {
        self.appended.saturating_sub(self.ring.len() as u64)
    }

    /// Returns a byte's index in the ring.
    #[inline]
    fn place(&self, number: u64) -> usize {
        number as usize & (self.ring.len() - 1)
    }

    /// Returns bytes from number `first` on, in up to two pieces because the ring may wrap. All of
    /// them must be in the ring.
    #[inline]
    fn pieces(&self, first: u64, bytes: usize) -> [&[u8]; 2] {
        let at = self.place(first);
        let head = bytes.min(self.ring.len() - at);
        [&self.ring[at..at + head], &self.ring[..bytes - head]]
    }
}

#[cfg(test)]
mod tests;
