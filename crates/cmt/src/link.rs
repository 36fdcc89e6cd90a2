// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models the objects that strands share: queues, lines and units.
//!
//! A queue is a ring of slots. Each slot holds the cycle from which its next user can see it: the
//! reader sees data, the writer free space. Writer and reader may be simulated out of step by less
//! than the handoff delay: a change made by the side that is ahead is marked with a cycle that the
//! other side has not reached yet, so it is not visible there. The result is the same as in strict
//! time order.

use super::share::fixed;
use super::system::{Queue, Source, WhenFull};

/// The queues, lines and units that strands share.
#[derive(Clone, Debug)]
pub(super) struct Links {
    pub(super) queues: Vec<Ring>,
    pub(super) lines: Vec<Line>,
    pub(super) units: Vec<Turns>,
}

/// State of a queue: a ring of slots.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    /// For each slot, the cycle from which the other end of the queue sees the slot's last change.
    seen_from: Vec<u64>,
    /// Number of packets read so far.
    read: u64,
    /// Number of packets written so far.
    written: u64,
    /// Slot to read next.
    read_slot: usize,
    /// Slot to write next.
    write_slot: usize,
    hand_over: u64,
    pub(super) when_full: WhenFull,
}

impl Ring {
    pub(super) fn new(queue: &Queue) -> Self {
        Self {
            seen_from: vec![0; queue.capacity as usize],
            read: 0,
            written: 0,
            read_slot: 0,
            write_slot: 0,
            hand_over: u64::from(queue.hand_over_cycles),
            when_full: queue.when_full,
        }
    }

    fn after(&self, slot: usize) -> usize {
        if slot + 1 == self.seen_from.len() { 0 } else { slot + 1 }
    }

    /// Takes a packet if one is visible at `cycle`.
    pub(super) fn take(&mut self, cycle: u64) -> bool {
        let there = self.read < self.written && self.seen_from[self.read_slot] <= cycle;
        if there {
            self.seen_from[self.read_slot] = cycle + self.hand_over;
            self.read += 1;
            self.read_slot = self.after(self.read_slot);
        }
        there
    }

    /// Adds a packet if a free slot is visible at `cycle`.
    pub(super) fn put(&mut self, cycle: u64) -> bool {
        let capacity = self.seen_from.len() as u64;
        let room = self.written - self.read < capacity && self.seen_from[self.write_slot] <= cycle;
        if room {
            self.seen_from[self.write_slot] = cycle + self.hand_over;
            self.written += 1;
            self.write_slot = self.after(self.write_slot);
        }
        room
    }
}

/// A line and its interface's receive ring. Packet `k`, counted from 1, arrives at cycle `k *
/// interval`, rounded down.
#[derive(Clone, Debug)]
pub(super) struct Line {
    interval: u64,
    /// Arrival cycle of the next packet, in fixed point with 32 fractional bits, like the interval.
    next: u64,
    waiting: u64,
    ring: u64,
    pub(super) offered: u64,
    pub(super) dropped: u64,
}

impl Line {
    pub(super) fn new(source: &Source, clock_hz: f64) -> Self {
        let interval = fixed(clock_hz / source.packets_per_s);
        let ring = u64::from(source.ring);
        Self { interval, next: interval, waiting: 0, ring, offered: 0, dropped: 0 }
    }

    /// Delivers the packets that arrive before cycle `end`. Assumes that the ring is not read in
    /// the meantime, so that packets beyond its capacity are dropped.
    pub(super) fn bring_until(&mut self, end: u64) {
        let end = end << 32;
        if self.next >= end {
            return;
        }
        let come = (end - 1 - self.next) / self.interval + 1;
        let kept = come.min(self.ring - self.waiting);
        self.next += come * self.interval;
        self.waiting += kept;
        self.offered += come;
        self.dropped += come - kept;
    }

    /// Takes a packet if one has arrived by `cycle`.
    pub(super) fn take(&mut self, cycle: u64) -> bool {
        self.bring_until(cycle + 1);
        let there = self.waiting > 0;
        self.waiting -= u64::from(there);
        there
    }
}

/// Lets instructions into a unit that accepts one per interval, in order of arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turns {
    pub(super) free_from: u64,
    pub(super) interval: u64,
}

impl Turns {
    /// Returns how many cycles an instruction that arrives at `cycle` waits for the unit.
    pub(super) fn wait(&mut self, cycle: u64) -> u64 {
        let start = self.free_from.max(cycle);
        self.free_from = start + self.interval;
        start - cycle
    }
}
