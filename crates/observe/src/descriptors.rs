// SPDX-License-Identifier: MIT OR Apache-2.0
//! Open file descriptors of processes: sockets, TUN devices, and the total number. Once a process
//! has reached its limit, accept(2) fails with EMFILE, and connections wait in the accept queue.

use crate::sleep::socket_inode;
use crate::target::open_id;
use linerate_machine::Root;
use linerate_record::why::FullDescriptors;
use std::collections::{BTreeMap, BTreeSet};

/// A process's open descriptors.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Open {
    /// Inodes of sockets.
    pub(crate) sockets: Vec<u64>,
    /// Names of TUN and TAP devices.
    tunnels: Vec<String>,
    /// Number of descriptors of any kind.
    count: u64,
}

impl Open {
    /// Returns whether the descriptors could not be read.
    pub(crate) fn is_hidden(&self) -> bool {
        self.count == 0
    }

    /// Reads a process's descriptors; empty if it has ended or belongs to another user.
    pub(crate) fn of(root: &Root, pid: u32) -> Self {
        let open = Self::of_thread(root, pid);
        match open.is_hidden().then(|| open_id(root, pid)) {
            Some(tid) if tid != pid => Self::of_thread(root, tid),
            _ => open,
        }
    }

    fn of_thread(root: &Root, pid: u32) -> Self {
        let entries = std::fs::read_dir(root.path(&format!("proc/{pid}/fd")));
        let mut open = Self::default();
        for entry in entries.into_iter().flatten().flatten() {
            open.count += 1;
            let link = std::fs::read_link(entry.path()).ok();
            let Some(link) = link.as_deref().and_then(std::path::Path::to_str) else { continue };
            open.sockets.extend(socket_inode(link));
            if link == "/dev/net/tun" {
                let number = entry.file_name();
                open.tunnels.extend(tunnel(root, pid, &number.to_string_lossy()));
            }
        }
        open
    }
}

/// What /proc/PID/fdinfo states for every kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DescriptorInfo {
    /// Flags of open(2).
    flags: u32,
    /// Position in the file, in bytes.
    pub(crate) position: u64,
}

impl DescriptorInfo {
    /// Reads it; `None` if it is hidden, or if the descriptor was closed.
    pub(crate) fn of(root: &Root, pid: u32, descriptor: u32) -> Option<Self> {
        let text = root.text(&format!("proc/{pid}/fdinfo/{descriptor}"))?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let flags = u32::from_str_radix(field("flags:")?.trim(), 8).ok()?;
        Some(Self { flags, position: field("pos:")?.trim().parse().ok()? })
    }

    /// Returns whether the descriptor is open for writing only.
    pub(crate) fn is_write_only(self) -> bool {
        /// Mask of the access mode (O_ACCMODE), and the mode O_WRONLY.
        const MODE: u32 = 3;
        const WRITE_ONLY: u32 = 1;
        self.flags & MODE == WRITE_ONLY
    }

    /// Returns whether writes are appended to the file.
    pub(crate) fn is_append(self) -> bool {
        /// O_APPEND on all architectures except Alpha, MIPS, PA-RISC and SPARC.
        const APPEND: u32 = 0o2000;
        self.flags & APPEND != 0
    }
}

/// Returns the name of the TUN device that a descriptor is attached to, if any.
fn tunnel(root: &Root, pid: u32, descriptor: &str) -> Option<String> {
    let text = root.text(&format!("proc/{pid}/fdinfo/{descriptor}"))?;
    let name = text.lines().find_map(|line| line.strip_prefix("iff:"))?.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Readings of open descriptors.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    processes: BTreeMap<u32, Process>,
    /// TUN and TAP devices at the last reading, by process.
    tunnels: BTreeMap<u32, Vec<String>>,
}

#[derive(Debug)]
struct Process {
    /// Soft limit on open files; `None` if unlimited or unreadable.
    limit: Option<u64>,
    reads: u64,
    full: u64,
    /// Number of descriptors when they were last listed.
    listed: u64,
    /// Whether the number of descriptors was near the limit when they were last listed.
    is_near: bool,
}

/// A process counts as near its limit if its open descriptors are at least `1 / NEAR` of the limit.
const NEAR: u64 = 4;

/// Maximum number of processes whose descriptors are counted in each sample.
const MOST: usize = 16;

impl Process {
    fn add(&mut self, count: u64) {
        self.reads += 1;
        self.full += u64::from(self.limit.is_some_and(|limit| count >= limit));
    }
}

impl Descriptors {
    /// Adds a reading of the descriptors that a process has open.
    pub(crate) fn take(&mut self, root: &Root, pid: u32, open: &Open) {
        if open.is_hidden() {
            return;
        }
        self.tunnels.insert(pid, open.tunnels.clone());
        let new =
            || Process { limit: limit(root, pid), reads: 0, full: 0, listed: 0, is_near: false };
        let process = self.processes.entry(pid).or_insert_with(new);
        process.add(open.count);
        process.listed = open.count;
        process.is_near = process.limit.is_some_and(|limit| NEAR * open.count >= limit);
    }

    /// Counts the descriptors of processes near their limit, without listing them. A server that
    /// stops accepting connections at its limit reaches it only for moments.
    pub(crate) fn glance(&mut self, root: &Root) {
        for (pid, process) in self.processes.iter_mut().filter(|(_, one)| one.is_near).take(MOST) {
            if let Some(count) = count(root, *pid) {
                process.add(count);
            }
        }
    }

    /// Returns whether each of the processes `pids` has as many descriptors open as when they were
    /// last listed, and all of them together have at least `least`. If so, adds a reading of each
    /// process.
    pub(crate) fn are_unchanged(&mut self, root: &Root, pids: &[u32], least: u64) -> bool {
        let listed = |pid: &u32| self.processes.get(pid).map_or(0, |process| process.listed);
        let is_same = |pid: &u32| listed(pid) > 0 && count(root, *pid) == Some(listed(pid));
        let is_unchanged =
            pids.iter().map(listed).sum::<u64>() >= least && pids.iter().all(is_same);
        for pid in pids.iter().filter(|_| is_unchanged) {
            self.processes.entry(*pid).and_modify(|process| process.add(process.listed));
        }
        is_unchanged
    }

    /// Forgets the TUN and TAP devices of all processes except `pids`.
    pub(crate) fn retain(&mut self, pids: &[u32]) {
        self.tunnels.retain(|pid, _| pids.contains(pid));
    }

    /// Returns the names of the TUN and TAP devices that the processes have open.
    pub(crate) fn tunnels(&self) -> BTreeSet<String> {
        self.tunnels.values().flatten().cloned().collect()
    }

    /// Returns the processes that reached their limit, and begins the next window.
    pub(crate) fn finish(&mut self) -> Vec<FullDescriptors> {
        let full = |(&pid, process): (&u32, &Process)| {
            let share = process.full as f64 / process.reads.max(1) as f64;
            let limit = process.limit.filter(|_| process.full > 0)?;
            Some(FullDescriptors { pid, limit, reads: process.reads, share })
        };
        let found = self.processes.iter().filter_map(full).collect();
        self.processes.clear();
        found
    }
}

/// Returns the number of descriptors that a process has open, which is the size of /proc/PID/fd;
/// `None` if that is unreadable, or is 0 because the kernel is older than Linux 6.2.
fn count(root: &Root, pid: u32) -> Option<u64> {
    let folder = std::fs::metadata(root.path(&format!("proc/{pid}/fd")));
    folder.ok().map(|one| one.len()).filter(|count| *count > 0)
}

/// Reads the soft limit on open files.
fn limit(root: &Root, pid: u32) -> Option<u64> {
    let text = root.text(&format!("proc/{pid}/limits"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_at_their_limit_are_found() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::new(place.path());
        for (pid, limit) in [(7, "12"), (8, "unlimited")] {
            let folder = place.path().join(format!("proc/{pid}"));
            std::fs::create_dir_all(&folder).unwrap();
            let text = format!("Limit  Soft  Hard\nMax open files   {limit}   4096   files\n");
            std::fs::write(folder.join("limits"), text).unwrap();
        }
        let mut descriptors = Descriptors::default();
        for (pid, open) in [(7, 11), (7, 12), (8, 5000), (9, 5000)] {
            descriptors.take(&root, pid, &Open { count: open, ..Open::default() });
        }
        assert_eq!(
            descriptors.finish(),
            [FullDescriptors { pid: 7, limit: 12, reads: 2, share: 0.5 }]
        );
        assert!(descriptors.finish().is_empty());
    }

    #[test]
    fn moments_at_the_limit_are_seen_between_listings() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::new(place.path());
        let folder = place.path().join("proc/7/fd");
        std::fs::create_dir_all(&folder).unwrap();
        let size = std::fs::metadata(&folder).unwrap().len();
        let seen = |limit: u64, open: u64| {
            let text = format!("Max open files   {limit}   4096   files\n");
            std::fs::write(place.path().join("proc/7/limits"), text).unwrap();
            let mut descriptors = Descriptors::default();
            descriptors.take(&root, 7, &Open { count: open, ..Open::default() });
            (0..3).for_each(|_| descriptors.glance(&root));
            descriptors.finish()
        };
        let full = |reads, share| vec![FullDescriptors { pid: 7, limit: size, reads, share }];
        assert_eq!(seen(size, size.div_ceil(4)), full(4, 0.75));
        assert_eq!(seen(size + 1, size.div_ceil(4) + 1), []);
        // Far from the limit, nothing is counted in between.
        assert_eq!(seen(size, 1), []);
    }

    #[test]
    fn many_descriptors_are_not_listed_again_unless_their_number_changes() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::new(place.path());
        let folder = place.path().join("proc/7/fd");
        std::fs::create_dir_all(&folder).unwrap();
        let size = std::fs::metadata(&folder).unwrap().len();
        let mut descriptors = Descriptors::default();
        assert!(!descriptors.are_unchanged(&root, &[7], 1), "not listed yet");
        descriptors.take(&root, 7, &Open { count: size, ..Open::default() });
        assert!(descriptors.are_unchanged(&root, &[7], size));
        assert!(!descriptors.are_unchanged(&root, &[7], size + 1), "few");
        assert!(!descriptors.are_unchanged(&root, &[7, 8], size), "a process that was not listed");
        descriptors.take(&root, 7, &Open { count: size - 1, ..Open::default() });
        assert!(!descriptors.are_unchanged(&root, &[7], 1));
        assert_eq!(descriptors.processes[&7].reads, 3);
    }

    #[test]
    fn sockets_and_tunnels_are_found() {
        let place = tempfile::tempdir().unwrap();
        let process = place.path().join("proc/7");
        for folder in ["fd", "fdinfo"] {
            std::fs::create_dir_all(process.join(folder)).unwrap();
        }
        let links = [("socket:[55]", "3"), ("/dev/net/tun", "4"), ("/dev/net/tun", "5")];
        for (to, number) in links {
            std::os::unix::fs::symlink(to, process.join("fd").join(number)).unwrap();
        }
        let attached = "pos:\t0\nflags:\t0104002\niff:\ttun0\n";
        std::fs::write(process.join("fdinfo/4"), attached).unwrap();
        std::fs::write(process.join("fdinfo/5"), "pos:\t0\niff:\t\n").unwrap();
        let root = Root::new(place.path());
        let open = Open::of(&root, 7);
        let expected = Open { sockets: vec![55], tunnels: vec!["tun0".to_owned()], count: 3 };
        assert_eq!(open, expected);
        let mut descriptors = Descriptors::default();
        descriptors.take(&root, 7, &open);
        descriptors.retain(&[7]);
        assert!(descriptors.tunnels().contains("tun0"));
        descriptors.retain(&[8]);
        assert!(descriptors.tunnels().is_empty());
        descriptors.take(&root, 7, &open);
        descriptors.take(&root, 7, &Open { count: 1, ..Open::default() });
        assert!(descriptors.tunnels().is_empty());
        assert_eq!(Open::of(&root, 8), Open::default());
    }
}
