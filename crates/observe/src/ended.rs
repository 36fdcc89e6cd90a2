// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time of threads and processes that ended within the window, before they could be read twice.

use crate::target::{Family, TICKS_PER_S};
use crate::threads::Threads;
use linerate_machine::Root;
use std::collections::{BTreeMap, BTreeSet};

/// CPU time of threads and processes that ended, in CPUs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ended {
    /// CPU time of ended threads whose processes still exist. `None` before the end of a window.
    pub(crate) threads_cpus: Option<f64>,
    /// CPU time of ended child processes. `None` before the end of a window.
    pub(crate) children_cpus: Option<f64>,
}

impl Ended {
    /// Reads the CPU time of the processes. Call right after the last reading of the threads: CPU
    /// time that the program uses after that reading would look like that of ended threads.
    /// `elapsed_s` is the time from the first reading to the last.
    pub(crate) fn read(
        root: &Root,
        family: &mut Family,
        threads: &Threads,
        elapsed_s: f64,
    ) -> Self {
        if elapsed_s <= 0.0 {
            return Self::default();
        }
        let threads_cpus = Some(threads_s(root, family, threads) / elapsed_s);
        let children_cpus = Some(children_s(root, family, threads) / elapsed_s);
        Self { threads_cpus, children_cpus }
    }
}

/// Returns the CPU time in seconds of the observed processes beyond that of the threads that were
/// read. A process's CPU time includes that of its ended threads. Processes that have ended are
/// left out: their time is part of [`children_s`].
fn threads_s(root: &Root, family: &Family, threads: &Threads) -> f64 {
    let pids = family.pids.iter();
    let alive = pids.filter_map(|pid| Some((*pid, family.cpu_time(root, *pid)?)));
    let alive: BTreeMap<u32, f64> = alive.collect();
    let read = read_cpu_time(threads, |pid| alive.contains_key(&pid));
    (alive.values().sum::<f64>() - read).max(0.0)
}

/// Returns the CPU time in seconds of the threads that were read, in the processes that `is_in`
/// selects.
fn read_cpu_time(threads: &Threads, is_in: impl Fn(u32) -> bool) -> f64 {
    let threads = threads.all.iter().filter(|thread| is_in(thread.pid));
    let slices = threads.flat_map(|thread| &thread.slices);
    let ticks: u64 = slices.map(|slice| slice.user_ticks + slice.system_ticks).sum();
    ticks as f64 / TICKS_PER_S
}

/// Returns the CPU time in seconds of child processes that ended within the window, except for
/// those whose threads were read.
fn children_s(root: &Root, family: &mut Family, threads: &Threads) -> f64 {
    // Account for children that ended since the last scan: part of their CPU time is from before
    // the window.
    family.look(root);
    let has_ended = |pid| family.cpu_time(root, pid).is_none();
    let pids = family.pids.iter().copied();
    let ended: BTreeSet<u32> = pids.filter(|pid| has_ended(*pid)).collect();
    let read = read_cpu_time(threads, |pid| ended.contains(&pid));
    (family.children_cpu_time(root) - read).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_process_that_has_ended_does_not_hide_the_ended_threads_of_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        let put = |pid: u32, parent: u32, ticks: u64| {
            let at = folder.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&at).expect("a folder");
            let stat = format!("{pid} (server) S {parent} 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 ");
            fs::write(at.join("stat"), stat + &"0 ".repeat(35)).expect("a file");
        };
        put(5, 1, 100);
        put(6, 5, 40);
        let mut family = Family::new(&root, &[5]);
        family.begin(&root);
        assert_eq!(family.pids, [5, 6]);
        put(5, 1, 300);
        let ended = Ended::read(&root, &mut family, &Threads::default(), 5.0);
        assert_eq!(ended.threads_cpus, Some(0.4));
        fs::remove_dir_all(folder.path().join("proc/6")).expect("a folder");
        let ended = Ended::read(&root, &mut family, &Threads::default(), 5.0);
        assert_eq!(ended.threads_cpus, Some(0.4));
    }

    #[test]
    fn each_window_counts_only_what_ended_in_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        let put = |pid: u32, parent: u32, own: u64, children: u64| {
            let at = folder.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&at).expect("a folder");
            let stat = format!("{pid} (a) S {parent} 1 1 0 -1 0 0 0 0 0 {own} 0 {children} 0 ");
            fs::write(at.join("stat"), stat + &"0 ".repeat(35)).expect("a file");
        };
        put(5, 1, 100, 0);
        put(6, 5, 40, 0);
        let mut family = Family::new(&root, &[5]);
        family.begin(&root);
        let mut window = || {
            let ended = Ended::read(&root, &mut family, &Threads::default(), 1.0);
            family.restart(&root);
            (ended.threads_cpus, ended.children_cpus)
        };
        put(5, 1, 130, 0);
        assert_eq!(window(), (Some(0.3), Some(0.0)));
        // The child ends: it used 0.2 s in this window, and its parent gets all of its time.
        fs::remove_dir_all(folder.path().join("proc/6")).expect("a folder");
        put(5, 1, 130, 60);
        assert_eq!(window(), (Some(0.0), Some(0.2)));
        put(5, 1, 140, 65);
        assert_eq!(window(), (Some(0.1), Some(0.05)));
    }
}
