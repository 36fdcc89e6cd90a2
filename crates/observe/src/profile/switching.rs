// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often threads are scheduled, which determines the cost of sampling them.
//!
//! The kernel cancels the timer of a thread's `cpu-clock` event when the thread leaves its CPU, and
//! restarts it when the thread returns. In a virtual machine, each of the two may cause a VM exit
//! and take 30 us. The timer of a per-CPU event keeps running.

use crate::procfs::task::SchedStat;
use linerate_machine::Root;
use std::time::Duration;

/// Observation time.
const WINDOW: Duration = Duration::from_millis(50);
/// Maximum number of times per window that the scheduler may switch to a single thread or, per CPU,
/// to all threads together. This is 500 times per second, which costs 1.5 % of the thread's time.
const SWITCHES: u64 = 25;
/// Maximum number of threads to read.
const MAX_THREADS: usize = 256;

/// Returns whether threads switch so often that their own events would slow them down. Observes
/// them for 50 ms.
pub(super) fn switches_often(root: &Root, threads: &[u32], cpus: usize) -> bool {
    let read = || threads.iter().take(MAX_THREADS).map(|&tid| times(root, tid));
    let before: Vec<Option<u64>> = read().collect();
    linerate_linux::child::sleep(WINDOW);
    let switches = before.into_iter().zip(read());
    let switches: Vec<u64> =
        switches.filter_map(|(before, after)| after?.checked_sub(before?)).collect();
    is_often(&switches, cpus)
}

/// Returns how many times the scheduler has run a thread.
fn times(root: &Root, tid: u32) -> Option<u64> {
    Some(SchedStat::parse(&root.text(&format!("proc/{tid}/schedstat"))?)?.times)
}

fn is_often(switches: &[u64], cpus: usize) -> bool {
    let all: u64 = switches.iter().sum();
    switches.iter().any(|&times| times > SWITCHES) || all > SWITCHES * cpus as u64
}

#[cfg(test)]
mod tests {
    use super::is_often;

    #[test]
    fn one_thread_or_all_together_may_switch_often() {
        assert!(!is_often(&[], 2));
        assert!(!is_often(&[0, 25, 10], 2));
        assert!(is_often(&[0, 200], 64));
        assert!(is_often(&[20, 20, 20], 2));
        assert!(!is_often(&[20, 20, 20], 4));
    }
}
