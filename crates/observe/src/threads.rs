// SPDX-License-Identifier: MIT OR Apache-2.0
//! Per-thread kernel counters, read every slice.

use crate::procfs::task::{SchedStat, Stat, Status, parse_io_calls};
use linerate_machine::Root;
use linerate_record::why::SchedulingPolicy;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Maximum number of threads read every slice. If there are more, those that ran or waited longest
/// in the first slice are read.
pub(crate) const FOLLOWED_MAX: usize = 256;

/// Maximum number of threads whose files stay open. At two files each, they stay well within the
/// usual limit of 1024 descriptors.
const OPEN_MAX: usize = 128;

/// Number of threads above which the task directories are read only in every tenth slice.
const CROWD: usize = 1024;

/// Number of slices after which the task directory is read even if the number of threads is
/// unchanged, as threads may have been replaced.
const LOOK_EVERY: u32 = 5;

/// Activity of a thread in one slice.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Slice {
    /// Slice number.
    pub(crate) number: u32,
    /// Time since the previous read, in ns.
    pub(crate) wall_ns: u64,
    pub(crate) run_ns: u64,
    pub(crate) delay_ns: u64,
    pub(crate) user_ticks: u64,
    pub(crate) system_ticks: u64,
    /// CPU on which the thread last ran.
    pub(crate) cpu: u32,
}

/// Contents of a thread's `stat` and `schedstat` at one point in time.
#[derive(Clone, Debug, Default)]
struct Read {
    at_ns: u64,
    stat: Stat,
    sched: SchedStat,
}

/// An observed thread.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) name: String,
    /// State of the thread when it was first seen.
    pub(crate) began: char,
    pub(crate) slices: Vec<Slice>,
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
    /// Number of slices in which the thread's process called execve(2).
    slices_with_exec: u64,
    /// Whether the thread was stopped at the end of a slice of the window.
    was_stopped: bool,
    first_status: Status,
    last_status: Status,
    /// Numbers of read(2), write(2) and similar calls at the first and last reading.
    io_calls: [Option<u64>; 2],
    last: Read,
    files: Option<(File, File)>,
    is_followed: bool,
    has_ended: bool,
}

impl Thread {
    /// Returns how long the thread existed within the window, in seconds.
    pub(crate) fn elapsed_s(&self) -> f64 {
        self.slices.iter().map(|slice| slice.wall_ns).sum::<u64>() as f64 / 1e9
    }

    /// Returns the time spent on a CPU or waiting for one, in ns.
    pub(crate) fn wanted_ns(&self) -> u64 {
        self.slices.iter().map(|slice| slice.run_ns + slice.delay_ns).sum()
    }

    /// Returns the CPU time since the thread started, in ns.
    pub(crate) fn ran_ns(&self) -> u64 {
        self.last.sched.run_ns
    }

    /// Returns the CPUs on which the thread was seen, by descending run time.
    pub(crate) fn ran_on(&self) -> Vec<u32> {
        let mut times: BTreeMap<u32, u64> = BTreeMap::new();
        for slice in self.slices.iter().filter(|slice| slice.run_ns > 0) {
            *times.entry(slice.cpu).or_default() += slice.run_ns;
        }
        let mut cpus: Vec<(u32, u64)> = times.into_iter().collect();
        cpus.sort_by_key(|(cpu, ns)| (std::cmp::Reverse(*ns), *cpu));
        cpus.into_iter().map(|(cpu, _)| cpu).collect()
    }

    /// Returns the CPUs in the thread's affinity mask.
    pub(crate) fn allowed(&self) -> &[u32] {
        &self.last_status.allowed
    }

    /// Returns the number of slices in which the thread's process called execve(2).
    pub(crate) fn execs(&self) -> u64 {
        self.slices_with_exec
    }

    /// Returns the numbers of voluntary and involuntary context switches.
    pub(crate) fn switches(&self) -> (u64, u64) {
        let (first, last) = (&self.first_status, &self.last_status);
        let voluntary = last.voluntary_switches.saturating_sub(first.voluntary_switches);
        (voluntary, last.involuntary_switches.saturating_sub(first.involuntary_switches))
    }

    /// Returns the number of read(2), write(2) and similar calls; `None` if unreadable.
    pub(crate) fn io_calls(&self) -> Option<u64> {
        let [first, last] = self.io_calls;
        last?.checked_sub(first?)
    }

    /// Returns whether the thread never slept: it was runnable at the start and never switched
    /// voluntarily.
    pub(crate) fn never_slept(&self) -> bool {
        self.began == 'R' && self.switches().0 == 0
    }

    /// Returns whether the thread is currently stopped by a signal or debugger. Reads its state
    /// only if it was stopped at the end of a slice.
    pub(crate) fn is_stopped(&self, root: &Root) -> bool {
        self.was_stopped && read(root, self, 0).is_some_and(|now| now.stat.is_stopped())
    }

    /// Returns the state at the last read, as in /proc/PID/stat; `None` if the thread has ended.
    pub(crate) fn state(&self) -> Option<char> {
        (!self.has_ended).then_some(self.last.stat.state)
    }

    /// Returns whether the thread still exists and is read every slice.
    pub(crate) fn is_followed(&self) -> bool {
        self.is_followed && !self.has_ended
    }

    /// Returns the process that traces the thread, as strace and debuggers do.
    pub(crate) fn tracer(&self) -> Option<u32> {
        Some(self.last_status.tracer).filter(|pid| *pid != 0)
    }

    pub(crate) fn nice(&self) -> i32 {
        self.last.stat.nice
    }

    /// Returns the scheduling policy; `None` if the kernel does not report it, or reports one that
    /// is not known here.
    pub(crate) fn policy(&self) -> Option<SchedulingPolicy> {
        // Values from linux/sched.h.
        Some(match self.last.stat.policy? {
            0 => SchedulingPolicy::Normal,
            1 => SchedulingPolicy::Fifo,
            2 => SchedulingPolicy::RoundRobin,
            3 => SchedulingPolicy::Batch,
            5 => SchedulingPolicy::Idle,
            6 => SchedulingPolicy::Deadline,
            _ => return None,
        })
    }

    fn file(&self, name: &str) -> String {
        format!("proc/{}/task/{}/{name}", self.pid, self.tid)
    }

    fn begin_window(&mut self) {
        self.slices.clear();
        (self.minor_faults, self.major_faults, self.slices_with_exec) = (0, 0, 0);
        self.was_stopped = false;
        self.first_status.clone_from(&self.last_status);
        self.io_calls[0] = self.io_calls[1];
        self.began = self.last.stat.state;
    }

    /// Reads the thread, and adds its activity since the previous read to its slices.
    fn read(&mut self, root: &Root, number: u32, at_ns: u64) {
        let Some(now) = read(root, self, at_ns) else {
            // Without a free file descriptor, a thread that still exists cannot be read.
            self.has_ended = !root.exists(&format!("proc/{}/task/{}", self.pid, self.tid));
            return;
        };
        if now.stat.has_ended() || now.stat.began_ticks != self.last.stat.began_ticks {
            self.has_ended = true;
        }
        if now.stat.began_ticks != self.last.stat.began_ticks {
            return;
        }
        let (stat, last) = (&now.stat, &self.last.stat);
        self.slices.push(Slice {
            number,
            wall_ns: at_ns.saturating_sub(self.last.at_ns),
            run_ns: now.sched.run_ns.saturating_sub(self.last.sched.run_ns),
            delay_ns: now.sched.delay_ns.saturating_sub(self.last.sched.delay_ns),
            user_ticks: stat.user_ticks.saturating_sub(last.user_ticks),
            system_ticks: stat.system_ticks.saturating_sub(last.system_ticks),
            cpu: stat.cpu,
        });
        self.minor_faults += stat.minor_faults.saturating_sub(last.minor_faults);
        self.major_faults += stat.major_faults.saturating_sub(last.major_faults);
        let has_executed = stat.stack != last.stack && stat.stack != 0 && last.stack != 0;
        self.slices_with_exec += u64::from(has_executed);
        self.was_stopped |= stat.is_stopped();
        self.name.clone_from(&stat.name);
        self.last = now;
    }

    /// Reads the thread's context switches, affinity and I/O calls.
    fn read_status(&mut self, root: &Root) {
        if let Some(text) = root.text(&self.file("status")) {
            self.last_status = Status::parse(&text);
        }
        self.io_calls[1] = root.text(&self.file("io")).and_then(|text| parse_io_calls(&text));
    }
}

/// Reads `stat` and `schedstat`, from open files if available.
fn read(root: &Root, thread: &Thread, at_ns: u64) -> Option<Read> {
    let (stat, sched) = match &thread.files {
        Some((stat, sched)) => (text_of(stat).ok()?, text_of(sched).ok()),
        None => (root.text(&thread.file("stat"))?, root.text(&thread.file("schedstat"))),
    };
    let sched = sched.and_then(|text| SchedStat::parse(&text)).unwrap_or_default();
    Some(Read { at_ns, stat: Stat::parse(&stat)?, sched })
}

/// Returns the current contents of a /proc file, from its start.
pub(crate) fn text_of(file: &File) -> std::io::Result<String> {
    // The longest of these files, `stat`, has some 350 bytes.
    let mut bytes = [0; 2048];
    let length = file.read_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

/// All watched threads.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    pub(crate) all: Vec<Thread>,
    /// Index in `all` of threads that have not exited, by process and thread ID.
    places: BTreeMap<(u32, u32), usize>,
    open: usize,
}

impl Threads {
    /// Finds new threads of `pids`. With very many threads, does so only in every tenth slice.
    pub(crate) fn look(&mut self, root: &Root, pids: &[u32], number: u32, at_ns: u64) {
        if self.places.len() > CROWD && !number.is_multiple_of(10) {
            return;
        }
        for &pid in pids {
            // If the number of threads is unchanged, as usual, there are no new ones.
            if !number.is_multiple_of(LOOK_EVERY) && self.are_all_known(pid) {
                continue;
            }
            for name in root.names(&format!("proc/{pid}/task")) {
                let Ok(tid) = name.parse() else { continue };
                if !self.places.contains_key(&(pid, tid)) {
                    self.add(root, pid, tid, at_ns);
                }
            }
        }
    }

    /// Returns whether all of a process's threads are known, judging by the count in its `stat`.
    fn are_all_known(&self, pid: u32) -> bool {
        let Some(&place) = self.places.get(&(pid, pid)) else { return false };
        let first = &self.all[place];
        let known = self.places.range((pid, 0)..=(pid, u32::MAX)).count();
        first.is_followed() && first.last.stat.threads == known as u64
    }

    fn add(&mut self, root: &Root, pid: u32, tid: u32, at_ns: u64) {
        let mut thread = Thread {
            pid,
            tid,
            name: String::new(),
            began: ' ',
            slices: Vec::new(),
            minor_faults: 0,
            major_faults: 0,
            slices_with_exec: 0,
            was_stopped: false,
            first_status: Status::default(),
            last_status: Status::default(),
            io_calls: [None; 2],
            last: Read::default(),
            files: None,
            is_followed: self.places.len() < FOLLOWED_MAX,
            has_ended: false,
        };
        if self.open < OPEN_MAX {
            let open = |name| File::open(root.path(&thread.file(name))).ok();
            thread.files = open("stat").zip(open("schedstat"));
            self.open += usize::from(thread.files.is_some());
        }
        let first = read(root, &thread, at_ns);
        // An exited thread may keep its directory in /proc until the parent has waited for it.
        let Some(first) = first.filter(|first| !first.stat.has_ended()) else {
            self.open -= usize::from(thread.files.is_some());
            return;
        };
        thread.name.clone_from(&first.stat.name);
        thread.began = first.stat.state;
        thread.last = first;
        thread.read_status(root);
        thread.first_status = thread.last_status.clone();
        thread.io_calls[0] = thread.io_calls[1];
        self.places.insert((pid, tid), self.all.len());
        self.all.push(thread);
    }

    /// Begins the first window. Reads the followed threads, whose times count from now on.
    pub(crate) fn begin(&mut self, root: &Root, at_ns: u64) {
        self.read(root, 0, at_ns);
        self.all.iter_mut().for_each(|thread| thread.read_status(root));
        self.all.iter_mut().for_each(Thread::begin_window);
    }

    /// Reads the followed threads.
    pub(crate) fn read(&mut self, root: &Root, number: u32, at_ns: u64) {
        let all = &mut self.all;
        for &place in self.places.values() {
            let thread = &mut all[place];
            if thread.is_followed {
                thread.read(root, number, at_ns);
            }
        }
        self.forget_ended();
    }

    /// If there are too many threads to follow, selects those that have run or waited longest so
    /// far.
    pub(crate) fn choose(&mut self, root: &Root, number: u32, at_ns: u64) {
        if self.places.len() <= FOLLOWED_MAX {
            return;
        }
        for &place in self.places.values() {
            self.all[place].read(root, number, at_ns);
        }
        self.forget_ended();
        let mut places: Vec<usize> = self.places.values().copied().collect();
        places.sort_by_key(|&place| std::cmp::Reverse(self.all[place].wanted_ns()));
        for (rank, place) in places.into_iter().enumerate() {
            let thread = &mut self.all[place];
            thread.is_followed = rank < FOLLOWED_MAX;
            if !thread.is_followed && thread.files.take().is_some() {
                self.open -= 1;
            }
        }
    }

    /// Reads all threads one last time.
    pub(crate) fn finish(&mut self, root: &Root, number: u32, at_ns: u64) {
        for &place in self.places.values() {
            let thread = &mut self.all[place];
            if !thread.is_followed {
                thread.read(root, number, at_ns);
            }
            // A thread that has not run has made no system calls.
            if thread.slices.iter().any(|slice| slice.run_ns > 0) || thread.ran_ns() == 0 {
                thread.read_status(root);
            }
        }
    }

    /// Begins the next window, starting from the last readings, and forgets threads that have
    /// exited.
    pub(crate) fn begin_window(&mut self) {
        self.all.retain(|thread| !thread.has_ended);
        self.all.iter_mut().for_each(Thread::begin_window);
        let key = |(place, thread): (usize, &Thread)| ((thread.pid, thread.tid), place);
        self.places = self.all.iter().enumerate().map(key).collect();
    }

    /// Returns whether a thread is watched and has not exited.
    pub(crate) fn has(&self, pid: u32, tid: u32) -> bool {
        self.places.contains_key(&(pid, tid))
    }

    /// Returns a thread's scheduler statistics at the last read.
    pub(crate) fn sched_of(&self, pid: u32, tid: u32) -> Option<SchedStat> {
        let &place = self.places.get(&(pid, tid))?;
        Some(self.all.get(place)?.last.sched)
    }

    /// Returns the CPUs on which the followed threads last ran.
    pub(crate) fn cpus(&self) -> BTreeSet<u32> {
        let followed = self.all.iter().filter(|thread| thread.is_followed());
        followed.map(|thread| thread.last.stat.cpu).collect()
    }

    /// Returns a followed thread.
    pub(crate) fn followed(&self, pid: u32, tid: u32) -> Option<&Thread> {
        let thread = self.all.get(*self.places.get(&(pid, tid))?)?;
        thread.is_followed().then_some(thread)
    }

    /// Returns whether all watched threads have exited.
    pub(crate) fn are_gone(&self) -> bool {
        self.places.is_empty()
    }

    fn forget_ended(&mut self) {
        let all = &mut self.all;
        let open = &mut self.open;
        self.places.retain(|_, place| {
            let thread = &mut all[*place];
            if thread.has_ended && thread.files.take().is_some() {
                *open -= 1;
            }
            !thread.has_ended
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::put;

    #[test]
    fn slices_show_calls_of_execve_and_stops() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        // Fields 3 to 52 of proc(5); 20 is the number of threads, 22 the start, 28 the stack.
        let set = |state: char, stack: u64| {
            let fields = (4..=52).map(|field| match field {
                20 => "1".to_owned(),
                22 => "77".to_owned(),
                28 => stack.to_string(),
                _ => "0".to_owned(),
            });
            let fields: Vec<String> = fields.collect();
            put(&root, "proc/5/task/5/stat", &format!("5 (a b) {state} {}", fields.join(" ")));
        };
        set('S', 4096);
        let mut threads = Threads::default();
        threads.look(&root, &[5], 0, 0);
        let mut seen = |state, stack, number| {
            set(state, stack);
            threads.read(&root, number, 1_000_000 * u64::from(number + 1));
            (threads.all[0].execs(), threads.all[0].is_stopped(&root))
        };
        assert_eq!(seen('S', 4096, 0), (0, false));
        assert_eq!(seen('R', 8192, 1), (1, false));
        // A hidden stack address does not mean that another program was started.
        assert_eq!(seen('S', 0, 2), (1, false));
        assert_eq!(seen('T', 8192, 3), (1, true));
        // It runs again, although it was stopped before.
        set('S', 8192);
        assert!(!threads.all[0].is_stopped(&root));
        threads.begin_window();
        assert_eq!(threads.all[0].execs(), 0);
    }

    #[test]
    fn a_thread_that_cannot_be_read_has_not_ended_while_it_exists() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        let stat = format!("5 (a) S {}", "0 ".repeat(49));
        put(&root, "proc/5/task/5/stat", &stat);
        let mut threads = Threads::default();
        threads.look(&root, &[5], 0, 0);
        let mut are_gone = || {
            threads.read(&root, 0, 0);
            threads.are_gone()
        };
        // As if no file descriptor were free.
        std::fs::remove_file(root.path("proc/5/task/5/stat")).expect("a file");
        assert!(!are_gone());
        put(&root, "proc/5/task/5/stat", &stat);
        assert!(!are_gone());
        std::fs::remove_dir_all(root.path("proc/5")).expect("a folder");
        assert!(are_gone());
    }

    #[test]
    fn times_count_from_the_start_of_the_window() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        put(&root, "proc/5/task/5/stat", &format!("5 (a) S {}", "0 ".repeat(49)));
        let set = |run_ns: u64| put(&root, "proc/5/task/5/schedstat", &format!("{run_ns} 0 1\n"));
        set(100);
        let mut threads = Threads::default();
        threads.look(&root, &[5], 0, 0);
        set(700);
        threads.begin(&root, 50);
        set(900);
        threads.read(&root, 0, 60);
        let slices: Vec<_> = threads.all[0].slices.iter().map(|s| (s.run_ns, s.wall_ns)).collect();
        assert_eq!(slices, [(200, 10)]);
    }
}
