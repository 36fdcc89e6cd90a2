// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other programs' UDP sockets in the program's network namespace.
//!
//! The kernel counts datagrams per namespace. All of them can be attributed to the program if the
//! processes that own the other sockets hardly ran, since every datagram costs CPU time.

use crate::descriptors::Open;
use crate::procfs::task::SchedStat;
use crate::target::all_pids;
use linerate_machine::Root;
use std::collections::{BTreeMap, BTreeSet};

/// Lower bound on the CPU time to receive or send a datagram: a tenth of the measured time.
const DATAGRAM_NS: u64 = 100;
/// Other processes' datagrams are neglected if they make up at most one in this many datagrams in
/// the namespace.
const FEW: u64 = 100;

/// Other programs' UDP sockets, and the processes that own them.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    inodes: BTreeSet<u64>,
    /// CPU time at the start of the window in ns, by process; `None` if unreadable.
    ran_ns: BTreeMap<u32, Option<u64>>,
    /// Whether the processes of some sockets are unknown.
    has_unknown: bool,
    is_begun: bool,
}

impl Neighbours {
    /// Adds a UDP socket that does not belong to the program.
    pub(super) fn take(&mut self, inode: u64) {
        // The socket may have been opened after the processes were looked up.
        self.has_unknown |= self.inodes.insert(inode) && self.is_begun;
    }

    /// Looks up the sockets' processes and their CPU time, reading up to `most` descriptors.
    pub(super) fn begin(&mut self, root: &Root, most: usize) {
        if self.is_begun {
            return;
        }
        self.is_begun = true;
        if self.inodes.is_empty() {
            return;
        }
        let (mut found, mut read) = (BTreeSet::new(), 0);
        for pid in all_pids(root) {
            if read > most {
                break;
            }
            let mut held = Vec::new();
            for inode in Open::of(root, pid).sockets {
                read += 1;
                held.extend(self.inodes.contains(&inode).then_some(inode));
            }
            if !held.is_empty() {
                self.ran_ns.insert(pid, ran_ns(root, pid));
                found.extend(held);
            }
        }
        self.has_unknown |= read > most || found.len() < self.inodes.len();
    }

    /// Begins the next window.
    pub(super) fn begin_window(&mut self, root: &Root) {
        for (&pid, ran) in &mut self.ran_ns {
            *ran = ran_ns(root, pid);
        }
    }

    /// Returns whether nearly all of the `datagrams` that the namespace counted in the window
    /// belong to the program.
    pub(crate) fn are_idle(&self, root: &Root, datagrams: u64) -> bool {
        let ran = self.ran_ns.iter().map(|(&pid, before)| {
            // Processes that have ended may have received datagrams before.
            ran_ns(root, pid)?.checked_sub((*before)?)
        });
        let ran: Option<u64> = ran.sum();
        let is_little = |ran: u64| ran / DATAGRAM_NS <= datagrams / FEW;
        let is_known = self.is_begun && !self.has_unknown;
        self.inodes.is_empty() || (is_known && ran.is_some_and(is_little))
    }
}

/// Returns the CPU time of all threads of a process, in ns.
fn ran_ns(root: &Root, pid: u32) -> Option<u64> {
    let threads = root.names(&format!("proc/{pid}/task"));
    let of_thread = |tid: &String| {
        let text = root.text(&format!("proc/{pid}/task/{tid}/schedstat"))?;
        Some(SchedStat::parse(&text)?.run_ns)
    };
    (!threads.is_empty()).then(|| threads.iter().map(of_thread).sum::<Option<u64>>())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    /// Returns a root in which process 7 has socket 5 open.
    fn root() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("proc/7/fd")).unwrap();
        fs::create_dir_all(folder.path().join("proc/7/task/7")).unwrap();
        symlink("socket:[5]", folder.path().join("proc/7/fd/3")).unwrap();
        let root = Root::new(folder.path());
        run(folder.path(), 1000);
        (folder, root)
    }

    fn run(folder: &Path, ran_ns: u64) {
        fs::write(folder.join("proc/7/task/7/schedstat"), format!("{ran_ns} 0 1\n")).unwrap();
    }

    #[test]
    fn a_neighbour_is_idle_as_long_as_it_does_not_run() {
        let (folder, root) = root();
        let mut neighbours = Neighbours::default();
        assert!(neighbours.are_idle(&root, 0), "without neighbours");
        neighbours.take(5);
        assert!(!neighbours.are_idle(&root, 1_000_000), "not looked up yet");
        neighbours.begin(&root, 100);
        assert!(neighbours.are_idle(&root, 0));
        // 50 us are enough for 500 datagrams, which matter among 10,000 but not among 100,000.
        run(folder.path(), 51_000);
        assert!(!neighbours.are_idle(&root, 10_000) && neighbours.are_idle(&root, 100_000));
        neighbours.begin_window(&root);
        assert!(neighbours.are_idle(&root, 0));
        neighbours.take(6);
        assert!(!neighbours.are_idle(&root, 1_000_000), "a socket opened since");
    }

    #[test]
    fn a_neighbour_that_is_not_visible_or_has_ended_is_not_idle() {
        let (folder, root) = root();
        let begun = |inode, most| {
            let mut neighbours = Neighbours::default();
            neighbours.take(inode);
            neighbours.begin(&root, most);
            neighbours
        };
        assert!(!begun(9, 100).are_idle(&root, 1_000_000), "held by no visible process");
        assert!(!begun(5, 0).are_idle(&root, 1_000_000), "too many descriptors");
        let ended = begun(5, 100);
        fs::remove_dir_all(folder.path().join("proc/7")).unwrap();
        assert!(!ended.are_idle(&root, 1_000_000));
    }
}
