// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time of threads and processes that ended within the window, before they could be read twice.

use super::Window;
use crate::target::TICKS_PER_S;
use crate::watching::{Watching, Windows};
use linerate_machine::Root;
use std::collections::BTreeSet;

/// Returns the CPU utilization, in CPUs, of threads that ended before they could be read: the CPU
/// time of the observed processes, minus the CPU time of the threads that were read, divided by the
/// window length. A process's CPU time includes the CPU time of its ended threads. `None` if some
/// threads were left out, or if a process has ended.
pub(super) fn threads_cpus(
    root: &Root,
    watching: &Watching,
    left_out: u32,
    window: &Window,
) -> Option<f64> {
    if left_out > 0 || watching.windows == Windows::Many || window.elapsed_s <= 0.0 {
        return None;
    }
    let of_process = |pid: &u32| watching.family.cpu_time(root, *pid).map(|(_, seconds)| seconds);
    let processes = watching.family.pids.iter().map(of_process).sum::<Option<f64>>()?;
    let read = read_cpu_time(watching, |_| true);
    Some((processes - read).max(0.0) / window.elapsed_s)
}

/// Returns the CPU time in seconds of the threads that were read, over the processes that `is_in`
/// selects.
fn read_cpu_time(watching: &Watching, is_in: impl Fn(u32) -> bool) -> f64 {
    let threads = watching.threads.all.iter().filter(|thread| is_in(thread.pid));
    let slices = threads.flat_map(|thread| &thread.slices);
    let ticks: u64 = slices.map(|slice| slice.user_ticks + slice.system_ticks).sum();
    ticks as f64 / TICKS_PER_S
}

/// Returns the CPU utilization, in CPUs, of child processes that ended within the window, excluding
/// the CPU time of threads that were read.
pub(super) fn children_cpus(root: &Root, watching: &mut Watching, window: &Window) -> Option<f64> {
    if watching.windows == Windows::Many || window.elapsed_s <= 0.0 {
        return None;
    }
    // Account for children that ended since the last scan: part of their CPU time is from before
    // the window.
    watching.family.look(root);
    let has_ended = |pid| watching.family.cpu_time(root, pid).is_none();
    let pids = watching.family.pids.iter().copied();
    let ended: BTreeSet<u32> = pids.filter(|pid| has_ended(*pid)).collect();
    let read = read_cpu_time(watching, |pid| ended.contains(&pid));
    Some((watching.family.children_cpu_time(root) - read).max(0.0) / window.elapsed_s)
}
