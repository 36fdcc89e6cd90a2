// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bound on the CPU time of an expensive read.

use linerate_linux::{monotonic_ns, thread_cpu_time_ns};

/// Maximum share of a CPU that the reads take. In a network namespace with few sockets, listing
/// them takes about 1 ms, so that a window of 5 s has some 25 reads.
const SHARE: f64 = 0.005;

/// When the next read is due, so that all reads together take at most [`SHARE`] of a CPU.
#[derive(Debug, Default)]
pub(super) struct Sparing {
    next_ns: u64,
}

impl Sparing {
    /// Returns whether the next read is due.
    pub(super) fn is_due(&self) -> bool {
        self.is_due_at(monotonic_ns())
    }

    fn is_due_at(&self, now_ns: u64) -> bool {
        now_ns >= self.next_ns
    }

    /// Returns the CPU time of the thread at the start of a read, for [`end`](Self::end).
    pub(super) fn begin(&self) -> u64 {
        thread_cpu_time_ns()
    }

    /// Schedules the next read by the CPU time of the one that just ended.
    pub(super) fn end(&mut self, began_ns: u64) {
        self.pause(monotonic_ns(), thread_cpu_time_ns().saturating_sub(began_ns));
    }

    fn pause(&mut self, now_ns: u64, took_ns: u64) {
        self.next_ns = now_ns + (took_ns as f64 / SHARE) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_followed_by_a_pause_in_proportion() {
        let mut sparing = Sparing::default();
        assert!(sparing.is_due_at(0));
        sparing.pause(1_000_000, 2_000_000);
        assert!(!sparing.is_due_at(400_999_999));
        assert!(sparing.is_due_at(401_000_000));
    }
}
