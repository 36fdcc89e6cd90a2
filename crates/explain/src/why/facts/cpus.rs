// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs: which ones the threads may use, and how much of them is idle.

use super::Facts;
use linerate_record::why::{CpuCounts, ThreadActivity, ThreadState};

impl<'a> Facts<'a> {
    /// Returns how many CPUs a thread may run on.
    pub fn allowed(thread: &ThreadActivity) -> usize {
        thread.allowed.len().max(1)
    }

    /// Returns the number of CPUs for which data was read.
    pub fn cpus(&self) -> usize {
        self.observation.cpus.len()
    }

    /// Returns the total idle time of all CPUs, in CPUs.
    pub fn idle_cpus(&self) -> Option<f64> {
        self.idle_where(|_| true)
    }

    /// Returns the total idle time of the CPUs on which the thread may run, in CPUs: of all of them
    /// if its affinity is not known.
    pub(in super::super) fn idle_allowed(&self, thread: &ThreadActivity) -> Option<f64> {
        self.idle_where(|cpu| thread.allowed.is_empty() || thread.allowed.contains(&cpu.cpu))
    }

    fn idle_where(&self, is_counted: impl Fn(&CpuCounts) -> bool) -> Option<f64> {
        let cpus = &self.observation.cpus;
        let counted = cpus.iter().filter(|cpu| is_counted(cpu));
        (!cpus.is_empty()).then(|| counted.map(|cpu| cpu.idle).sum())
    }

    /// Returns the total CPU time of all threads, in CPUs.
    pub fn used_cpus(&self) -> f64 {
        let threads = self.observation.threads.iter();
        threads.map(|thread| thread.share_of(ThreadState::is_on_cpu)).sum()
    }
}
