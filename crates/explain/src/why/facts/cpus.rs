// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs: which ones the threads may use, and how much of them is idle.

use super::{Facts, share};
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

    /// Returns the total idle time of all CPUs, in CPUs; `None` if no CPU was read.
    pub fn idle_cpus(&self) -> Option<f64> {
        self.idle_where(|_| true)
    }

    /// Returns the total idle time of the CPUs on which the thread may run, in CPUs: of all of them
    /// if its affinity is not known.
    pub(in super::super) fn idle_allowed(&self, thread: &ThreadActivity) -> Option<f64> {
        self.idle_where(|cpu| thread.allowed.is_empty() || thread.allowed.contains(&cpu.cpu))
    }

    /// Returns a lower bound of the fraction of a thread's wait for a CPU during which all CPUs
    /// that it ran on were idle, so that it cannot have been waiting for what ran there. On `n`
    /// CPUs whose idle fractions add up to `idle`, all are idle at the same time for at least
    /// `idle - (n - 1)`, and for part of that time, the thread slept. The error of kernel
    /// accounting is subtracted. 0 if one of the CPUs was not read.
    pub(in super::super) fn idle_meanwhile(&self, thread: &ThreadActivity) -> f64 {
        let cpus = &self.observation.cpus;
        let used = |number: &u32| {
            let cpu = cpus.iter().find(|cpu| cpu.cpu == *number);
            cpu.map_or(1.0, |cpu| 1.0 - cpu.idle)
        };
        let waiting = thread.share_of(|state| state == ThreadState::Waiting);
        if waiting <= 0.0 || thread.ran_on.is_empty() {
            return 0.0;
        }
        let all_idle = 1.0 - thread.ran_on.iter().map(used).sum::<f64>();
        let asleep = (1.0 - thread.demand()).max(0.0);
        let instead: f64 = thread.ran_instead.iter().map(|one| one.seconds).sum();
        let unknown = waiting - instead / thread.elapsed_s.max(1e-9);
        share((all_idle - asleep).min(unknown).min(waiting)).low.max(0.0) / waiting
    }

    /// Returns whether a thread ran only on CPUs whose scheduler events were read. On large
    /// machines, only the first CPUs are traced.
    pub(in super::super) fn ran_where_traced(&self, thread: &ThreadActivity) -> bool {
        /// Number of CPUs that are traced, in the order of their numbers.
        const TRACED: usize = 64;
        let mut numbers: Vec<u32> = self.observation.cpus.iter().map(|cpu| cpu.cpu).collect();
        numbers.sort_unstable();
        numbers.truncate(TRACED);
        !self.is_unread("scheduler_of_other_cpus")
            || thread.ran_on.iter().all(|cpu| numbers.contains(cpu))
    }

    fn idle_where(&self, is_counted: impl Fn(&CpuCounts) -> bool) -> Option<f64> {
        let cpus = &self.observation.cpus;
        let counted = cpus.iter().filter(|cpu| is_counted(cpu));
        (!cpus.is_empty()).then(|| counted.map(|cpu| cpu.idle).sum())
    }

    /// Returns the fraction of the window for which a thread was observed, 0 to 1. Its shares are
    /// relative to that time.
    pub fn part_of_window(&self, thread: &ThreadActivity) -> f64 {
        (thread.elapsed_s / self.elapsed()).clamp(0.0, 1.0)
    }

    /// Returns the total CPU time of all threads, in CPUs.
    pub fn used_cpus(&self) -> f64 {
        let used =
            |one: &ThreadActivity| self.part_of_window(one) * one.share_of(ThreadState::is_on_cpu);
        self.observation.threads.iter().map(used).sum()
    }
}
