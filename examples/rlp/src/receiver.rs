// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reassembles the byte stream from frames, and requests missing bytes.
//!
//! Byte `n` is at index `n` modulo the ring size; missing bytes are kept as a list of holes.
//!
//! ```text
//!    delivered   | ready    hole   here   hole   here | not seen
//!  --------------+--------+======+------+======+------+----------
//!              taken                               expected      taken + ring
//! ```
//!
//! A frame beyond `expected` opens a hole. A hole is requested in rounds: round `r` sends the
//! configured number of NAKs, then a timer runs; when it expires, the next round begins, and after
//! the last one the hole is abandoned. The reader gets abandoned holes at their position in the
//! stream, so that bytes sent = bytes taken + bytes abandoned, in order.
//!
//! A hole is also abandoned when a frame shows that the sender's ring no longer has its bytes (both
//! rings have the same size). A frame too far ahead for the ring is considered damaged unless the
//! next frame continues it. If the next frame does, the link must have been down for a long time,
//! and all earlier bytes are abandoned.
//!
//! The caller passes the time as `now`, in ticks of its own; it must never decrease.
//!
//! What the bytes mean is up to the caller. The protocol has no acknowledgements.

mod holes;

use crate::frame::NakList;
use crate::unwrap_near;
use holes::Holes;

/// Maximum number of holes tracked.
pub const MAX_HOLES: usize = 128;
/// Maximum number of rounds, unless unlimited.
pub const MAX_ROUNDS: usize = 8;

/// NAK rounds for a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// NAK copies per round.
    copies: [u8; MAX_ROUNDS],
    /// Number of rounds; `None` for unlimited rounds of one NAK each.
    limit: Option<u8>,
}

impl Rounds {
    /// Unlimited rounds of one NAK each.
    pub const UNLIMITED: Self = Self { copies: [1; MAX_ROUNDS], limit: None };

    /// Returns rounds with these numbers of NAKs. An empty list abandons every hole immediately.
    /// `None` for more than [`MAX_ROUNDS`] rounds or a round without a NAK.
    pub fn new(copies: &[u8]) -> Option<Self> {
        if copies.len() > MAX_ROUNDS || copies.contains(&0) {
            return None;
        }
        let mut all = [1; MAX_ROUNDS];
        all[..copies.len()].copy_from_slice(copies);
        Some(Self { copies: all, limit: Some(copies.len() as u8) })
    }

    /// Returns the number of NAKs in a round; rounds are counted from 0. `None` after the last
    /// round.
    fn copies(&self, round: u8) -> Option<u8> {
        match self.limit {
            Some(limit) if round >= limit => None,
            Some(_) => Some(self.copies[usize::from(round)]),
            None => Some(1),
        }
    }
}

/// A receiver's ring size and NAK timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Ring size in bytes: a power of two from 2 to 2^30, the same as the sender's.
    pub ring_bytes: usize,
    /// NAK rounds for a hole.
    pub rounds: Rounds,
    /// Ticks from a round's last NAK to the next round; must exceed a round trip.
    pub timer_ticks: u64,
}

/// Why bytes were rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// Already received or delivered.
    Duplicate,
    /// Abandoned before.
    Late,
    /// No room in the ring yet: earlier bytes are missing, or have not been taken.
    Window,
    /// Hole limit reached.
    Holes,
    /// The number is beyond the expected one by more than the ring size.
    Jump,
}

/// Names of [`Refusal`], in declaration order.
pub const REFUSAL_NAMES: [&str; 5] = ["duplicate", "late", "window", "holes", "jump"];

/// Receiver statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames rejected, by [`Refusal`].
    pub refused: [u64; REFUSAL_NAMES.len()],
    /// Holes detected.
    pub holes: u64,
    /// NAK lists returned for sending.
    pub naks: u64,
    /// Holes abandoned.
    pub aborts: u64,
    /// Bytes abandoned.
    pub aborted_bytes: u64,
}

/// Result of [`Receiver::take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Bytes delivered.
    Bytes(usize),
    /// The next bytes in the stream were abandoned.
    Aborted {
        /// First abandoned byte.
        first: u64,
        /// How many bytes were abandoned.
        bytes: u64,
    },
    /// The next byte has not arrived, or the output has no room.
    Nothing,
}

/// A session's receiving half.
#[derive(Clone, Debug)]
pub struct Receiver {
    ring: Box<[u8]>,
    /// Number of the next byte to deliver.
    taken: u64,
    /// One past the highest byte seen.
    expected: u64,
    holes: Holes,
    /// First byte of the next frame if it continues one that was considered damaged.
    resume: Option<u64>,
    counts: Counts,
}

impl Receiver {
    /// Creates a receiver that expects byte 0.
    ///
    /// # Panics
    /// Panics if the ring size is not a power of two from 2 to 2^30.
    pub fn new(limits: Limits) -> Self {
        let bytes = limits.ring_bytes;
        assert!(
            bytes.is_power_of_two() && (2..=1 << 30).contains(&bytes),
            "invalid ring size {bytes}; expected a power of two from 2 to {}",
            1 << 30
        );
        Self {
            ring: vec![0; bytes].into(),
            taken: 0,
            expected: 0,
            holes: Holes::new(limits.rounds, limits.timer_ticks),
            resume: None,
            counts: Counts::default(),
        }
    }

    /// Processes a data frame, or an idle frame if `bytes` is empty.
    ///
    /// Writes only missing bytes; bytes that were received earlier keep their value.
    ///
    /// # Errors
    /// Returns the reason if the whole frame is rejected.
    #[inline]
    pub fn receive(&mut self, wire: u32, bytes: &[u8]) -> Result<(), Refusal> {
        let result = self.accept(unwrap_near(wire, self.expected), bytes);
        if let Err(refusal) = result {
            self.counts.refused[refusal as usize] += 1;
        }
        result
    }

    #[inline]
    fn accept(&mut self, first: i64, bytes: &[u8]) -> Result<(), Refusal> {
        let end = first + bytes.len() as i64;
        let room = (self.taken + self.ring.len() as u64) as i64;
        if first == self.expected as i64 && end <= room {
            self.write(self.expected, bytes);
            self.expected = end as u64;
            self.resume = None;
            return Ok(());
        }
        if first > self.expected as i64 {
            // Both are positive: they are above `expected`.
            self.check_beyond(first as u64, end as u64)?;
        }
        if end > room {
            self.holes.give_up_below(end as u64 - self.ring.len() as u64, &mut self.counts);
            return Err(Refusal::Window);
        }
        self.resume = None;
        self.fill(first, bytes)
    }

    /// Opens the hole between `expected` and a frame beyond it, if the frame is acceptable.
    #[cold]
    fn check_beyond(&mut self, first: u64, end: u64) -> Result<(), Refusal> {
        let ring = self.ring.len() as u64;
        if first - self.expected > ring {
            if self.resume != Some(first) {
                self.resume = Some(end);
                return Err(Refusal::Jump);
            }
            self.holes.give_up_below(u64::MAX, &mut self.counts);
            return self.open(first, true);
        }
        if end > self.taken + ring {
            return Ok(());
        }
        self.open(first, false)
    }

    /// Opens a hole from `expected` to `end`, and abandons it immediately if `given_up`.
    fn open(&mut self, end: u64, given_up: bool) -> Result<(), Refusal> {
        if self.holes.is_full() {
            return Err(Refusal::Holes);
        }
        let at = self.holes.open(self.expected, end, &mut self.counts);
        self.expected = end;
        match given_up {
            true => self.holes.give_up(at, &mut self.counts),
            false => self.holes.begin_round(at, &mut self.counts),
        }
        Ok(())
    }

    /// Writes `bytes`, which start at number `first`, where bytes are missing. The ring must have
    /// room for all of them.
    fn fill(&mut self, first: i64, bytes: &[u8]) -> Result<(), Refusal> {
        let end = first + bytes.len() as i64;
        if bytes.is_empty() {
            return Ok(());
        }
        if end <= self.taken as i64 {
            return Err(Refusal::Duplicate);
        }
        let before = self.expected;
        let mut result = Err(Refusal::Duplicate);
        if end > before as i64 {
            let from = first.max(before as i64);
            self.write(from as u64, &bytes[(from - first) as usize..]);
            self.expected = end as u64;
            result = Ok(());
        }
        let mut at = self.holes.place(first);
        while let Some(&hole) = self.holes.get(at).filter(|hole| (hole.first as i64) < end) {
            if hole.given_up {
                result = result.or(Err(Refusal::Late));
                at += 1;
                continue;
            }
            let (from, to) = ((hole.first as i64).max(first), (hole.end as i64).min(end));
            match self.holes.narrow(at, from as u64, to as u64) {
                Some(next) => {
                    let piece = &bytes[(from - first) as usize..(to - first) as usize];
                    self.write(from as u64, piece);
                    at = next;
                    result = Ok(());
                }
                None => {
                    at += 1;
                    result = result.or(Err(Refusal::Holes));
                }
            }
        }
        result
    }

    /// Ends the rounds whose timers have expired.
    #[inline]
    pub fn tick(&mut self, now: u64) {
        self.holes.tick(now, &mut self.counts);
    }

    /// Returns whether a NAK is due.
    #[inline]
    pub fn wants_nak(&self) -> bool {
        self.holes.wants_nak()
    }

    /// Returns the next NAK to send, if any. Copies are returned as separate lists, for separate
    /// packets.
    pub fn next_nak(&mut self, now: u64) -> Option<NakList> {
        if !self.wants_nak() {
            return None;
        }
        self.counts.naks += 1;
        Some(self.holes.next_nak(now))
    }

    /// Returns how many contiguous bytes [`Receiver::take`] can deliver before the next hole.
    #[inline]
    pub fn ready(&self) -> usize {
        let end = self.holes.first().map_or(self.expected, |hole| hole.first);
        (end - self.taken) as usize
    }

    /// Delivers the stream's next bytes, as many as fit in `out`.
    #[inline]
    pub fn take(&mut self, out: &mut [u8]) -> Taken {
        let bytes = self.ready().min(out.len());
        if bytes > 0 {
            let at = self.place(self.taken);
            let head = bytes.min(self.ring.len() - at);
            out[..head].copy_from_slice(&self.ring[at..at + head]);
            out[head..bytes].copy_from_slice(&self.ring[..bytes - head]);
            self.taken += bytes as u64;
            return Taken::Bytes(bytes);
        }
        match self.holes.first() {
            Some(&hole) if hole.given_up && hole.first == self.taken => {
                self.holes.pop();
                self.taken = hole.end;
                Taken::Aborted { first: hole.first, bytes: hole.end - hole.first }
            }
            _ => Taken::Nothing,
        }
    }

    /// Returns whether every byte up to the highest seen has been delivered or abandoned.
    pub fn is_settled(&self) -> bool {
        self.taken == self.expected
    }

    /// Returns the statistics.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns a byte's index in the ring.
    #[inline]
    fn place(&self, number: u64) -> usize {
        number as usize & (self.ring.len() - 1)
    }

    #[inline]
    fn write(&mut self, first: u64, bytes: &[u8]) {
        let at = self.place(first);
        let head = bytes.len().min(self.ring.len() - at);
        self.ring[at..at + head].copy_from_slice(&bytes[..head]);
        self.ring[..bytes.len() - head].copy_from_slice(&bytes[head..]);
    }
}

#[cfg(test)]
mod tests;
