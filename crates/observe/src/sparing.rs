// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits the CPU time spent on an expensive read.

use linerate_linux::{monotonic_ns, thread_cpu_time_ns};

/// Schedules reads so that together they take at most a given share of a CPU.
#[derive(Debug)]
pub(crate) struct Sparing {
    share: f64,
    next_ns: u64,
}

impl Sparing {
    /// Creates a schedule for reads that may take up to the fraction `share` of a CPU, 0 to 1.
    pub(crate) fn new(share: f64) -> Self {
        Self { share, next_ns: 0 }
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
        self.next_ns = now_ns + (took_ns as f64 / self.share) as u64;
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
}
