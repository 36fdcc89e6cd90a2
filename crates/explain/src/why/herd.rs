// SPDX-License-Identifier: MIT OR Apache-2.0
//! Thundering herds: threads or processes that wait for connections on one socket and are all woken
//! by each connection, although only one of them can accept it.

use super::facts::Facts;
use super::waits::{Wait, longest, wait_of};
use linerate_record::why::{ThreadActivity, ThreadState};

/// Threads that wait for input and compete for CPUs.
pub(super) struct Herd<'a> {
    pub(super) threads: Vec<&'a ThreadActivity>,
    /// Number of times that the herd's threads went to sleep in the window.
    pub(super) sleeps: u64,
}

impl<'a> Herd<'a> {
    /// Returns the threads that mostly sleep waiting for input and also wait for a CPU, because
    /// many of them are woken together.
    pub(super) fn of(facts: &Facts<'a>) -> Self {
        /// Minimum fraction of time waiting for a CPU.
        const WAITS: f64 = 0.1;
        let is_one = |thread: &&ThreadActivity| {
            thread.share_of(|state| state == ThreadState::Waiting) >= WAITS
                && longest(&thread.asleep_on).is_some_and(|sleep| wait_of(sleep) == Wait::Input)
        };
        let threads: Vec<_> = facts.observation.threads.iter().filter(is_one).collect();
        let sleeps = threads.iter().map(|thread| thread.voluntary_switches).sum();
        Self { threads, sleeps }
    }

    /// Returns the number of sleeps per packet; `None` if packets are not counted.
    pub(super) fn sleeps_per_packet(&self, facts: &Facts<'_>) -> Option<f64> {
        let packets = facts.packets().filter(|packets| *packets > 0)?;
        Some(self.sleeps as f64 / packets as f64)
    }
}
