// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of the observed processes: how much became resident in the window, and which processes
//! are copies of their parents.

use crate::procfs::task::Stat;
use linerate_machine::Root;
use linerate_record::why::ProgramMemory;
use std::collections::BTreeMap;

/// Maximum number of processes that are read.
const PROCESSES_MAX: usize = 256;

/// Readings at the start of the window.
#[derive(Debug, Default)]
pub(crate) struct Resident {
    processes: BTreeMap<u32, Process>,
    /// Number of recent forks at the start of the window, which may have ended since.
    forks: Option<u64>,
}

/// A process at one point in time.
#[derive(Clone, Copy, Debug)]
struct Process {
    began_ticks: u64,
    /// Resident pages.
    pages: u64,
    threads: u64,
    /// Whether the process was forked recently and has not called execve(2); `None` if its stack or
    /// that of its parent is hidden.
    is_copy: Option<bool>,
}

impl Resident {
    pub(crate) fn start(root: &Root, pids: &[u32]) -> Self {
        let processes = processes(root, pids);
        Self { forks: count_copies(&processes), processes }
    }

    /// Returns the memory of the processes, and begins the next window. `faults` is the number of
    /// their page faults in the window, with which the growth is compared. `None` if no process
    /// could be read at both ends, or if the growth is too uncertain for that comparison.
    pub(crate) fn finish(
        &mut self,
        root: &Root,
        pids: &[u32],
        faults: u64,
    ) -> Option<ProgramMemory> {
        /// Maximum error of the growth, as a fraction of the number of page faults. With a larger
        /// error, the growth is not reported.
        const ERROR_MAX: f64 = 0.25;
        let before = std::mem::take(self);
        *self = Self::start(root, pids);
        let grown = self.processes.iter().filter_map(|(pid, now)| {
            let first = before.processes.get(pid)?;
            (first.began_ticks == now.began_ticks).then(|| now.pages as i64 - first.pages as i64)
        });
        if error_pages(root, &self.processes) as f64 > ERROR_MAX * faults as f64 {
            return None;
        }
        Some(ProgramMemory {
            resident_growth_pages: grown.reduce(|a, b| a + b)?,
            recent_forks: before.forks.zip(self.forks).map(|(first, last)| first.max(last)),
        })
    }
}

fn processes(root: &Root, pids: &[u32]) -> BTreeMap<u32, Process> {
    let now = uptime_ticks(root);
    let read = |&pid: &u32| Some((pid, process(root, pid, now)?));
    pids.iter().take(PROCESSES_MAX).filter_map(read).collect()
}

fn process(root: &Root, pid: u32, now_ticks: Option<u64>) -> Option<Process> {
    /// Age of a recent process, in USER_HZ ticks: 60 s. A page is copied at the first write only,
    /// so most are copied in the first minute under load.
    const RECENT: u64 = 6000;
    let stat = stat(root, pid)?;
    let sizes = root.text(&format!("proc/{pid}/statm"))?;
    let pages = sizes.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let is_copy = match now_ticks?.saturating_sub(stat.began_ticks) {
        ..RECENT => is_copy(root, &stat),
        _ => Some(false),
    };
    Some(Process { began_ticks: stat.began_ticks, pages, threads: stat.threads, is_copy })
}

/// Returns by how many pages the growth of the resident memory may be wrong. The kernel counts the
/// pages of each thread, or of each CPU since 6.2, separately, and adds them to the process's
/// counter in batches. Since 6.17, `statm` includes what has not been added yet.
fn error_pages(root: &Root, processes: &BTreeMap<u32, Process>) -> u64 {
    /// TASK_RSS_EVENTS_THRESH in mm/memory.c of Linux 6.1.
    const OF_THREAD: u64 = 64;
    let release = root.text("proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split('.').map_while(|number| number.parse::<u32>().ok());
    let Some(version) = numbers.next().zip(numbers.next()) else { return 0 };
    let cpus = root.cpu_list("sys/devices/system/cpu/online").map_or(1, |cpus| cpus.len() as u64);
    // `percpu_counter_batch` in lib/percpu_counter.c.
    let of_cpu = (2 * cpus).max(32);
    let one = match version {
        (6, 17..) | (7.., _) => 0,
        (6, 2..) => of_cpu * cpus * processes.len() as u64,
        _ => OF_THREAD * processes.values().map(|process| process.threads).sum::<u64>(),
    };
    // At both ends of the window.
    2 * one
}

/// Returns whether the stack of a process is at the address of its parent's stack, which execve(2)
/// would have changed; `None` if one of the addresses is hidden.
fn is_copy(root: &Root, child: &Stat) -> Option<bool> {
    let parent = stat(root, child.parent)?;
    (child.stack != 0 && parent.stack != 0).then_some(child.stack == parent.stack)
}

fn count_copies(processes: &BTreeMap<u32, Process>) -> Option<u64> {
    processes.values().map(|process| process.is_copy.map(u64::from)).sum()
}

fn stat(root: &Root, pid: u32) -> Option<Stat> {
    Stat::parse(&root.text(&format!("proc/{pid}/stat"))?)
}

/// Returns the time since boot, in USER_HZ ticks.
fn uptime_ticks(root: &Root) -> Option<u64> {
    let text = root.text("proc/uptime")?;
    let seconds: f64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    Some((100.0 * seconds) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::put;
    use std::io::{BufRead, BufReader};
    use std::path::Path;
    use std::process::{Command, Stdio};

    /// Writes the files of a process.
    fn write(root: &Root, [pid, parent]: [u32; 2], began_ticks: u64, stack: u64, pages: u64) {
        let mut fields = vec!["0".to_owned(); 50];
        fields[0] = "S".to_owned();
        fields[1] = parent.to_string();
        fields[20 - 3] = "1".to_owned();
        fields[22 - 3] = began_ticks.to_string();
        fields[28 - 3] = stack.to_string();
        put(root, &format!("proc/{pid}/stat"), &format!("{pid} (server) {}", fields.join(" ")));
        put(root, &format!("proc/{pid}/statm"), &format!("9000 {pages} 100 1 0 2000 0"));
    }

    #[test]
    fn pages_grow_and_forks_share_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        put(&root, "proc/uptime", "1000.00 900.00\n");
        write(&root, [1, 0], 5, 7, 100);
        write(&root, [7, 1], 10_000, 4096, 500);
        let mut resident = Resident::start(&root, &[7]);
        write(&root, [7, 1], 10_000, 4096, 530);
        // A child that has the stack of its parent, and one that executed another program.
        write(&root, [8, 7], 99_000, 4096, 400);
        write(&root, [9, 7], 99_000, 8192, 50);
        let found = resident.finish(&root, &[7, 8, 9], 100).expect("a process");
        assert_eq!(found.resident_growth_pages, 30);
        assert_eq!(found.recent_forks, Some(1));
        // The child has ended, and another process got its number.
        write(&root, [8, 1], 99_500, 8192, 10_000);
        let next = resident.finish(&root, &[7, 8], 100).expect("a process");
        assert_eq!((next.resident_growth_pages, next.recent_forks), (0, Some(1)));
        let last = resident.finish(&root, &[7], 100).expect("a process");
        assert_eq!(last.recent_forks, Some(0));
        // The stack is hidden.
        write(&root, [8, 7], 99_500, 0, 10_000);
        assert_eq!(resident.finish(&root, &[7, 8], 100).expect("a process").recent_forks, None);
        assert_eq!(resident.finish(&root, &[], 100), None);
    }

    #[test]
    fn growth_within_the_error_of_the_counters_is_not_known() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        put(&root, "proc/uptime", "1000.00 900.00\n");
        put(&root, "sys/devices/system/cpu/online", "0-127\n");
        let grown = |release: &str, faults: u64| {
            put(&root, "proc/sys/kernel/osrelease", release);
            write(&root, [7, 1], 10_000, 4096, 500);
            let mut resident = Resident::start(&root, &[7]);
            write(&root, [7, 1], 10_000, 4096, 900);
            resident.finish(&root, &[7], faults).map(|found| found.resident_growth_pages)
        };
        assert_eq!(grown("6.17.0-5-generic\n", 400), Some(400));
        // 256 pages on each of 128 CPUs, twice.
        assert_eq!(grown("6.8.0-45-generic\n", 400), None);
        assert_eq!(grown("6.8.0\n", 300_000), Some(400));
        // 64 pages in one thread, twice.
        assert_eq!((grown("5.15.0\n", 500), grown("5.15.0\n", 513)), (None, Some(400)));
    }

    #[test]
    fn a_real_fork_is_seen_and_a_program_that_was_executed_is_not() {
        // A builtin in the background runs in a fork of the shell.
        let script = "exec 3<&0; read line <&3 & echo $!; wait";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut line = String::new();
        let out = shell.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a process ID");
        let forked: u32 = line.trim().parse().expect("a process ID");
        let root = Root::new(Path::new("/"));
        let forks =
            |pid| Resident::start(&root, &[pid]).finish(&root, &[pid], u64::MAX)?.recent_forks;
        let found = (forks(forked), forks(shell.id()));
        drop(shell.stdin.take());
        shell.wait().expect("an exit status");
        assert_eq!(found, (Some(1), Some(0)));
    }
}
