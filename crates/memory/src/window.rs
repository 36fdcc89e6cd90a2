// SPDX-License-Identifier: MIT OR Apache-2.0
//! Windows: stretches of time so short that most of them are left alone, and the fastest of several.
//!
//! A thread that shares its processor is put aside every few milliseconds. So nothing is timed for
//! longer than 2 ms, a window in which the thread was put aside does not count, and of those that do
//! the fastest does: what disturbs only ever adds.

use crate::Watch;
use linerate_linux::{involuntary_switches, thread_cpu_time_ns};
use linerate_machine::ticks::{ticks, ticks_per_second};
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Measures in windows, and counts them. One thread's.
pub struct Windows<'a> {
    /// Who watches.
    pub watch: &'a Watch<'a>,
    ns_per_tick: f64,
    kept: Cell<u64>,
    dropped: Cell<u64>,
}

/// What to measure until when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Length of a window in ns: 0.1 to 2 ms.
    pub window_ns: f64,
    /// Windows that are to be kept.
    pub wanted: u32,
    /// When to stop, whether there are as many or not.
    pub deadline: Instant,
}

/// The fastest of some windows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    /// ns per piece of work, in the fastest window.
    pub ns: f64,
    /// Pieces of work in all windows that were kept.
    pub work: u64,
    /// The time of these in ns.
    pub total_ns: f64,
    /// Windows that were kept.
    pub windows: u32,
    /// Windows that were dropped.
    pub dropped: u32,
}

/// One window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// How long it took, in ns.
    pub ns: f64,
    /// Whether the thread had its processor all the time.
    pub kept: bool,
}

impl<'a> Windows<'a> {
    /// Takes 20 ms the first time in a process, to learn how long a tick is.
    pub fn new(watch: &'a Watch<'a>) -> Self {
        let ns_per_tick = 1e9 / ticks_per_second();
        Self { watch, ns_per_tick, kept: Cell::new(0), dropped: Cell::new(0) }
    }

    /// Whether someone asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.watch.stop.load(Ordering::Relaxed)
    }

    /// Windows that were kept and that were dropped until now.
    pub fn counts(&self) -> (u64, u64) {
        (self.kept.get(), self.dropped.get())
    }

    /// Times `work` once, whatever its length.
    pub fn time(&self, work: impl FnOnce()) -> Window {
        let (switches, processor) = (involuntary_switches(), thread_cpu_time_ns());
        let start = ticks();
        work();
        let ns = (ticks() - start) as f64 * self.ns_per_tick;
        let processor = (thread_cpu_time_ns() - processor) as f64;
        let kept = switches == involuntary_switches() && processor >= 0.96 * ns;
        let count = if kept { &self.kept } else { &self.dropped };
        count.set(count.get() + 1);
        Window { ns, kept }
    }

    /// The fastest of `plan.wanted` windows. `work` does about as many pieces of work as it is told
    /// to, and says how many it did; what it does before the first window warms up. `None` when no
    /// window was kept until the deadline, or someone asked to stop.
    pub fn best_of(&self, plan: &Plan, mut work: impl FnMut(u64) -> u64) -> Option<Best> {
        let _ = (plan, &mut work);
        None
    }
}
