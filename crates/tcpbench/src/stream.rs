// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data that applications send, and the descriptor rings into which they receive.
//!
//! A byte's position in the stream determines its value, so the receiver can compare every byte. It
//! does so when its ring is full. The comparison is not timed, because the measured work ends when
//! the data has reached the application.

/// Minimum stream period in bytes.
const PERIOD_MIN: usize = 1 << 20;

/// Maximum number of bytes that [`Stream::piece`] returns.
pub const PIECE: usize = 1 << 16;

/// An endless, periodic stream of pseudo-random bytes.
#[derive(Clone, Debug)]
pub struct Stream {
    /// One period, followed by a copy of its beginning.
    bytes: Vec<u8>,
    period: usize,
}

impl Stream {
    /// Creates the stream for a seed and a connection with `buffer`-byte buffers at each end. Its
    /// period exceeds the total size of both buffers, so that a byte cannot be mistaken for the
    /// byte one period away.
    pub fn new(seed: u64, buffer: usize) -> Self {
        let period = (2 * buffer + 1).next_power_of_two().max(PERIOD_MIN);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bytes = vec![0; period];
        random.fill(&mut bytes);
        bytes.extend_from_within(..PIECE);
        Self { bytes, period }
    }

    /// Returns up to [`PIECE`] bytes, starting at a position.
    pub fn piece(&self, position: u64, bytes: usize) -> &[u8] {
        let at = (position % self.period as u64) as usize;
        &self.bytes[at..][..bytes]
    }

    /// Returns the first difference from the stream: its index and the expected byte.
    pub fn difference(&self, position: u64, bytes: &[u8]) -> Option<(usize, u8)> {
        let mut done = 0;
        for part in bytes.chunks(PIECE) {
            let sent = self.piece(position + done as u64, part.len());
            if sent != part {
                let index = sent.iter().zip(part).position(|(a, b)| a != b)?;
                return Some((done + index, sent[index]));
            }
            done += part.len();
        }
        None
    }
}

/// Destination for received bytes: a ring of descriptors.
#[derive(Debug)]
pub struct Sink {
    storage: Vec<u8>,
    /// Number of bytes that the application requests at once.
    room: usize,
    /// Start and length of each descriptor filled since the last comparison.
    filled: Vec<(usize, usize)>,
    /// Start of the next descriptor.
    next: usize,
    /// Stream position of the first filled descriptor.
    position: u64,
    /// Number of bytes received so far.
    received: u64,
}

/// The first received byte that differs from the byte sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Position of the byte in the stream.
    pub byte: u64,
    /// The byte that was sent.
    pub expected: u8,
    /// The byte that was received.
    pub got: u8,
}

/// Ring size in bytes. Fits in L2 together with a connection's buffers.
const RING_BYTES: usize = 1 << 17;

/// Descriptor alignment in bytes.
const ALIGNMENT: usize = 16;

impl Sink {
    /// Creates a sink for an application that reads up to this many bytes at once.
    pub fn new(room: usize) -> Self {
        let storage = vec![0; RING_BYTES.max(room)];
        let filled = Vec::with_capacity(storage.len() / ALIGNMENT);
        Self { storage, room, filled, next: 0, position: 0, received: 0 }
    }

    /// Returns whether the received data must be compared before more can be received.
    pub fn is_full(&self) -> bool {
        self.storage.len() - self.next < self.room
    }

    /// Returns the next descriptor for writing. Must not be called if the sink
    /// [`is_full`](Self::is_full).
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.storage[self.next..][..self.room]
    }

    /// Records that this many bytes were written to the descriptor.
    pub fn fill(&mut self, bytes: usize) {
        self.filled.push((self.next, bytes));
        self.next = (self.next + bytes).next_multiple_of(ALIGNMENT).min(self.storage.len());
        self.received += bytes as u64;
    }

    /// Returns the number of bytes received so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Compares the received data with the data sent, and empties the ring. Returns the first
    /// difference.
    pub fn compare(&mut self, stream: &Stream) -> Option<Difference> {
        let mut first = None;
        for &(at, bytes) in &self.filled {
            let arrived = &self.storage[at..][..bytes];
            if let (None, Some((index, expected))) =
                (first, stream.difference(self.position, arrived))
            {
                let byte = self.position + index as u64;
                first = Some(Difference { byte, expected, got: arrived[index] });
            }
            self.position += bytes as u64;
        }
        self.filled.clear();
        self.next = 0;
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_repeats_after_its_period_and_not_before() {
        let stream = Stream::new(1, 0);
        let period = PERIOD_MIN as u64;
        assert_eq!(stream.piece(period - 10, 20), stream.piece(2 * period - 10, 20));
        assert_eq!(stream.piece(3, 8), &stream.piece(0, 11)[3..]);
        for shift in [1, 2, 1460, 8000, 65_536, period / 2] {
            assert_ne!(stream.piece(0, 64), stream.piece(shift, 64), "{shift}");
        }
    }

    #[test]
    fn nothing_that_both_ends_hold_is_alike() {
        for buffer in [16 << 10, 256 << 10, 512 << 10, 1_000_000, 4 << 20] {
            let stream = Stream::new(1, buffer);
            for shift in (1..=2 * buffer as u64 / 4096).map(|pages| 4096 * pages) {
                assert_ne!(stream.piece(7, 64), stream.piece(7 + shift, 64), "{buffer} {shift}");
            }
        }
    }

    #[test]
    fn every_byte_of_a_sink_is_compared() {
        let stream = Stream::new(2, 0);
        let lengths = [1, 100, 99, 7, 100];
        let total: usize = lengths.iter().sum();
        for wrong in (0..total).map(Some).chain([None]) {
            let mut sink = Sink::new(100);
            let mut position = 0;
            for bytes in lengths {
                sink.room()[..bytes].copy_from_slice(stream.piece(position as u64, bytes));
                if let Some(at) = wrong.and_then(|wrong| wrong.checked_sub(position))
                    && at < bytes
                {
                    sink.room()[at] ^= 0x10;
                }
                sink.fill(bytes);
                position += bytes;
            }
            let found = sink.compare(&stream);
            assert_eq!(found.map(|difference| difference.byte as usize), wrong);
            assert_eq!(sink.received(), total as u64);
            assert_eq!(sink.compare(&stream), None, "compared data is removed");
        }
    }

    #[test]
    fn a_difference_behind_the_first_piece_is_found() {
        let stream = Stream::new(3, 0);
        let mut bytes = [stream.piece(5, PIECE), stream.piece(5 + PIECE as u64, 10)].concat();
        assert_eq!(stream.difference(5, &bytes), None);
        let right = std::mem::replace(&mut bytes[PIECE + 3], 0);
        bytes[PIECE + 3] = !right;
        assert_eq!(stream.difference(5, &bytes), Some((PIECE + 3, right)));
    }
}
