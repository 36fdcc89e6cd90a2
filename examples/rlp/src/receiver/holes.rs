// SPDX-License-Identifier: MIT OR Apache-2.0
//! Missing bytes of a stream, and the timing of requests.
//!
//! A list of holes, ascending and disjoint, each with the state of its rounds.

use super::{Counts, MAX_HOLES, Rounds};
use crate::frame::{ByteRange, NakList};
use std::collections::VecDeque;

/// Bytes `first..end`, missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hole {
    pub(super) first: u64,
    pub(super) end: u64,
    /// Tick at which the round ends, once all its NAKs are out.
    due: u64,
    round: u8,
    /// NAKs of this round still to be sent.
    copies: u8,
    pub(super) given_up: bool,
}

// docs/rlp.md states what a session takes.
const _: () = assert!(size_of::<Hole>() == 32);

/// All holes of a stream.
#[derive(Clone, Debug)]
pub(super) struct Holes {
    list: VecDeque<Hole>,
    rounds: Rounds,
    timer_ticks: u64,
    /// Holes with NAKs to be sent.
    wanting: usize,
    /// No round ends before this tick.
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

    /// The place of the first hole that ends behind a number.
    pub(super) fn place(&self, number: i64) -> usize {
        self.list.partition_point(|hole| hole.end as i64 <= number)
    }

    pub(super) fn is_full(&self) -> bool {
        self.list.len() == MAX_HOLES
    }

    /// Takes the first hole out, which was given up.
    pub(super) fn pop(&mut self) {
        self.list.pop_front();
    }

    /// Opens a hole behind all others. The list is not full.
    pub(super) fn open(&mut self, first: u64, end: u64, counts: &mut Counts) -> usize {
        counts.holes += 1;
        let hole = Hole { first, end, due: 0, round: 0, copies: 0, given_up: false };
        self.list.push_back(hole);
        self.list.len() - 1
    }

    /// Begins the round that the hole says, or gives the hole up.
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

    /// Gives up every hole that begins below a number.
    pub(super) fn give_up_below(&mut self, number: u64, counts: &mut Counts) {
        for at in 0..self.list.len() {
            if self.list[at].first < number && !self.list[at].given_up {
                self.give_up(at, counts);
            }
        }
    }

    /// Removes `from..to` from the hole that contains it; returns the index of the next hole.
    /// `None`, without any change, if this would exceed the maximum number of holes.
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

    /// Ends the rounds whose time is over.
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
            // Without a limit the number of the round means nothing.
            hole.round = hole.round.saturating_add(1);
            self.begin_round(at, counts);
        }
    }

    /// Whether a NAK is to be sent.
    #[inline]
    pub(super) fn wants_nak(&self) -> bool {
        self.wanting > 0
    }

    /// The holes with NAKs to be sent, one NAK each, as many as a list holds.
    pub(super) fn next_nak(&mut self, now: u64) -> NakList {
        let mut list = NakList::default();
        for hole in self.list.iter_mut().filter(|hole| hole.copies > 0) {
            // A hole is no longer than the ring, 2^30.
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
