// SPDX-License-Identifier: MIT OR Apache-2.0
//! From frames back to the byte stream, asking for what is missing.
//!
//! Byte `n` is at `n` modulo the size of a ring; missing bytes are a list of holes.
//!
//! ```text
//!    given out   | ready    hole   here   hole   here | not seen
//!  --------------+--------+======+------+======+------+----------
//!              taken                               expected      taken + ring
//! ```
//!
//! A frame beyond `expected` opens a hole. A hole is requested in rounds: round `r` sends the
//! configured number of NAKs, then a timer runs; when it expires, the next round begins, and after
//! the last one the hole is abandoned. The reader gets abandoned holes at their position in the
//! stream, so that bytes sent = bytes taken + bytes abandoned, in order.
//!
//! A hole is also abandoned when a frame shows that the sender's ring no longer has it (the rings
//! of both ends have the same size). A frame far beyond the ring counts as damaged, until the next
//! one continues it: then the link was down for long, and everything before is abandoned.
//!
//! Time is the number `now`, in ticks of the caller, that never decreases.
//!
//! Not here: the meaning of the bytes; reporting received bytes to the sender.

mod holes;

use crate::frame::NakList;
use crate::unwrap_near;
use holes::Holes;

/// Maximum number of holes tracked.
pub const MAX_HOLES: usize = 128;
/// Rounds at most, unless unlimited.
pub const MAX_ROUNDS: usize = 8;

/// Rounds of requests for a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// NAKs of each round.
    copies: [u8; MAX_ROUNDS],
    /// Rounds; `None`: without end, one NAK each.
    limit: Option<u8>,
}

impl Rounds {
    /// Rounds of one NAK each, without end.
    pub const UNLIMITED: Self = Self { copies: [1; MAX_ROUNDS], limit: None };

    /// Rounds with these numbers of NAKs; without rounds every hole is abandoned at once.
    ///
    /// Returns `None` for more than [`MAX_ROUNDS`], or a round of no NAK.
    pub fn new(copies: &[u8]) -> Option<Self> {
        if copies.len() > MAX_ROUNDS || copies.contains(&0) {
            return None;
        }
        let mut all = [1; MAX_ROUNDS];
        all[..copies.len()].copy_from_slice(copies);
        Some(Self { copies: all, limit: Some(copies.len() as u8) })
    }

    /// NAKs of a round, from 0; `None` behind the last.
    fn copies(&self, round: u8) -> Option<u8> {
        match self.limit {
            Some(limit) if round >= limit => None,
            Some(_) => Some(self.copies[usize::from(round)]),
            None => Some(1),
        }
    }
}

/// Sizes and times of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the ring: a power of two from 2 to 2^30; the sender's.
    pub ring_bytes: usize,
    /// Rounds of requests for a hole.
    pub rounds: Rounds,
    /// Ticks from the last NAK of a round to the next round: more than a round trip.
    pub timer_ticks: u64,
}

/// Reasons for rejecting bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// Already received or delivered.
    Duplicate,
    /// They were given up.
    Late,
    /// The ring has no room for them yet: bytes in front of them are missing or not taken.
    Window,
    /// The maximum number of holes is reached.
    Holes,
    /// They are far from all seen before.
    Jump,
}

/// The names of [`Refusal`], in order.
pub const REFUSAL_NAMES: [&str; 5] = ["duplicate", "late", "window", "holes", "jump"];

/// Statistics of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames refused, by [`Refusal`].
    pub refused: [u64; REFUSAL_NAMES.len()],
    /// Holes found.
    pub holes: u64,
    /// Lists handed out to be sent.
    pub naks: u64,
    /// Holes given up.
    pub aborts: u64,
    /// Bytes given up.
    pub aborted_bytes: u64,
}

/// Result of [`Receiver::take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The next bytes of the stream: their number.
    Bytes(usize),
    /// The next bytes of the stream were given up.
    Aborted {
        /// Number of the first.
        first: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// The next byte has not arrived, or there is no room for it.
    Nothing,
}

/// The receiving half of a session.
#[derive(Clone, Debug)]
pub struct Receiver {
    ring: Box<[u8]>,
    /// Number of the next byte to deliver.
    taken: u64,
    /// One more than the highest number seen.
    expected: u64,
    holes: Holes,
    /// The continuation of a frame that counted as damaged.
    resume: Option<u64>,
    counts: Counts,
}

impl Receiver {
    /// Expects byte 0.
    ///
    /// # Panics
    /// If the ring's size is not a power of two from 2 to 2^30.
    pub fn new(limits: Limits) -> Self {
        let bytes = limits.ring_bytes;
        assert!(
            bytes.is_power_of_two() && (2..=1 << 30).contains(&bytes),
            "a ring of {bytes} bytes; write a power of two from 2 to {}",
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

    /// Takes in a frame of data; with no bytes, what an idle frame says.
    ///
    /// Of a partly received frame only the rest is written: earlier bytes stay.
    ///
    /// # Errors
    /// The reason for rejecting all of it.
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
            // Positive, as what it is above.
            self.check_beyond(first as u64, end as u64)?;
        }
        if end > room {
            self.holes.give_up_below(end as u64 - self.ring.len() as u64, &mut self.counts);
            return Err(Refusal::Window);
        }
        self.resume = None;
        self.fill(first, bytes)
    }

    /// Opens the hole in front of a frame beyond `expected`, if the frame may come in.
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

    /// Opens the hole from `expected` to `end`.
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

    /// Writes what is missing of the bytes from `first` on, which the ring has room for.
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

    /// Ends the rounds whose time is over.
    #[inline]
    pub fn tick(&mut self, now: u64) {
        self.holes.tick(now, &mut self.counts);
    }

    /// Whether a NAK is to be sent.
    #[inline]
    pub fn wants_nak(&self) -> bool {
        self.holes.wants_nak()
    }

    /// The next NAK to send, if any. Copies are separate lists, sent in separate packets.
    pub fn next_nak(&mut self, now: u64) -> Option<NakList> {
        if !self.wants_nak() {
            return None;
        }
        self.counts.naks += 1;
        Some(self.holes.next_nak(now))
    }

    /// Bytes that [`Receiver::take`] would give out until the next hole.
    #[inline]
    pub fn ready(&self) -> usize {
        let end = self.holes.first().map_or(self.expected, |hole| hole.first);
        (end - self.taken) as usize
    }

    /// Delivers the next bytes of the stream, up to the size of `out`.
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

    /// Whether every byte below the highest seen has been delivered or abandoned.
    pub fn is_settled(&self) -> bool {
        self.taken == self.expected
    }

    /// Returns the statistics.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Position of a byte in the ring.
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
