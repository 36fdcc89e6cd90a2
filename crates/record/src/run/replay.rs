// SPDX-License-Identifier: MIT OR Apache-2.0
//! The share of a run's work that replays packets.

use super::RunReport;
use crate::finding::{Finding, Limit};

/// Cost of replaying packets from memory. With a NIC, this cost would disappear or be replaced by
/// the cost of the driver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayShare {
    /// Fraction of all workers' busy time, 0 to 1.
    pub share: f64,
    /// Predicted path capacity without replay, in kpps, with the busiest remaining worker as the
    /// bottleneck. `None` if the workers are not the limit.
    pub kpps_without: Option<f64>,
}

impl RunReport {
    /// Returns the cost of replay; `None` if times are unknown or network interfaces were used.
    pub fn replay_share(&self) -> Option<ReplayShare> {
        if !self.interfaces.is_empty() {
            return None;
        }
        let (mut replay, mut busy) = (0.0, 0.0);
        // Largest busy fraction of any worker with and without replay, relative to the time for
        // which the worker was not preempted.
        let (mut with_most, mut without_most) = (0.0_f64, 0.0_f64);
        for worker in &self.workers {
            let time = worker.time?;
            let own = worker.replay_share()?.min(time.busy);
            let running = (time.busy + time.starved + time.blocked).max(f64::MIN_POSITIVE);
            (replay, busy) = (replay + own, busy + time.busy);
            with_most = with_most.max(time.busy / running);
            without_most = without_most.max((time.busy - own) / running);
        }
        let limits = |finding: &Finding| finding.limit == Limit::Processing;
        let is_limited = self.finding.as_ref().is_some_and(limits);
        let kpps = self.processed_kpps.as_number().filter(|_| is_limited && without_most > 0.0);
        let kpps_without = kpps.map(|kpps| kpps * with_most / without_most);
        (busy > 0.0).then_some(ReplayShare { share: replay / busy, kpps_without })
    }
}
