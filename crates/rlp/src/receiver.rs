// SPDX-License-Identifier: MIT OR Apache-2.0
//! From frames back to the octet stream, asking for what is missing.
//!
//! Octet `n` lies at `n` modulo the size of a ring; what is missing of it is a list of holes.
//!
//! ```text
//!    given out   | ready    hole   here   hole   here | not seen
//!  --------------+--------+======+------+======+------+----------
//!              taken                               expected      taken + ring
//! ```
//!
//! A frame beyond `expected` opens a hole. A hole is asked for in rounds: round `r` sends as many
//! NAKs as the configuration says, then a timer runs; when it ends, the next round begins, and
//! after the last one the hole is given up. Whoever takes octets learns of a hole given up in its
//! place in the stream, so that octets sent = octets taken + octets given up, in order.
//!
//! A hole is also given up when a frame shows that the sender's ring no longer has it (the rings of
//! both ends have the same size). A frame far beyond the ring is taken for damage, until the next
//! one continues it: then the link was away for long, and all before that is given up.
//!
//! Time is the number `now`, in ticks of the caller, that never decreases.
//!
//! Leaves out: what the octets mean; telling the sender what was received.

use crate::frame::{NakList, OctetRange};
use crate::unwrap_near;
use std::collections::VecDeque;

/// Holes that are told apart at most.
pub const MAX_HOLES: usize = 128;
/// Rounds at most, unless unlimited.
pub const MAX_ROUNDS: usize = 8;

/// How often a hole is asked for.
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

    /// Rounds of so many NAKs each; no round gives every hole up at once.
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
    /// Octets of the ring: a power of two from 2 to 2^30; the sender's.
    pub ring_octets: usize,
    /// How often a hole is asked for.
    pub rounds: Rounds,
    /// Ticks from the last NAK of a round to the next round: more than a round trip.
    pub timer_ticks: u64,
}

/// Why octets were not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// They are here, or were given out.
    Duplicate,
    /// They were given up.
    Late,
    /// The ring has no room for them yet: octets in front of them are missing or not taken.
    Window,
    /// There are as many holes as can be told apart.
    Holes,
    /// They are far from all seen before.
    Jump,
}

/// The names of [`Refusal`], in order.
pub const REFUSAL_NAMES: [&str; 5] = ["duplicate", "late", "window", "holes", "jump"];

/// What a receiver has counted.
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
    /// Octets given up.
    pub aborted_octets: u64,
}

/// Octets `first..end`, missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hole {
    first: u64,
    end: u64,
    /// Tick at which the round ends, once all its NAKs are out.
    due: u64,
    round: u8,
    /// NAKs of this round still to be sent.
    copies: u8,
    given_up: bool,
}

// docs/rlp.md states what a session takes.
const _: () = assert!(size_of::<Hole>() == 32);

/// What [`Receiver::take`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// So many octets, the next of the stream.
    Octets(usize),
    /// The next octets of the stream were given up.
    Aborted {
        /// Number of the first.
        first: u64,
        /// How many.
        octets: u64,
    },
    /// The next octet is not here yet, or there is no room for it.
    Nothing,
}

/// The receiving half of a session.
#[derive(Clone, Debug)]
pub struct Receiver {
    ring: Box<[u8]>,
    limits: Limits,
    /// Number of the next octet to be given out.
    taken: u64,
    /// One more than the highest number seen.
    expected: u64,
    /// Ascending and apart.
    holes: VecDeque<Hole>,
    /// Holes with NAKs to be sent.
    wanting: usize,
    /// No round ends before this tick.
    next_due: u64,
    /// What would continue a frame that was taken for damage.
    resume: Option<u64>,
    counts: Counts,
}

impl Receiver {
    /// Expects octet 0.
    ///
    /// # Panics
    /// If the ring's size is not a power of two from 2 to 2^30.
    pub fn new(limits: Limits) -> Self {
        let octets = limits.ring_octets;
        assert!(
            octets.is_power_of_two() && (2..=1 << 30).contains(&octets),
            "a ring of {octets} octets; write a power of two from 2 to {}",
            1 << 30
        );
        Self {
            ring: vec![0; octets].into(),
            limits,
            taken: 0,
            expected: 0,
            holes: VecDeque::with_capacity(MAX_HOLES),
            wanting: 0,
            next_due: u64::MAX,
            resume: None,
            counts: Counts::default(),
        }
    }

    /// Takes in a frame of data; with no octets, what an idle frame says.
    ///
    /// Of a frame that is partly here only the rest is written: what came first stays.
    ///
    /// # Errors
    /// Why nothing of it was taken in.
    #[inline]
    pub fn receive(&mut self, now: u64, wire: u32, octets: &[u8]) -> Result<(), Refusal> {
        let result = self.accept(now, unwrap_near(wire, self.expected), octets);
        if let Err(refusal) = result {
            self.counts.refused[refusal as usize] += 1;
        }
        result
    }

    #[inline]
    fn accept(&mut self, now: u64, first: i64, octets: &[u8]) -> Result<(), Refusal> {
        let end = first + octets.len() as i64;
        let room = (self.taken + self.ring.len() as u64) as i64;
        if first == self.expected as i64 && end <= room {
            self.write(self.expected, octets);
            self.expected = end as u64;
            self.resume = None;
            return Ok(());
        }
        if first > self.expected as i64 {
            // Positive, as what it is above.
            self.check_beyond(now, first as u64, end as u64)?;
        }
        if end > room {
            self.give_up_below(end as u64 - self.ring.len() as u64);
            return Err(Refusal::Window);
        }
        self.resume = None;
        self.fill(first, octets)
    }

    /// Opens the hole in front of a frame beyond `expected`, if the frame may come in.
    #[cold]
    fn check_beyond(&mut self, now: u64, first: u64, end: u64) -> Result<(), Refusal> {
        let ring = self.ring.len() as u64;
        if first - self.expected > ring {
            if self.resume != Some(first) {
                self.resume = Some(end);
                return Err(Refusal::Jump);
            }
            self.give_up_below(u64::MAX);
            return self.open(now, first, true);
        }
        if end > self.taken + ring {
            return Ok(());
        }
        self.open(now, first, false)
    }

    /// Opens the hole from `expected` to `end`.
    fn open(&mut self, now: u64, end: u64, given_up: bool) -> Result<(), Refusal> {
        if self.holes.len() == MAX_HOLES {
            return Err(Refusal::Holes);
        }
        let first = self.expected;
        self.holes.push_back(Hole { first, end, due: now, round: 0, copies: 0, given_up: false });
        self.counts.holes += 1;
        self.expected = end;
        let last = self.holes.len() - 1;
        if given_up {
            self.give_up(last)
        } else {
            self.begin_round(last)
        }
        Ok(())
    }

    /// Begins the round that the hole says, or gives the hole up.
    fn begin_round(&mut self, at: usize) {
        match self.limits.rounds.copies(self.holes[at].round) {
            Some(copies) => {
                self.holes[at].copies = copies;
                self.wanting += 1;
            }
            None => self.give_up(at),
        }
    }

    fn give_up(&mut self, at: usize) {
        let hole = &mut self.holes[at];
        self.wanting -= usize::from(hole.copies > 0);
        (hole.copies, hole.given_up) = (0, true);
        self.counts.aborts += 1;
        self.counts.aborted_octets += hole.end - hole.first;
    }

    /// Gives up every hole that begins below a number: the sender's ring has lost it.
    fn give_up_below(&mut self, number: u64) {
        for at in 0..self.holes.len() {
            if self.holes[at].first < number && !self.holes[at].given_up {
                self.give_up(at);
            }
        }
    }

    /// Writes what is missing of the octets from `first` on, which the ring has room for.
    fn fill(&mut self, first: i64, octets: &[u8]) -> Result<(), Refusal> {
        let end = first + octets.len() as i64;
        if octets.is_empty() {
            return Ok(());
        }
        if end <= self.taken as i64 {
            return Err(Refusal::Duplicate);
        }
        let before = self.expected;
        let mut result = Err(Refusal::Duplicate);
        if end > before as i64 {
            let from = first.max(before as i64);
            self.write(from as u64, &octets[(from - first) as usize..]);
            self.expected = end as u64;
            result = Ok(());
        }
        let mut at = self.holes.partition_point(|hole| hole.end as i64 <= first);
        while let Some(&hole) = self.holes.get(at).filter(|hole| (hole.first as i64) < end) {
            if hole.given_up {
                result = result.or(Err(Refusal::Late));
                at += 1;
                continue;
            }
            let (from, to) = ((hole.first as i64).max(first), (hole.end as i64).min(end));
            match self.narrow(at, from as u64, to as u64) {
                Some(next) => {
                    let piece = &octets[(from - first) as usize..(to - first) as usize];
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

    /// Takes `from..to` out of a hole it lies in; returns the place of the next hole. `None`, and
    /// nothing is changed, when two holes would be one too many.
    fn narrow(&mut self, at: usize, from: u64, to: u64) -> Option<usize> {
        let hole = self.holes[at];
        match (from == hole.first, to == hole.end) {
            (true, true) => {
                self.wanting -= usize::from(hole.copies > 0);
                self.holes.remove(at);
                Some(at)
            }
            (true, false) => {
                self.holes[at].first = to;
                Some(at + 1)
            }
            (false, true) => {
                self.holes[at].end = from;
                Some(at + 1)
            }
            (false, false) if self.holes.len() == MAX_HOLES => None,
            (false, false) => {
                self.wanting += usize::from(hole.copies > 0);
                self.holes[at].end = from;
                self.holes.insert(at + 1, Hole { first: to, ..hole });
                Some(at + 2)
            }
        }
    }

    /// Ends the rounds whose time is over.
    #[inline]
    pub fn tick(&mut self, now: u64) {
        if now >= self.next_due {
            self.end_rounds(now);
        }
    }

    fn end_rounds(&mut self, now: u64) {
        self.next_due = u64::MAX;
        for at in 0..self.holes.len() {
            let hole = &mut self.holes[at];
            if hole.given_up || hole.copies > 0 {
                continue;
            }
            if hole.due > now {
                self.next_due = self.next_due.min(hole.due);
                continue;
            }
            // Without a limit the number of the round means nothing.
            hole.round = hole.round.saturating_add(1);
            self.begin_round(at);
        }
    }

    /// Whether a NAK is to be sent.
    #[inline]
    pub fn wants_nak(&self) -> bool {
        self.wanting > 0
    }

    /// The next NAK to be sent, if any. Copies come in lists of their own, to be sent apart.
    pub fn next_nak(&mut self, now: u64) -> Option<NakList> {
        if self.wanting == 0 {
            return None;
        }
        let mut list = NakList::default();
        for hole in self.holes.iter_mut().filter(|hole| hole.copies > 0) {
            // A hole is no longer than the ring, 2^30.
            let octets = (hole.end - hole.first) as u32;
            if !list.push(OctetRange { first: hole.first as u32, octets }) {
                break;
            }
            hole.copies -= 1;
            if hole.copies == 0 {
                self.wanting -= 1;
                hole.due = now.saturating_add(self.limits.timer_ticks);
                self.next_due = self.next_due.min(hole.due);
            }
        }
        self.counts.naks += 1;
        Some(list)
    }

    /// Octets that [`Receiver::take`] would give out until the next hole.
    #[inline]
    pub fn ready(&self) -> usize {
        let end = self.holes.front().map_or(self.expected, |hole| hole.first);
        (end - self.taken) as usize
    }

    /// Gives out what comes next in the stream, as much as `out` holds.
    #[inline]
    pub fn take(&mut self, out: &mut [u8]) -> Taken {
        let octets = self.ready().min(out.len());
        if octets > 0 {
            let at = self.place(self.taken);
            let head = octets.min(self.ring.len() - at);
            out[..head].copy_from_slice(&self.ring[at..at + head]);
            out[head..octets].copy_from_slice(&self.ring[..octets - head]);
            self.taken += octets as u64;
            return Taken::Octets(octets);
        }
        match self.holes.front() {
            Some(&hole) if hole.given_up && hole.first == self.taken => {
                self.holes.pop_front();
                self.taken = hole.end;
                Taken::Aborted { first: hole.first, octets: hole.end - hole.first }
            }
            _ => Taken::Nothing,
        }
    }

    /// Whether every octet below the highest seen has been given out or given up.
    pub fn is_settled(&self) -> bool {
        self.taken == self.expected
    }

    /// What was counted.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Where in the ring an octet lies.
    #[inline]
    fn place(&self, number: u64) -> usize {
        number as usize & (self.ring.len() - 1)
    }

    #[inline]
    fn write(&mut self, first: u64, octets: &[u8]) {
        let at = self.place(first);
        let head = octets.len().min(self.ring.len() - at);
        self.ring[at..at + head].copy_from_slice(&octets[..head]);
        self.ring[..octets.len() - head].copy_from_slice(&octets[head..]);
    }
}

#[cfg(test)]
mod tests;
