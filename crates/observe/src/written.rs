// SPDX-License-Identifier: MIT OR Apache-2.0
//! Regular files to which processes write, such as logs: how far the positions of their descriptors
//! move within a window; and the number of their read and write calls. Readable by the user of the
//! processes, without tracing.

use linerate_machine::Root;
use linerate_record::why::{FileWrites, ReadCalls, WrittenFile};
use std::collections::BTreeMap;

/// Maximum number of processes, of descriptors per process, and of files in the result. Logs are
/// opened early, so that they have low numbers.
const PROCESSES: usize = 16;
const DESCRIPTORS: u32 = 64;
const FILES: usize = 8;

/// Positions and counts at the start of the window.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Path and position of each descriptor, by process and number.
    descriptors: BTreeMap<(u32, u32), (String, u64)>,
    /// Calls by process.
    calls: BTreeMap<u32, Calls>,
}

/// Counters of a process in /proc/PID/io, which cover descriptors of any kind, but not sendto,
/// sendmsg, recvfrom and recvmsg.
#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    writes: u64,
    reads: u64,
    read_bytes: u64,
}

impl Written {
    /// Reads the positions at the start of the window.
    pub(crate) fn start(root: &Root, pids: &[u32]) -> Self {
        let mut written = Self::default();
        written.add(root, pids);
        written
    }

    /// Adds descriptors and processes that are new since the last reading.
    pub(crate) fn add(&mut self, root: &Root, pids: &[u32]) {
        for &pid in pids.iter().take(PROCESSES) {
            for (number, path, position) in open_files(root, pid) {
                let is_other = |known: &(String, u64)| known.0 != path;
                if self.descriptors.get(&(pid, number)).is_none_or(is_other) {
                    self.descriptors.insert((pid, number), (path, position));
                }
            }
            if let Some(calls) = Calls::of(root, pid) {
                self.calls.entry(pid).or_insert(calls);
            }
        }
    }

    /// Returns what was written since the first reading of each descriptor, and the read calls;
    /// `None` for either if there was nothing, or if it was not counted.
    pub(crate) fn finish(
        &self,
        root: &Root,
        pids: &[u32],
    ) -> (Option<FileWrites>, Option<ReadCalls>) {
        let pids = || pids.iter().copied().take(PROCESSES);
        let mut files: Vec<WrittenFile> = pids().flat_map(|pid| self.files(root, pid)).collect();
        files.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.path.cmp(&b.path)));
        files.truncate(FILES);
        let more = |pid| Some(Calls::of(root, pid)?.since(*self.calls.get(&pid)?));
        let calls = pids().map(more).try_fold(Calls::default(), |all, one| Some(all.plus(one?)));
        let reads = calls.map(|calls| ReadCalls { calls: calls.reads, bytes: calls.read_bytes });
        let writes = FileWrites { files, calls: calls.map(|calls| calls.writes) };
        (
            Some(writes).filter(|writes| !writes.files.is_empty()),
            reads.filter(|reads| reads.calls > 0),
        )
    }

    /// Returns the files to which a process wrote.
    fn files(&self, root: &Root, pid: u32) -> Vec<WrittenFile> {
        let mut files: Vec<WrittenFile> = Vec::new();
        for (number, path, position) in open_files(root, pid) {
            let Some((known, start)) = self.descriptors.get(&(pid, number)) else { continue };
            let bytes = position.saturating_sub(*start);
            // A descriptor that was duplicated has the same position.
            let is_new = files.iter().all(|one| one.path != path);
            if *known == path && bytes > 0 && is_new {
                files.push(WrittenFile { pid, path, bytes });
            }
        }
        files
    }
}

impl Calls {
    /// Reads the counters; `None` if they are unreadable.
    fn of(root: &Root, pid: u32) -> Option<Self> {
        let text = root.text(&format!("proc/{pid}/io"))?;
        let field = |name: &str| -> Option<u64> {
            text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
        };
        Some(Self {
            writes: field("syscw:")?,
            reads: field("syscr:")?,
            read_bytes: field("rchar:")?,
        })
    }

    fn since(self, before: Self) -> Self {
        Self {
            writes: self.writes.saturating_sub(before.writes),
            reads: self.reads.saturating_sub(before.reads),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            writes: self.writes + other.writes,
            reads: self.reads + other.reads,
            read_bytes: self.read_bytes + other.read_bytes,
        }
    }
}

/// Returns the number, path and position of each descriptor with which a process can write to a
/// file that has a path.
fn open_files(root: &Root, pid: u32) -> Vec<(u32, String, u64)> {
    let file = |number: u32| {
        let link = std::fs::read_link(root.path(&format!("proc/{pid}/fd/{number}"))).ok()?;
        let path = link.to_str().filter(|path| is_file(path))?.to_owned();
        let info = root.text(&format!("proc/{pid}/fdinfo/{number}"))?;
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        let flags = u32::from_str_radix(field("flags:")?.trim(), 8).ok()?;
        /// Mask of the access mode within the flags (O_ACCMODE), and the mode O_RDONLY.
        const MODE: u32 = 3;
        const READ_ONLY: u32 = 0;
        let position = field("pos:")?.trim().parse().ok()?;
        (flags & MODE != READ_ONLY).then_some((number, path, position))
    };
    (0..DESCRIPTORS).filter_map(file).collect()
}

/// Returns whether a link target may be a regular file: devices and kernel interfaces have a
/// position too.
fn is_file(path: &str) -> bool {
    path.starts_with('/') && !["/dev/", "/proc/", "/sys/"].iter().any(|root| path.starts_with(root))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn writes_to_a_log_are_counted() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("server.log");
        let mut log = std::fs::OpenOptions::new().append(true).create(true).open(&path).unwrap();
        log.write_all(b"before").unwrap();
        let read = place.path().join("read");
        std::fs::write(&read, "12345").unwrap();
        let mut only_read = std::fs::File::open(&read).unwrap();
        let (root, own) = (Root::new(std::path::Path::new("/")), [std::process::id()]);
        let written = Written::start(&root, &own);
        for _ in 0..20 {
            log.write_all(b"123").unwrap();
        }
        std::io::copy(&mut only_read, &mut std::io::sink()).unwrap();
        let (found, reads) = written.finish(&root, &own);
        let found = found.expect("written");
        let path = path.to_str().unwrap().to_owned();
        // Other tests of this process may write as well.
        let of_log = found.files.iter().find(|file| file.path == path);
        assert_eq!(of_log, Some(&WrittenFile { pid: own[0], path, bytes: 60 }));
        assert!(found.files.iter().all(|file| file.path != read.to_str().unwrap()));
        assert!(found.calls.is_none_or(|calls| calls >= 20), "{found:?}");
        // Reading /proc/self/fdinfo takes calls as well.
        assert!(reads.is_none_or(|reads| reads.calls > 0 && reads.bytes > 0), "{reads:?}");
        assert_eq!(written.finish(&root, &[]).0, None);
    }

    #[test]
    fn devices_and_sockets_are_no_files() {
        for (path, expected) in [
            ("/var/log/x.log", true),
            ("/dev/null", false),
            ("/proc/kmsg", false),
            ("socket:[5]", false),
            ("pipe:[6]", false),
        ] {
            assert_eq!(is_file(path), expected, "{path}");
        }
    }
}
