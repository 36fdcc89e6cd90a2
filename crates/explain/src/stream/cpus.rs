// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU demand of the two sides of a stream, relative to the CPUs that each side can use.
//!
//! A side has one thread per connection, so its CPU time in CPUs says little: 8 threads that use
//! 15 % of a CPU each are far from being limited by CPUs. CPU time is therefore divided by the
//!
//! ```text
//! CPUs that a side can use = min(connections, CPUs on which its threads may run)
//! ```
//!
//! and the time for which threads waited for a CPU is divided by the number of threads. With one
//! connection, both divisors are 1.
//!
//! All results are exact: the interval of the CPU time only reflects that slices differ, and a
//! slice with less CPU time spent correspondingly more time waiting. A result is `None` if CPU
//! time was not measured.

use super::measure::Facts;
use linerate_record::stream::{StreamMode, StreamPathKind, StreamSide};
use std::collections::BTreeSet;

impl Facts<'_> {
    /// Returns the number of threads of each side, as a divisor.
    pub(super) fn threads(&self) -> f64 {
        self.point.connections.max(1) as f64
    }

    fn is_local(&self) -> bool {
        self.report.path.kind != StreamPathKind::Network
    }

    /// Returns the number of CPUs that a side can use.
    pub(super) fn usable(&self, side: &StreamSide) -> u64 {
        let threads = self.point.connections.max(1);
        // 0 is an unknown number.
        if side.allowed_cpus == 0 { threads } else { side.allowed_cpus.min(threads) }
    }

    /// Returns a side's CPU time relative to the CPUs that it can use, 0 to 1.
    pub(super) fn cpu_share(&self, side: &StreamSide) -> Option<f64> {
        Some(side.cpu.as_number()? / self.usable(side) as f64)
    }

    /// Returns the number of CPUs on which the threads of at least one side may run, or an upper
    /// bound: the two sets of CPUs are not recorded, only their sizes and the CPUs that were used.
    fn allowed_to_both(&self) -> u64 {
        let (sender, receiver) = (&self.point.sender, &self.point.receiver);
        let has_used_all = |side: &StreamSide| side.cpus.len() as u64 == side.allowed_cpus;
        if has_used_all(sender) && has_used_all(receiver) {
            let cpus: BTreeSet<&u32> = sender.cpus.iter().chain(&receiver.cpus).collect();
            return cpus.len() as u64;
        }
        let most = match (sender.allowed_cpus, receiver.allowed_cpus) {
            (0, _) | (_, 0) => u64::MAX,
            (sender, receiver) => sender + receiver,
        };
        if self.point.machine.cpus > 0 { most.min(self.point.machine.cpus) } else { most }
    }

    /// Returns the CPU time of both sides relative to the CPUs that they can use together, 0 to 1;
    /// `None` if they are on two machines.
    pub(super) fn pooled_share(&self) -> Option<f64> {
        let (sender, receiver) = (&self.point.sender, &self.point.receiver);
        let usable = self.allowed_to_both().clamp(1, 2 * self.point.connections.max(1));
        let cpu = sender.cpu.as_number()? + receiver.cpu.as_number()?;
        self.is_local().then_some(cpu / usable as f64)
    }

    /// Returns the CPU time of the busier side, or of both sides on one machine, relative to the
    /// CPUs that they can use, if there are fewer CPUs than threads; otherwise 0.
    pub(super) fn own_load(&self) -> Option<f64> {
        let (busier, connections) = (self.busier(), self.point.connections);
        let is_crowded = connections > self.usable(busier);
        let of_side = if is_crowded { self.cpu_share(busier)? } else { 0.0 };
        let is_crowded = 2 * connections > self.allowed_to_both();
        Some(of_side.max(self.pooled_share().filter(|_| is_crowded).unwrap_or(0.0)))
    }

    /// Returns the mean fraction of time that a thread of a side was running or waiting for a CPU.
    /// Unknown waiting time counts as 0.
    fn thread_demand(&self, side: &StreamSide) -> Option<f64> {
        Some((side.cpu.as_number()? + side.waiting.unwrap_or(0.0)) / self.threads())
    }

    /// Returns a side's CPU demand relative to the CPUs that it can use, from its own CPU time
    /// only.
    pub(super) fn demand_of(&self, side: &StreamSide) -> Option<f64> {
        Some(self.cpu_share(side)?.max(self.thread_demand(side)?))
    }

    /// Returns the busier side's CPU demand relative to the CPUs that it can use, including the CPU
    /// time of the other side if both share these CPUs.
    pub(super) fn demand(&self) -> Option<f64> {
        Some(self.demand_of(self.busier())?.max(self.pooled_share().unwrap_or(0.0)))
    }

    /// Returns the demand of both sides. On one machine, and if the two ends of a connection take
    /// turns, one of them runs while the other waits for it, so their times are added. On two
    /// machines, the ends of a stream work at the same time, so the demand of the busier side
    /// counts.
    pub(super) fn both_demand(&self) -> Option<f64> {
        let demand = self.demand()?;
        if !self.is_local() && self.report.mode != StreamMode::Request {
            return Some(demand);
        }
        let (sender, receiver) = (&self.point.sender, &self.point.receiver);
        Some(demand.max(self.thread_demand(sender)? + self.thread_demand(receiver)?))
    }
}
