// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a byte stream to frames, with retransmission.
//!
//! One ring of bytes serves both: byte `n` of the stream is at `n` modulo the ring's size. New
//! bytes are appended at the head; frames are cut behind it; sent bytes stay for retransmission
//! until new bytes overwrite them.
//!
//! ```text
//!             gone        | may be sent again      | waits to be cut |
//!  -----------------------+------------------------+-----------------+
//!                 appended - ring                 cut            appended
//! ```
//!
//! Requests of NAKs are queued, and sent before new data. A range that was never sent is rejected;
//! of one that is partly gone, the rest is sent. Every copy of a NAK is answered: the receiver
//! sends copies to get several answers.
//!
//! Leaves out: acknowledgements and flow control, of which the protocol has none.

use crate::frame::{ByteRange, FRAME_HEADER_BYTES, MAX_FRAME_BYTES, Writer};
use crate::unwrap_near;
use std::collections::VecDeque;

/// Ranges that may wait to be sent again.
const MAX_QUEUED: usize = 64;

/// Sizes of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the stream in a frame, 1 to [`MAX_FRAME_BYTES`].
    pub frame_bytes: usize,
    /// Bytes of the ring: a power of two, at least two frames, at most 2^30.
    pub ring_bytes: usize,
}

impl Default for Limits {
    /// 128 bytes a frame, 16 KiB.
    fn default() -> Self {
        Self { frame_bytes: 128, ring_bytes: 16 << 10 }
    }
}

impl Limits {
    /// The error in the sizes, if any, with the fix.
    pub fn fault(&self) -> Option<String> {
        let Self { frame_bytes, ring_bytes } = *self;
        if !(1..=MAX_FRAME_BYTES).contains(&frame_bytes) {
            return Some(format!("a frame of {frame_bytes} bytes; write 1 to {MAX_FRAME_BYTES}"));
        }
        let least = (2 * frame_bytes).next_power_of_two();
        if !ring_bytes.is_power_of_two() || !(least..=1 << 30).contains(&ring_bytes) {
            return Some(format!(
                "a ring of {ring_bytes} bytes; write a power of two, for frames of \
                 {frame_bytes} at least {least}"
            ));
        }
        None
    }
}

/// Statistics of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames cut from the stream.
    pub frames: u64,
    /// Frames sent again.
    pub frames_again: u64,
    /// Bytes sent again.
    pub bytes_again: u64,
    /// Ranges asked for that were never sent.
    pub nak_unsent: u64,
    /// Ranges asked for of which the ring had lost a part or all.
    pub nak_gone: u64,
    /// Ranges asked for that found no place in the queue.
    pub nak_overflow: u64,
}

/// A range that waits to be sent again.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    first: u64,
    end: u64,
}

// docs/rlp.md states what a session takes.
const _: () = assert!(size_of::<Wanted>() == 16);

/// The sending half of a session.
#[derive(Clone, Debug)]
pub struct Sender {
    ring: Box<[u8]>,
    frame_bytes: usize,
    /// Number of the next byte to be appended.
    appended: u64,
    /// Number of the next byte to be cut for the first time.
    cut: u64,
    wanted: VecDeque<Wanted>,
    /// Bytes that wait in `wanted`; at most the ring's size.
    wanted_bytes: u64,
    counts: Counts,
}

impl Sender {
    /// An empty stream.
    ///
    /// # Panics
    /// If the limits have a [fault](Limits::fault).
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

    /// Bytes that wait to be cut.
    #[inline]
    pub fn pending(&self) -> usize {
        (self.appended - self.cut) as usize
    }

    /// Upper bound of the bytes that [`Sender::emit`] would write after the packet's header, given
    /// enough room; fewer if the ring has lost requested bytes.
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

    /// Queues what a NAK asks for.
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
        // Both positive: `end` is above `oldest`, `first` is raised to it.
        let (first, end) = ((first.max(oldest as i64)) as u64, end as u64);
        let bytes = end - first;
        if self.wanted.len() == MAX_QUEUED || self.wanted_bytes + bytes > self.ring.len() as u64 {
            self.counts.nak_overflow += 1;
            return;
        }
        self.wanted.push_back(Wanted { first, end });
        self.wanted_bytes += bytes;
    }

    /// Writes as many frames as fit: retransmissions first, then new data. A partial frame waits,
    /// unless `flush` is set: then it is sent short. Frames are not shortened to fit.
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

    /// Returns whether everything asked for was written.
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

    /// Number of the byte that comes next, for an idle frame.
    #[inline]
    pub fn next(&self) -> u32 {
        self.cut as u32
    }

    /// Whether nothing waits to be sent again.
    #[inline]
    pub fn is_served(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Returns the statistics.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Number of the oldest byte the ring still has.
    #[inline]
    fn oldest(&self) -> u64 {
        self.appended.saturating_sub(self.ring.len() as u64)
    }

    /// Position of a byte in the ring.
    #[inline]
    fn place(&self, number: u64) -> usize {
        number as usize & (self.ring.len() - 1)
    }

    /// The bytes from a number on, which the ring must have.
    #[inline]
    fn pieces(&self, first: u64, bytes: usize) -> [&[u8]; 2] {
        let at = self.place(first);
        let head = bytes.min(self.ring.len() - at);
        [&self.ring[at..at + head], &self.ring[..bytes - head]]
    }
}

#[cfg(test)]
mod tests;
