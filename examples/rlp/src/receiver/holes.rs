// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tracks a stream's missing bytes, and when to request them.
//!
//! The holes form a list, ascending and disjoint; each stores the state of its rounds.

use super::{Counts, MAX_HOLES, Rounds};
use crate::frame::{ByteRange, NakList};
use std::collections::VecDeque;

/// Missing bytes `first..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hole {
    pub(super) first: u64,
    pub(super) end: u64,
    /// Tick at which the round ends; valid once all its NAKs have been sent.
    due: u64,
    round: u8,
    /// NAKs still to be sent in this round.
    copies: u8,
    pub(super) given_up: bool,
}

// docs/rlp.md states the memory per session, which depends on this size.
const _: () = assert!(size_of::<Hole>() == 32);

/// All holes in a stream.
#[derive(Clone, Debug)]
pub(super) struct Holes {
    list: VecDeque<Hole>,
    rounds: Rounds,
    timer_ticks: u64,
    /// Number of holes for which NAKs are still to be sent.
    wanting: usize,
    /// Earliest tick at which a round may end.
    next_due: u64,
}

impl Holes {
    pub(super) fn new(rounds: Rounds, timer_ticks: u64) -> Self {
        let list = VecDeque::with_capacity(MAX_HOLES);
        Self { list, rounds, timer_ticks, wanting: 0, next_due: u64::MAX }
    }

    #[inline]
    pub(super) fn first(&self) -> Option<&Hole> {
        self.list.front()
    }

    pub(super) fn get(&self, at: usize) -> Option<&Hole> {
        self.list.get(at)
    }

    /// Returns the index of the first hole that ends after `number`.
    pub(super) fn place(&self, number: i64) -> usize {
        self.list.partition_point(|hole| hole.end as i64 <= number)
    }

    pub(super) fn is_full(&self) -> bool {
        self.list.len() == MAX_HOLES
    }

    /// Removes the first hole, which has been abandoned.
    pub(super) fn pop(&mut self) {
        self.list.pop_front();
    }

    /// Appends a hole and returns its index. The list must not be full.
    pub(super) fn open(&mut self, first: u64, end: u64, counts: &mut Counts) -> usize {
        counts.holes += 1;
        let hole = Hole { first, end, due: 0, round: 0, copies: 0, given_up: false };
        self.list.push_back(hole);
        self.list.len() - 1
    }

    /// Begins the hole's current round, or abandons the hole if all rounds are over.
    pub(super) fn begin_round(&mut self, at: usize, counts: &mut Counts) {
        match self.rounds.copies(self.list[at].round) {
            Some(copies) => {
                self.list[at].copies = copies;
                self.wanting += 1;
            }
            None => self.give_up(at, counts),
        }
    }

    pub(super) fn give_up(&mut self, at: usize, counts: &mut Counts) {
        let hole = &mut self.list[at];
        self.wanting -= usize::from(hole.copies > 0);
        (hole.copies, hole.given_up) = (0, true);
        counts.aborts += 1;
        counts.aborted_bytes += hole.end - hole.first;
    }

    /// Abandons every hole that begins below `number`.
    pub(super) fn give_up_below(&mut self, number: u64, counts: &mut Counts) {
        for at in 0..self.list.len() {
            if self.list[at].first < number && !self.list[at].given_up {
                self.give_up(at, counts);
            }
        }
    }

    /// Removes `from..to` from the hole that contains it, and returns the index of the next hole.
    /// Returns `None` and changes nothing if there would be too many holes.
    pub(super) fn narrow(&mut self, at: usize, from: u64, to: u64) -> Option<usize> {
        let hole = self.list[at];
        match (from == hole.first, to == hole.end) {
            (true, true) => {
                self.wanting -= usize::from(hole.copies > 0);
                self.list.remove(at);
                Some(at)
            }
            (true, false) => {
                self.list[at].first = to;
                Some(at + 1)
            }
            (false, true) => {
                self.list[at].end = from;
                Some(at + 1)
            }
            (false, false) if self.is_full() => None,
            (false, false) => {
                self.wanting += usize::from(hole.copies > 0);
                self.list[at].end = from;
                self.list.insert(at + 1, Hole { first: to, ..hole });
                Some(at + 2)
            }
        }
    }

    /// Ends the rounds whose timers have expired.
    #[inline]
    pub(super) fn tick(&mut self, now: u64, counts: &mut Counts) {
        if now >= self.next_due {
            self.end_rounds(now, counts);
        }
    }

    fn end_rounds(&mut self, now: u64, counts: &mut Counts) {
        self.next_due = u64::MAX;
        for at in 0..self.list.len() {
            let hole = &mut self.list[at];
            if hole.given_up || hole.copies > 0 {
                continue;
            }
            if hole.due > now {
                self.next_due = self.next_due.min(hole.due);
                continue;
            }
            // Saturating, since the round number has no meaning if rounds are unlimited.
            hole.round = hole.round.saturating_add(1);
            self.begin_round(at, counts);
        }
    }

    /// Returns whether a NAK is due.
    #[inline]
    pub(super) fn wants_nak(&self) -> bool {
        self.wanting > 0
    }

    /// Returns the holes with NAKs to be sent, as many as fit in a list, and counts one NAK for
    /// each.
    pub(super) fn next_nak(&mut self, now: u64) -> NakList {
        let mut list = NakList::default();
        for hole in self.list.iter_mut().filter(|hole| hole.copies > 0) {
            // A hole is no longer than the ring, at most 2^30 bytes.
            let bytes = (hole.end - hole.first) as u32;
            if !list.push(ByteRange { first: hole.first as u32, bytes }) {
                break;
            }
            hole.copies -= 1;
            if hole.copies == 0 {
                self.wanting -= 1;
                hole.due = now.saturating_add(self.timer_ticks);
                self.next_due = self.next_due.min(hole.due);
            }
        }
        list
    }
}
