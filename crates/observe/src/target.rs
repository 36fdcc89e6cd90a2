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
mod tests {
    use super::*;
    use std::fs;

    fn tree(processes: &[(u32, &str, char, u32, u64)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (pid, name, state, parent, flags) in processes {
            let at = folder.path().join(format!("proc/{pid}"));
            fs::create_dir_all(at.join("fd")).expect("a folder");
            let zeros = "0 ".repeat(43);
            let stat = format!("{pid} ({name}) {state} {parent} 1 1 0 -1 {flags} {zeros}");
            fs::write(at.join("stat"), stat).expect("a file");
            fs::write(at.join("status"), format!("Tgid:\t{pid}\nUid:\t0\t0\t0\t0\n"))
                .expect("file");
        }
        folder
    }

    #[test]
    fn what_may_not_be_watched_is_refused_with_its_reason() {
        let folder = tree(&[
            (1, "init", 'S', 0, 0),
            (2, "kthreadd", 'S', 0, 0x0020_8040),
            (9, "gone) Z", 'Z', 1, 0),
        ]);
        let root = Root::new(folder.path());
        fs::write(folder.path().join("proc/1/status"), "Tgid:\t1\nUid:\t0\t0\t0\t0\n").unwrap();
        assert_eq!(check(&root, 1).unwrap().name, "init");
        let name = "kthreadd".to_owned();
        assert_eq!(check(&root, 2), Err(ObserveError::KernelThread { pid: 2, name }));
        assert_eq!(check(&root, 9), Err(ObserveError::Zombie(9)));
        assert_eq!(check(&root, 10), Err(ObserveError::Gone(10)));
        let bare = tempfile::tempdir().unwrap();
        assert_eq!(check(&Root::new(bare.path()), 1), Err(ObserveError::NoProc));
        fs::write(folder.path().join("proc/1/status"), "Tgid:\t4\nUid:\t0\t0\t0\t0\n").unwrap();
        assert_eq!(check(&root, 1), Err(ObserveError::Thread { tid: 1, pid: 4 }));
    }

    #[test]
    fn a_process_whose_main_thread_has_exited_has_not_ended() {
        let folder = tree(&[(10, "worker", 'S', 1, 0)]);
        let root = Root::new(folder.path());
        let set = |threads: u32| {
            let (before, after) = ("0 ".repeat(10), "0 ".repeat(32));
            let stat = format!("9 (server) Z 1 1 1 0 -1 0 {before}{threads} {after}");
            crate::tree::put(&root, "proc/9/stat", &stat);
        };
        set(2);
        crate::tree::put(&root, "proc/9/status", "Tgid:\t9\nUid:\t0\t0\t0\t0\n");
        for tid in ["9", "10"] {
            fs::create_dir_all(folder.path().join("proc/9/task").join(tid)).unwrap();
        }
        std::os::unix::fs::symlink("socket:[55]", folder.path().join("proc/10/fd/3")).unwrap();
        assert_eq!(check(&root, 9).unwrap().name, "server");
        assert_eq!(named(&root, "server"), Ok(vec![9]));
        // Its descriptors are those of the other thread.
        assert_eq!(open_id(&root, 9), 10);
        assert_eq!(crate::descriptors::Open::of(&root, 9).sockets, [55]);
        set(1);
        assert_eq!(check(&root, 9), Err(ObserveError::Zombie(9)));
        assert_eq!(open_id(&root, 9), 9);
    }

    #[test]
    fn names_are_those_of_the_kernel_or_of_the_file() {
        let folder =
            tree(&[(5, "nginx", 'S', 1, 0), (6, "worker", 'S', 5, 0), (7, "b", 'Z', 1, 0)]);
        let root = Root::new(folder.path());
        std::os::unix::fs::symlink("/usr/sbin/b (deleted)", folder.path().join("proc/6/exe"))
            .unwrap();
        assert_eq!(named(&root, "nginx"), Ok(vec![5]));
        assert_eq!(named(&root, "b"), Ok(vec![6]));
        assert_eq!(named(&root, "c"), Err(ObserveError::NoSuchName("c".to_owned())));
    }

    #[test]
    fn descendants_are_found_before_and_while_watching() {
        let folder = tree(&[
            (1, "a", 'S', 0, 0),
            (5, "b", 'S', 1, 0),
            (6, "c", 'S', 5, 0),
            (7, "d", 'S', 6, 0),
            (8, "e", 'S', 1, 0),
        ]);
        let root = Root::new(folder.path());
        let mut family = Family::new(&root, &[5]);
        assert_eq!(family.pids, [5, 6, 7]);
        assert!(family.look(&root).is_empty());
        let more = tree(&[(9, "f", 'S', 7, 0)]);
        fs::rename(more.path().join("proc/9"), folder.path().join("proc/9")).unwrap();
        assert_eq!(family.look(&root), [9]);
    }

    #[test]
    fn ended_processes_are_forgotten_and_those_with_their_ids_are_strangers() {
        let folder = tree(&[(1, "a", 'S', 0, 0), (5, "b", 'S', 1, 0), (6, "c", 'S', 5, 0)]);
        let root = Root::new(folder.path());
        let begin = |pid: u32, parent: u32, began: u64| {
            let (zeros, after) = ("0 ".repeat(12), "0 ".repeat(30));
            let at = folder.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&at).unwrap();
            let text = format!("{pid} (x) S {parent} 1 1 0 -1 0 {zeros}{began} {after}");
            fs::write(at.join("stat"), text).unwrap();
        };
        let end = |pid: u32| fs::remove_dir_all(folder.path().join(format!("proc/{pid}"))).unwrap();
        begin(5, 1, 70);
        begin(6, 5, 80);
        let mut family = Family::new(&root, &[5]);
        // Within a window, a child that has ended is still listed.
        end(6);
        family.look(&root);
        assert_eq!(family.pids, [5, 6]);
        family.forget_ended();
        assert_eq!(family.pids, [5]);
        // Its ID goes to a process of another program, and that of the program itself, too.
        begin(6, 1, 900);
        end(5);
        family.look(&root);
        family.forget_ended();
        assert_eq!(family.pids, [5]);
        begin(5, 1, 950);
        family.look(&root);
        assert!(family.pids.is_empty(), "{:?}", family.pids);
    }

    #[test]
    fn an_id_that_is_used_again_within_a_window_is_not_adopted() {
        let folder = tree(&[(1, "a", 'S', 0, 0), (5, "b", 'S', 1, 0), (6, "c", 'S', 5, 0)]);
        let root = Root::new(folder.path());
        let mut family = Family::new(&root, &[5]);
        let at = folder.path().join("proc/6");
        fs::remove_dir_all(&at).unwrap();
        family.look(&root);
        fs::create_dir_all(&at).unwrap();
        let (zeros, after) = ("0 ".repeat(12), "0 ".repeat(30));
        fs::write(at.join("stat"), format!("6 (x) S 1 1 1 0 -1 0 {zeros}900 {after}")).unwrap();
        assert!(family.look(&root).is_empty());
        assert_eq!(family.pids, [5]);
        // A new child with the ID of an old one is a child.
        fs::remove_dir_all(&at).unwrap();
        family.look(&root);
        fs::create_dir_all(&at).unwrap();
        fs::write(at.join("stat"), format!("6 (x) S 5 1 1 0 -1 0 {zeros}950 {after}")).unwrap();
        assert_eq!(family.look(&root), [6]);
    }

    #[test]
    fn the_time_of_processes_counts_from_the_start_of_the_window() {
        let folder = tree(&[(5, "b", 'S', 1, 0), (6, "c", 'S', 5, 0)]);
        let root = Root::new(folder.path());
        let set = |pid: u32, own: u64, children: u64| {
            let zeros = "0 ".repeat(39);
            let text = format!("{pid} (b) S 5 1 1 0 -1 0 0 0 0 0 {own} 0 {children} 0 {zeros}");
            fs::write(folder.path().join(format!("proc/{pid}/stat")), text).unwrap();
        };
        set(5, 100, 0);
        set(6, 30, 0);
        let mut family = Family::new(&root, &[5]);
        // Before the window, process 5 runs and waits for its child.
        set(5, 180, 40);
        fs::remove_dir_all(folder.path().join("proc/6")).unwrap();
        family.begin(&root);
        set(5, 190, 45);
        family.look(&root);
        assert_eq!(family.cpu_time(&root, 5), Some(0.1));
        assert_eq!(family.children_cpu_time(&root), 0.05);
    }

    #[test]
    fn the_time_of_children_counts_from_the_first_look() {
        let folder = tree(&[(5, "b", 'S', 1, 0), (6, "c", 'S', 5, 0)]);
        let root = Root::new(folder.path());
        let set = |pid: u32, own: u64, children: [u64; 2]| {
            let [user, system] = children;
            let zeros = "0 ".repeat(39);
            let parent = if pid == 6 { 5 } else { 1 };
            let text =
                format!("{pid} (b) S {parent} 1 1 0 -1 0 0 0 0 0 {own} 0 {user} {system} {zeros}");
            fs::write(folder.path().join(format!("proc/{pid}/stat")), text).unwrap();
        };
        set(5, 100, [300, 200]);
        set(6, 80, [0, 0]);
        let mut family = Family::new(&root, &[5]);
        assert_eq!(family.children_cpu_time(&root), 0.0);
        set(5, 110, [330, 210]);
        assert_eq!(family.cpu_time(&root, 5), Some(0.1));
        // The time of a child that started and ended in between is included.
        let brief = tree(&[(9, "f", 'S', 5, 0)]);
        fs::rename(brief.path().join("proc/9"), folder.path().join("proc/9")).unwrap();
        assert_eq!(family.look(&root), [9]);
        fs::remove_dir_all(folder.path().join("proc/9")).unwrap();
        family.look(&root);
        assert_eq!(family.children_cpu_time(&root), 0.4);
        // The time that a child had used before the first scan is not included.
        fs::remove_dir_all(folder.path().join("proc/6")).unwrap();
        set(5, 110, [390, 260]);
        family.look(&root);
        assert_eq!(family.children_cpu_time(&root), 0.7);
    }
}
