// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selects the processes to observe, and checks that they can be observed.

use crate::ObserveError;
use crate::procfs::task::{Stat, Status};
use linerate_linux::monotonic_ns;
use linerate_machine::Root;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

/// USER_HZ: unit of the CPU times in `stat`.
pub(crate) const TICKS_PER_S: f64 = 100.0;

/// Returns all PIDs in ascending order.
pub(crate) fn all_pids(root: &Root) -> Vec<u32> {
    let mut pids: Vec<u32> =
        root.names("proc").iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    pids
}

/// Reads the fields of a process's `stat`.
pub(crate) fn stat_of(root: &Root, pid: u32) -> Option<Stat> {
    Stat::parse(&root.text(&format!("proc/{pid}/stat"))?)
}

/// Returns the ID under which /proc shows a process's descriptors and namespaces: its own or, if
/// its main thread has exited, that of another thread.
pub(crate) fn open_id(root: &Root, pid: u32) -> u32 {
    let is_hidden = stat_of(root, pid).is_some_and(|stat| stat.has_ended() && stat.threads > 1);
    if !is_hidden {
        return pid;
    }
    let tids = root.names(&format!("proc/{pid}/task"));
    let mut tids = tids.iter().filter_map(|tid| tid.parse().ok());
    let is_alive = |tid: &u32| stat_of(root, *tid).is_some_and(|stat| !stat.has_ended());
    tids.find(is_alive).unwrap_or(pid)
}

/// Returns the CPU on which a process's busiest thread last ran; `None` if unreadable. The busiest
/// thread is the one with the most CPU time since its start.
pub(crate) fn last_cpu_of(root: &Root, pid: u32) -> Option<u32> {
    /// Maximum number of threads to read; each costs some 10 us.
    const THREADS_MAX: usize = 64;
    let tids = root.names(&format!("proc/{pid}/task"));
    let stats = tids
        .iter()
        .take(THREADS_MAX)
        .filter_map(|tid| Stat::parse(&root.text(&format!("proc/{pid}/task/{tid}/stat"))?));
    stats.max_by_key(|stat| stat.user_ticks + stat.system_ticks).map(|stat| stat.cpu)
}

/// Checks that a process can be observed.
///
/// # Errors
///
/// Returns an error if `pid` does not exist, or is a zombie, a thread ID, a kernel thread or
/// another user's process.
pub(crate) fn check(root: &Root, pid: u32) -> Result<Stat, ObserveError> {
    let missing = || match root.exists("proc/1") || root.exists("proc/self") {
        true => ObserveError::Gone(pid),
        false => ObserveError::NoProc,
    };
    let stat = stat_of(root, pid).ok_or_else(missing)?;
    let status = root.text(&format!("proc/{pid}/status")).ok_or_else(missing)?;
    let status = Status::parse(&status);
    if status.process != pid && status.process != 0 {
        return Err(ObserveError::Thread { tid: pid, pid: status.process });
    }
    if stat.has_process_ended() {
        return Err(ObserveError::Zombie(pid));
    }
    if stat.is_kernel_thread {
        return Err(ObserveError::KernelThread { pid, name: stat.name });
    }
    match is_another_users(root, pid, status.uid) {
        true => Err(ObserveError::NotPermitted { pid, name: stat.name, uid: status.uid }),
        false => Ok(stat),
    }
}

/// Returns whether the kernel denies access to the process because it belongs to another user. The
/// calling user's own non-dumpable processes are observed as far as possible.
fn is_another_users(root: &Root, pid: u32, uid: u32) -> bool {
    let is_refused = std::fs::read_dir(root.path(&format!("proc/{pid}/fd")))
        .is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    let own = root.text("proc/self/status").map(|text| Status::parse(&text).uid);
    is_refused && own != Some(uid)
}

/// Returns the processes whose `comm` or executable has this name, excluding the calling process.
///
/// # Errors
///
/// Returns an error if no process has this name.
pub(crate) fn named(root: &Root, name: &str) -> Result<Vec<u32>, ObserveError> {
    let own = std::process::id();
    let is_meant = |pid: &u32| {
        let stat =
            stat_of(root, *pid).filter(|stat| !stat.is_kernel_thread && !stat.has_process_ended());
        let Some(stat) = stat else { return false };
        stat.name == name || file_name(root, *pid).is_some_and(|file| file == name)
    };
    let pids: Vec<u32> =
        all_pids(root).into_iter().filter(|pid| *pid != own).filter(is_meant).collect();
    match pids.is_empty() {
        true => Err(ObserveError::NoSuchName(name.to_owned())),
        false => Ok(pids),
    }
}

/// Returns the name of a process's executable.
fn file_name(root: &Root, pid: u32) -> Option<String> {
    let link = std::fs::read_link(root.path(&format!("proc/{pid}/exe"))).ok()?;
    let name = link.file_name()?.to_string_lossy().into_owned();
    Some(name.strip_suffix(" (deleted)").unwrap_or(&name).to_owned())
}

/// The observed processes and their descendants, which are added as they appear.
#[derive(Debug, Default)]
pub(crate) struct Family {
    /// Observed processes, in the order found.
    pub(crate) pids: Vec<u32>,
    /// The kernel's softirq threads, by CPU.
    pub(crate) softirq_threads: BTreeMap<u32, u32>,
    /// Processes that were named by the user, as opposed to their descendants.
    wanted: BTreeSet<u32>,
    /// Start times of the observed processes, in ticks since boot: a process that began at another
    /// time has the PID of one that ended.
    began_ticks: BTreeMap<u32, u64>,
    seen: BTreeMap<u32, Seen>,
    /// CPU time that children of each observed process had used at the first scan, and that has
    /// since been added to the process's children time (cutime, cstime), because they ended.
    inherited_ticks: BTreeMap<u32, u64>,
}

/// A process as first seen or, if it is observed, at the start of the window.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    parent: u32,
    began_ticks: u64,
    /// Time at which the CPU times below were read.
    at_ns: u64,
    ran_ticks: u64,
    children_ticks: u64,
    /// Whether the process existed at the first scan.
    is_first: bool,
}

impl Seen {
    /// Sets the CPU times.
    fn read(&mut self, stat: &Stat) {
        self.at_ns = monotonic_ns();
        self.ran_ticks = stat.user_ticks + stat.system_ticks;
        self.children_ticks = stat.children_ticks;
    }
}

impl Family {
    pub(crate) fn new(root: &Root, pids: &[u32]) -> Self {
        let wanted = pids.iter().copied().collect();
        let mut family = Self { pids: pids.to_vec(), wanted, ..Self::default() };
        family.look(root);
        family
    }

    /// Creates a family of one process, without searching for its descendants yet.
    pub(crate) fn of_one(pid: u32) -> Self {
        Self { pids: vec![pid], ..Self::default() }
    }

    /// Adds new descendants and returns them. Reads `stat` only of processes that appeared since
    /// the last call.
    pub(crate) fn look(&mut self, root: &Root) -> Vec<u32> {
        let now: BTreeSet<u32> = all_pids(root).into_iter().collect();
        let is_first = self.seen.is_empty();
        let ended = |(pid, seen): &(&u32, &Seen)| seen.is_first && !now.contains(pid);
        let is_own = |seen: &Seen| self.pids.contains(&seen.parent);
        for (_, seen) in self.seen.iter().filter(ended).filter(|(_, seen)| is_own(seen)) {
            *self.inherited_ticks.entry(seen.parent).or_default() +=
                seen.ran_ticks + seen.children_ticks;
        }
        self.seen.retain(|pid, _| now.contains(pid));
        for &pid in &now {
            if let std::collections::btree_map::Entry::Vacant(place) = self.seen.entry(pid)
                && let Some(stat) = stat_of(root, pid)
            {
                let seen = place.insert(Seen {
                    parent: stat.parent,
                    began_ticks: stat.began_ticks,
                    is_first,
                    ..Seen::default()
                });
                seen.read(&stat);
                let began_ticks = self.began_ticks.get(&pid);
                if began_ticks.is_some_and(|began_ticks| *began_ticks != stat.began_ticks) {
                    self.began_ticks.remove(&pid);
                    self.pids.retain(|one| *one != pid);
                }
                let cpu = stat.name.strip_prefix("ksoftirqd/").and_then(|cpu| cpu.parse().ok());
                if let Some(cpu) = cpu.filter(|_| stat.is_kernel_thread) {
                    self.softirq_threads.insert(cpu, pid);
                }
            }
        }
        let added = self.adopt();
        for pid in &self.pids {
            if let Some(seen) = self.seen.get(pid) {
                self.began_ticks.insert(*pid, seen.began_ticks);
            }
        }
        added
    }

    /// Forgets descendants that had ended at the last [`Family::look`].
    pub(crate) fn forget_ended(&mut self) {
        let (seen, wanted) = (&self.seen, &self.wanted);
        self.pids.retain(|pid| seen.contains_key(pid) || wanted.contains(pid));
        let pids: BTreeSet<u32> = self.pids.iter().copied().collect();
        self.began_ticks.retain(|pid, _| pids.contains(pid));
        self.inherited_ticks.retain(|pid, _| pids.contains(pid));
    }

    /// Begins the window of the observed processes: their CPU times count from now on.
    pub(crate) fn begin(&mut self, root: &Root) {
        for pid in &self.pids {
            let stat = stat_of(root, *pid);
            match (stat, self.seen.get_mut(pid)) {
                (Some(stat), Some(seen)) if stat.began_ticks == seen.began_ticks => {
                    seen.read(&stat)
                }
                // It has ended, and its parent has waited for it.
                _ => {
                    self.seen.remove(pid);
                }
            }
        }
    }

    /// Begins another window: CPU times count from now on, also those of children that end in it.
    pub(crate) fn restart(&mut self, root: &Root) {
        self.begin(root);
        self.inherited_ticks.clear();
        for pid in &self.pids {
            self.seen.entry(*pid).and_modify(|seen| seen.is_first = true);
        }
    }

    /// Returns the CPU time of an observed process in seconds since the window began or, if it was
    /// found later, since then; `None` once it has ended.
    pub(crate) fn cpu_time(&self, root: &Root, pid: u32) -> Option<f64> {
        let (stat, before) = self.stat_and_first(root, pid)?;
        let ran = stat.user_ticks + stat.system_ticks;
        let since = ran.saturating_sub(before.map_or(0, |seen| seen.ran_ticks));
        Some(since as f64 / TICKS_PER_S)
    }

    /// Returns the name of any process and the CPUs that it has used since it was first seen;
    /// `None` once it has ended.
    pub(crate) fn cpus(&self, root: &Root, pid: u32) -> Option<(String, f64)> {
        let (stat, before) = self.stat_and_first(root, pid)?;
        let elapsed_s = monotonic_ns().saturating_sub(before?.at_ns) as f64 / 1e9;
        Some((stat.name, self.cpu_time(root, pid)? / elapsed_s.max(1.0 / TICKS_PER_S)))
    }

    /// Returns the CPU time, in seconds since the first scan, of child processes that have ended
    /// and been waited for.
    pub(crate) fn children_cpu_time(&self, root: &Root) -> f64 {
        let of_process = |pid: &u32| {
            let (stat, before) = self.stat_and_first(root, *pid)?;
            let before = before.map_or(0, |seen| seen.children_ticks);
            // The time of children that are not waited for (SIGCHLD ignored) is not added.
            let inherited = self.inherited_ticks.get(pid).copied().unwrap_or(0);
            Some(stat.children_ticks.saturating_sub(before + inherited))
        };
        self.pids.iter().filter_map(of_process).sum::<u64>() as f64 / TICKS_PER_S
    }

    /// Returns a process's current fields and those from when it was first seen; `None` once it
    /// has exited.
    fn stat_and_first(&self, root: &Root, pid: u32) -> Option<(Stat, Option<&Seen>)> {
        let stat = stat_of(root, pid).filter(|stat| !stat.has_process_ended())?;
        let first = self.seen.get(&pid).filter(|seen| seen.began_ticks == stat.began_ticks);
        Some((stat, first))
    }

    /// Adds children of observed processes until there are no more, and returns the added ones.
    fn adopt(&mut self) -> Vec<u32> {
        let mut added = Vec::new();
        loop {
            // The observed program may be the shell that started linerate.
            let is_child = |(pid, seen): &(&u32, &Seen)| {
                let is_observer = **pid == std::process::id();
                self.pids.contains(&seen.parent) && !self.pids.contains(pid) && !is_observer
            };
            let found: Vec<u32> = self.seen.iter().filter(is_child).map(|(p, _)| *p).collect();
            if found.is_empty() {
                return added;
            }
            self.pids.extend(&found);
            added.extend(found);
        }
    }
}

#[cfg(test)]
mod tests;
