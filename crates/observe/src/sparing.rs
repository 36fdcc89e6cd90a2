// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits the CPU time spent on an expensive read.
//!
//! An interrupt or a cold cache may make one read look ten times as expensive as the next. The
//! smaller cost of the last two reads therefore determines the pause.

use linerate_linux::{monotonic_ns, thread_cpu_time_ns};

/// Schedules reads so that together they take at most a given share of a CPU.
#[derive(Debug)]
pub(crate) struct Sparing {
    share: f64,
    next_ns: u64,
    /// CPU time of the last read, in ns; `None` before the first.
    took_ns: Option<u64>,
}

impl Sparing {
    /// Creates a schedule for reads that may take up to the fraction `share` of a CPU, 0 to 1.
    pub(crate) fn new(share: f64) -> Self {
        Self { share, next_ns: 0, took_ns: None }
    }

    /// Returns whether the next read is due.
    pub(crate) fn is_due(&self) -> bool {
        self.is_due_at(monotonic_ns())
    }

    fn is_due_at(&self, now_ns: u64) -> bool {
        now_ns >= self.next_ns
    }

    /// Returns the calling thread's CPU time at the start of a read, to be passed to
    /// [`end`](Self::end).
    pub(crate) fn begin(&self) -> u64 {
        thread_cpu_time_ns()
    }

    /// Schedules the next read according to the CPU time of the read that just ended.
    pub(crate) fn end(&mut self, began_ns: u64) {
        self.pause(monotonic_ns(), thread_cpu_time_ns().saturating_sub(began_ns));
    }

    fn pause(&mut self, now_ns: u64, took_ns: u64) {
        let usual_ns = self.took_ns.map_or(took_ns, |before| before.min(took_ns));
        self.took_ns = Some(took_ns);
        self.next_ns = now_ns + (usual_ns as f64 / self.share) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_followed_by_a_pause_in_proportion() {
        let mut sparing = Sparing::new(0.005);
        assert!(sparing.is_due_at(0));
        sparing.pause(1_000_000, 2_000_000);
        assert!(!sparing.is_due_at(400_999_999));
        assert!(sparing.is_due_at(401_000_000));
    }

    #[test]
    fn one_slow_read_does_not_keep_the_next_ones_away() {
        let mut sparing = Sparing::new(0.005);
        // The first read, with a cold cache, and one that was interrupted.
        for (took_ns, pause_ns) in [
            (20_000_000, 4_000_000_000),
            (500_000, 100_000_000),
            (10_000_000, 100_000_000),
            (400_000, 80_000_000),
            // From now on, reads take longer.
            (2_000_000, 80_000_000),
            (2_000_000, 400_000_000),
        ] {
            sparing.pause(0, took_ns);
            assert!(!sparing.is_due_at(pause_ns - 1) && sparing.is_due_at(pause_ns), "{took_ns}");
        }
    }
}
