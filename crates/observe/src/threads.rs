// SPDX-License-Identifier: MIT OR Apache-2.0
//! Per-thread kernel counters, read every slice.

use crate::procfs::task::{SchedStat, Stat, Status, parse_io_calls};
use linerate_machine::Root;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Maximum number of threads read every slice: those that ran or waited most in the first one.
pub(crate) const FOLLOWED_MAX: usize = 256;

/// Maximum number of threads whose files stay open: two each, within the usual limit of 1024
/// descriptors.
const OPEN_MAX: usize = 128;

/// Number of threads above which the directory is read only every tenth slice.
const CROWD: usize = 1024;

/// Number of slices after which the directory is read even if the number of threads is unchanged:
/// threads may have been replaced.
const LOOK_EVERY: u32 = 5;

/// Activity of a thread in one slice.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Slice {
    /// Number of the slice.
    pub(crate) number: u32,
    /// Time since the previous read, ns.
    pub(crate) wall_ns: u64,
    pub(crate) run_ns: u64,
    pub(crate) delay_ns: u64,
    pub(crate) user_ticks: u64,
    pub(crate) system_ticks: u64,
    /// The CPU it last ran on.
    pub(crate) cpu: u32,
}

/// Activity of a thread by slice.
#[derive(Clone, Debug, Default)]
struct Read {
    at_ns: u64,
    stat: Stat,
    sched: SchedStat,
}

/// A watched thread.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) name: String,
    /// Its state when it was first seen.
    pub(crate) began: char,
    pub(crate) slices: Vec<Slice>,
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
    first_status: Status,
    last_status: Status,
    /// Calls to read(2), write(2) and similar, at the first and the last read.
    io_calls: [Option<u64>; 2],
    last: Read,
    files: Option<(File, File)>,
    is_followed: bool,
    has_ended: bool,
}

impl Thread {
    /// Time in the window for which the thread existed, in seconds.
    pub(crate) fn elapsed_s(&self) -> f64 {
        self.slices.iter().map(|slice| slice.wall_ns).sum::<u64>() as f64 / 1e9
    }

    /// Time on a CPU or waiting for one, ns.
    pub(crate) fn wanted_ns(&self) -> u64 {
        self.slices.iter().map(|slice| slice.run_ns + slice.delay_ns).sum()
    }

    /// CPU time since its start, ns.
    pub(crate) fn ran_ns(&self) -> u64 {
        self.last.sched.run_ns
    }

    /// The CPUs it was seen on, most frequent first.
    pub(crate) fn ran_on(&self) -> Vec<u32> {
        let mut times: BTreeMap<u32, u64> = BTreeMap::new();
        for slice in self.slices.iter().filter(|slice| slice.run_ns > 0) {
            *times.entry(slice.cpu).or_default() += slice.run_ns;
        }
        let mut cpus: Vec<(u32, u64)> = times.into_iter().collect();
        cpus.sort_by_key(|(cpu, ns)| (std::cmp::Reverse(*ns), *cpu));
        cpus.into_iter().map(|(cpu, _)| cpu).collect()
    }

    /// CPUs in its affinity mask.
    pub(crate) fn allowed(&self) -> &[u32] {
        &self.last_status.allowed
    }

    /// Voluntary and involuntary context switches.
    pub(crate) fn switches(&self) -> (u64, u64) {
        let (first, last) = (&self.first_status, &self.last_status);
        let voluntary = last.voluntary_switches.saturating_sub(first.voluntary_switches);
        (voluntary, last.involuntary_switches.saturating_sub(first.involuntary_switches))
    }

    /// Calls to read(2), write(2) and similar; `None` if unreadable.
    pub(crate) fn io_calls(&self) -> Option<u64> {
        let [first, last] = self.io_calls;
        last?.checked_sub(first?)
    }

    /// Whether it never slept: it was runnable at the start and had no voluntary switches.
    pub(crate) fn never_slept(&self) -> bool {
        self.began == 'R' && self.switches().0 == 0
    }

    /// Whether a signal or a debugger had stopped it at the last read.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.last.stat.state, 'T' | 't')
    }

    /// Whether it was asleep at the last read.
    pub(crate) fn is_asleep(&self) -> bool {
        !self.has_ended && self.last.stat.state != 'R'
    }

    /// Whether it still exists and is read every slice.
    pub(crate) fn is_followed(&self) -> bool {
        self.is_followed && !self.has_ended
    }

    fn file(&self, name: &str) -> String {
        format!("proc/{}/task/{}/{name}", self.pid, self.tid)
    }

    /// Reads the thread, and adds its activity since the previous read to its slices.
    fn read(&mut self, root: &Root, number: u32, at_ns: u64) {
        let Some(now) = read(root, self, at_ns) else {
            self.has_ended = true;
            self.files = None;
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
        self.name.clone_from(&stat.name);
        self.last = now;
    }

    /// Reads the thread's status for context switches and affinity, and its I/O calls.
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
        Some((stat, sched)) => (text_of(stat)?, text_of(sched)),
        None => (root.text(&thread.file("stat"))?, root.text(&thread.file("schedstat"))),
    };
    let sched = sched.and_then(|text| SchedStat::parse(&text)).unwrap_or_default();
    Some(Read { at_ns, stat: Stat::parse(&stat)?, sched })
}

/// Current contents of a /proc file, from its start.
pub(crate) fn text_of(file: &File) -> Option<String> {
    // The longest of the files read in this way, `stat`, has some 350 bytes.
    let mut bytes = [0; 2048];
    let length = file.read_at(&mut bytes, 0).ok()?;
    Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

/// All watched threads.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    pub(crate) all: Vec<Thread>,
    /// Indices in `all` of threads that have not exited, by process and thread ID.
    places: BTreeMap<(u32, u32), usize>,
    open: usize,
}

impl Threads {
    /// Finds new threads of `pids`; with very many threads, in at most a tenth of the slices.
    pub(crate) fn look(&mut self, root: &Root, pids: &[u32], number: u32, at_ns: u64) {
        if self.places.len() > CROWD && !number.is_multiple_of(10) {
            return;
        }
        for &pid in pids {
            // Usually the number of threads is unchanged: then there are none to find.
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

    /// Whether all threads of a process are known, judging by the count in its `stat`.
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
        // A thread that has ended stays in its directory until its parent has waited for it.
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

    /// If there are too many threads, selects those that have run or waited most so far.
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
            thread.read_status(root);
        }
    }

    /// Whether all watched threads have exited.
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
