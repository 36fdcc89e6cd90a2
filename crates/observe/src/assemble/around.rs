// SPDX-License-Identifier: MIT OR Apache-2.0
//! What took time from the threads in each slice: interrupts and the hypervisor on their CPU, and
//! the quota of their group.

use crate::budget::Around;
use crate::cpus::Cpus;
use crate::quotas::Quotas;
use crate::threads::{Slice, Thread};
use std::collections::{BTreeMap, BTreeSet};

/// Returns, for each slice of a thread, the activity of its CPU and the throttled time of its
/// process.
pub(super) fn around(
    thread: &Thread,
    cpus: &Cpus,
    throttled: &BTreeMap<(u32, u32), f64>,
) -> Vec<Around> {
    let of_slice = |slice: &Slice| Around {
        cpu: cpus.shares(slice.number, slice.cpu),
        throttled_ns: throttled.get(&(thread.pid, slice.number)).copied().unwrap_or(0.0),
    };
    thread.slices.iter().map(of_slice).collect()
}

/// Returns throttled time per CPU in ns, by process and slice. The kernel only reports its sum over
/// all CPUs on which threads of the group waited, so the sum is divided by their number.
pub(super) fn throttled(threads: &[Thread], quotas: &Quotas) -> BTreeMap<(u32, u32), f64> {
    let mut processes: BTreeMap<(u32, u32), Option<(u64, &str)>> = BTreeMap::new();
    let mut waited: BTreeMap<(&str, u32), BTreeSet<u32>> = BTreeMap::new();
    for thread in threads {
        for slice in thread.slices.iter().filter(|slice| slice.delay_ns > 0) {
            let (pid, number) = (thread.pid, slice.number);
            let of_process = || quotas.throttled_ns(pid, number);
            if let Some((_, group)) = processes.entry((pid, number)).or_insert_with(of_process) {
                waited.entry((group, number)).or_default().insert(slice.cpu);
            }
        }
    }
    let per_cpu = |((pid, number), of_process): ((u32, u32), Option<(u64, &str)>)| {
        let (ns, group) = of_process?;
        let cpus = waited.get(&(group, number))?.len();
        Some(((pid, number), ns as f64 / cpus as f64))
    };
    processes.into_iter().filter_map(per_cpu).collect()
}
