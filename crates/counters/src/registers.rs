// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads counters directly from the PMU registers that the kernel module `kmod/pmu_user` makes
//! accessible. A read takes a few instructions and does not involve perf.
//!
//! No operating system saves these registers per thread. The counts between two reads therefore
//! belong to the thread only if it stayed on its CPU from before the first read until after the
//! second, as shown by each read's [`Mark`]. A register has 32 bits (the cycle counter 64 on
//! AArch64); counts are
//!
//! ```text
//! count += (register - register at the last read) modulo 2^32
//! ```
//!
//! which is correct if fewer than 2^32 events occurred between the reads. If two reads are further
//! apart than `MOST_PER_NS` allows, their marks differ.
//!
//! Events are selected when the kernel module is loaded, not here. PowerPC is not supported: its
//! registers are always readable, but Rust 1.85 lacks inline assembly for it.

mod module;
mod open;
mod processor;
mod trial;

use crate::reading::{Counts, EVENTS_MAX, Mark};
pub use module::{CYCLE_COUNTER, Cpu, FILE, Malformed, Module, PmuUser, Selected, event_number};
pub(crate) use open::open;
use processor::Processor;
use std::cell::Cell;
pub use trial::count_cycles;

/// Whether a kernel module can give user mode access to the PMU registers on this architecture.
pub const CAN_BE_OPENED: bool = cfg!(any(target_arch = "aarch64", target_arch = "arm"));

/// Upper bounds on the number of cycles and of other events per nanosecond. On ARMv7, no core
/// reaches 4 GHz, and none retires more than 3 instructions per cycle. On AArch64, the cycle
/// counter has 64 bits, and 64 events per ns would be 14 per cycle at 4.5 GHz, which no core
/// reaches.
const MOST_PER_NS: [u64; 2] = [4, if cfg!(target_arch = "aarch64") { 64 } else { 16 }];

/// Access to the counter registers of a thread's CPU.
pub(crate) trait Bank {
    /// Reads a counter of the thread's current CPU. Number 31 is the cycle counter. Returns `None`
    /// if the register is not accessible.
    fn counter(&self, number: u32) -> Option<u64>;
    /// Returns monotonic time in ns.
    fn now_ns(&self) -> u64;
    /// Returns how often the thread has left its CPU.
    fn switches(&self) -> u64;
}

/// Counter registers opened by one thread. Only this thread can read them.
#[derive(Debug)]
pub(crate) struct Registers<B = Processor> {
    bank: B,
    counters: Vec<Counter>,
    /// Maximum time between two reads, in ns, at which counter wraps are still detected.
    apart_ns: u64,
    read_ns: Cell<u64>,
    gaps: Cell<u64>,
}

#[derive(Debug)]
struct Counter {
    /// Index of the event in the caller's list.
    place: usize,
    number: u32,
    is_wide: bool,
    seen: Cell<u64>,
    count: Cell<u64>,
}

impl Counter {
    fn new(place: usize, number: u32) -> Self {
        let is_wide = number == CYCLE_COUNTER && cfg!(target_arch = "aarch64");
        Self { place, number, is_wide, seen: Cell::new(0), count: Cell::new(0) }
    }

    #[inline]
    fn advance(&self, now: u64) -> u64 {
        let since = now.wrapping_sub(self.seen.replace(now));
        let since = if self.is_wide { since } else { u64::from(since as u32) };
        self.count.set(self.count.get().wrapping_add(since));
        self.count.get()
    }

    /// Returns the longest time, in ns, in which fewer than 2^32 events occur even at the maximum
    /// rate.
    fn apart_ns(&self) -> u64 {
        match (self.is_wide, self.number) {
            (true, _) => u64::MAX,
            (false, CYCLE_COUNTER) => (1 << 32) / MOST_PER_NS[0],
            (false, _) => (1 << 32) / MOST_PER_NS[1],
        }
    }
}

impl<B: Bank> Registers<B> {
    /// Opens the given counters, each paired with its index among the caller's events; `None` if
    /// any is not accessible.
    fn new(bank: B, counters: &[(usize, u32)]) -> Option<Self> {
        let counters: Vec<Counter> =
            counters.iter().map(|&(place, number)| Counter::new(place, number)).collect();
        let apart_ns = counters.iter().map(Counter::apart_ns).min().unwrap_or(u64::MAX);
        let registers =
            Self { bank, counters, apart_ns, read_ns: Cell::new(0), gaps: Cell::new(0) };
        registers.first(&mut [0; EVENTS_MAX])?;
        Some(registers)
    }

    /// Performs the first read of a pair. Reads the counters as late as possible, just before the
    /// measured code. `None` if a register is not accessible. Neither read of a pair is ever
    /// inlined. Its overhead is therefore the same everywhere, so it is measured only once and then
    /// subtracted.
    #[inline(never)]
    pub(crate) fn first(&self, counts: &mut Counts) -> Option<Mark> {
        let switches = self.bank.switches();
        self.step();
        self.read(counts)?;
        Some(Mark { switches, gaps: self.gaps.get() })
    }

    /// Performs the second read of a pair. Reads the counters as early as possible, just after the
    /// measured code. `None` if a register is not accessible.
    #[inline(never)]
    pub(crate) fn second(&self, counts: &mut Counts) -> Option<Mark> {
        self.read(counts)?;
        self.step();
        Some(Mark { switches: self.bank.switches(), gaps: self.gaps.get() })
    }

    #[inline]
    fn read(&self, counts: &mut Counts) -> Option<()> {
        for counter in &self.counters {
            counts[counter.place] = counter.advance(self.bank.counter(counter.number)?);
        }
        Some(())
    }

    /// Records a gap if the last read was too long ago to detect a counter wrap.
    #[inline]
    fn step(&self) {
        let now = self.bank.now_ns();
        if now.wrapping_sub(self.read_ns.replace(now)) >= self.apart_ns {
            self.gaps.set(self.gaps.get().wrapping_add(1));
        }
    }

    /// Returns whether the event at this index in the caller's list is read from a register.
    pub(crate) fn has(&self, place: usize) -> bool {
        self.counters.iter().any(|counter| counter.place == place)
    }

    /// Returns the maximum time between two reads at which counter wraps are still detected, in ms,
    /// rounded down.
    pub(crate) fn apart_ms(&self) -> u64 {
        self.apart_ns / 1_000_000
    }
}

#[cfg(test)]
mod tests;
