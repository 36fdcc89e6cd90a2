// SPDX-License-Identifier: MIT OR Apache-2.0
//! The flags by which a run controls its workers, and how workers wait.

use crate::meter::Clock;
use linerate_linux as linux;
use std::sync::atomic::{AtomicBool, Ordering};

/// Control flags shared by all workers.
pub(crate) struct Control<'a> {
    /// Ends the run: sources stop, and packets in flight are drained.
    pub(crate) stop: &'a AtomicBool,
    /// Makes all workers exit, because one of them failed.
    pub(crate) abort: &'a AtomicBool,
    /// Whether workers share CPUs. If so, they yield while waiting.
    pub(crate) yields: bool,
    /// Ticks per second of the workers' clocks.
    pub(crate) ticks_per_s: f64,
    /// Whether to recount bytes after every stage.
    pub(crate) audit: bool,
}

impl Control<'_> {
    /// Executes a pause instruction, or yields the CPU if workers share CPUs.
    #[inline]
    pub(super) fn relax<C: Clock>(&self, clock: &C) {
        if self.yields {
            linux::yield_now();
        } else {
            clock.pause();
        }
    }

    /// Performs one step of slow polling, or yields the CPU if workers share CPUs.
    #[inline]
    pub(super) fn wait_slowly<C: Clock>(&self, step: u32, clock: &C) {
        if self.yields {
            linux::yield_now();
        } else {
            clock.wait_slowly(step);
        }
    }

    /// Returns whether the run is ending, whether as planned or because a worker failed.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_aborted() || self.stop.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn is_aborted(&self) -> bool {
        // Relaxed ordering suffices: the flag only requests an exit and publishes no data.
        self.abort.load(Ordering::Relaxed)
    }
}
