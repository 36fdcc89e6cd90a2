// SPDX-License-Identifier: MIT OR Apache-2.0
//! Regular files to which processes write, such as logs: how far the positions of their descriptors
//! move within a window. Readable by the user of the processes, without tracing.

use crate::descriptors::DescriptorInfo;
use crate::sparing::Sparing;
use linerate_machine::Root;
use linerate_record::why::{FileWrites, WrittenFile};
use std::collections::BTreeMap;

/// Maximum number of processes, of descriptors per process, and of files in the result. Logs are
/// opened early, so that they have low numbers.
const PROCESSES: usize = 16;
const DESCRIPTORS: u32 = 64;
const FILES: usize = 8;
/// Maximum share of a CPU spent looking for new descriptors within a window.
const SHARE: f64 = 0.001;

/// Positions and counts at the start of the window.
#[derive(Debug)]
pub(crate) struct Written {
    /// Path and position of each descriptor, by process and number.
    descriptors: BTreeMap<(u32, u32), (String, u64)>,
    /// Counters of each process.
    calls: BTreeMap<u32, Calls>,
    search: Sparing,
}

/// Counters of a process in /proc/PID/io, which cover descriptors of any kind, but not sendto and
/// sendmsg. They include those of child processes that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Calls {
    writes: u64,
    bytes: u64,
}

impl Written {
    /// Creates an empty state, for windows in which files are not read.
    pub(crate) fn none() -> Self {
        let search = Sparing::new(SHARE);
        Self { descriptors: BTreeMap::new(), calls: BTreeMap::new(), search }
    }

    /// Reads the positions at the start of the window.
    pub(crate) fn start(root: &Root, pids: &[u32]) -> Self {
        let mut written = Self::none();
        written.add(root, pids);
        written
    }

    /// Adds descriptors and processes that are new since the last reading, if it is due.
    pub(crate) fn add(&mut self, root: &Root, pids: &[u32]) {
        if !self.search.is_due() {
            return;
        }
        let began = self.search.begin();
        for &pid in pids.iter().take(PROCESSES) {
            for open in open_files(root, pid) {
                let key = (pid, open.number);
                let is_other = |known: &(String, u64)| known.0 != open.path;
                if self.descriptors.get(&key).is_none_or(is_other) {
                    let start = open.start(root, pid);
                    self.descriptors.insert(key, (open.path, start));
                }
            }
            if let Some(calls) = Calls::of(root, pid) {
                self.calls.entry(pid).or_insert(calls);
            }
        }
        self.search.end(began);
    }

    /// Returns what was written since the first reading of each descriptor; `None` if nothing was.
    pub(crate) fn finish(&self, root: &Root, pids: &[u32]) -> Option<FileWrites> {
        let mut files: Vec<WrittenFile> = Vec::new();
        let mut calls = (pids.len() <= PROCESSES).then_some(0);
        for &pid in pids.iter().take(PROCESSES) {
            let more = Calls::of(root, pid).zip(self.calls.get(&pid));
            let more = more.map(|(now, before)| now.since(*before));
            calls = calls.zip(more).map(|(calls, more)| calls + more.writes);
            // The position also follows what other processes append.
            let most = more.map_or(u64::MAX, |more| more.bytes);
            for open in open_files(root, pid) {
                let known = self.descriptors.get(&(pid, open.number));
                let Some((_, start)) = known.filter(|(path, _)| *path == open.path) else {
                    continue;
                };
                let bytes = open.position.saturating_sub(*start).min(most);
                // Descriptors that were inherited have the same position.
                if bytes > 0 && files.iter().all(|one| one.path != open.path) {
                    files.push(WrittenFile { pid, path: open.path, bytes });
                }
            }
        }
        files.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.path.cmp(&b.path)));
        files.truncate(FILES);
        (!files.is_empty()).then_some(FileWrites { files, calls })
    }
}

impl Calls {
    /// Reads the counters; `None` if they are unreadable.
    fn of(root: &Root, pid: u32) -> Option<Self> {
        let text = root.text(&format!("proc/{pid}/io"))?;
        let field = |name: &str| -> Option<u64> {
            text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
        };
        Some(Self { writes: field("syscw:")?, bytes: field("wchar:")? })
    }

    fn since(self, before: Self) -> Self {
        Self {
            writes: self.writes.saturating_sub(before.writes),
            bytes: self.bytes.saturating_sub(before.bytes),
        }
    }
}

/// A descriptor with which a process only writes, or appends.
#[derive(Debug)]
struct OpenFile {
    number: u32,
    path: String,
    position: u64,
    is_append: bool,
}

impl OpenFile {
    /// Returns the position from which bytes are counted. Until its first write, a descriptor for
    /// appending may have a position before the end of the file.
    fn start(&self, root: &Root, pid: u32) -> u64 {
        let file = || std::fs::metadata(root.path(&format!("proc/{pid}/fd/{}", self.number)));
        let size = if self.is_append { file().map_or(0, |file| file.len()) } else { 0 };
        self.position.max(size)
    }
}

/// Returns the descriptors with which a process only writes to a file that has a path, or appends
/// to it. The position of others moves by reads too.
fn open_files(root: &Root, pid: u32) -> Vec<OpenFile> {
    let file = |number: u32| {
        let link = std::fs::read_link(root.path(&format!("proc/{pid}/fd/{number}"))).ok()?;
        let path = link.to_str().filter(|path| is_file(path))?.to_owned();
        let info = DescriptorInfo::of(root, pid, number)?;
        let (position, is_append) = (info.position, info.is_append());
        let is_written = is_append || info.is_write_only();
        is_written.then_some(OpenFile { number, path, position, is_append })
    };
    (0..DESCRIPTORS).filter_map(file).collect()
}

/// Returns whether a link target may be a regular file on a disk: devices, kernel interfaces and
/// anonymous memory have a position too.
fn is_file(path: &str) -> bool {
    const OTHERS: [&str; 4] = ["/dev/", "/proc/", "/sys/", "/memfd:"];
    path.starts_with('/') && !OTHERS.iter().any(|root| path.starts_with(root))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::path::Path;

    #[test]
    fn what_is_appended_to_a_log_is_counted_from_the_end_of_the_file() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("server.log");
        fs::write(&path, "an older log").unwrap();
        // The position is 0 before the first write.
        let mut log = fs::OpenOptions::new().append(true).open(&path).unwrap();
        let both = place.path().join("both");
        fs::write(&both, "12345").unwrap();
        let mut both_ways = fs::OpenOptions::new().read(true).write(true).open(&both).unwrap();
        let (root, own) = (Root::new(Path::new("/")), [std::process::id()]);
        let written = Written::start(&root, &own);
        for _ in 0..20 {
            log.write_all(b"123").unwrap();
        }
        std::io::copy(&mut both_ways, &mut std::io::sink()).unwrap();
        let found = written.finish(&root, &own).expect("written");
        let path = path.to_str().unwrap().to_owned();
        // Other tests of this process may write as well.
        let of_log = found.files.iter().find(|file| file.path == path);
        assert_eq!(of_log, Some(&WrittenFile { pid: own[0], path, bytes: 60 }));
        assert!(found.files.iter().all(|file| file.path != both.to_str().unwrap()));
        assert_eq!(written.finish(&root, &[]), None);
    }

    #[test]
    fn positions_that_other_processes_move_and_calls_are_bounded_by_the_own_account() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::new(place.path());
        let set = |position: u64, calls: u64, bytes: u64| {
            fs::create_dir_all(place.path().join("proc/7/fdinfo")).unwrap();
            let info = format!("pos:\t{position}\nflags:\t0100001\nmnt_id:\t1\n");
            fs::write(place.path().join("proc/7/fdinfo/3"), info).unwrap();
            let io = format!("rchar: 5\nwchar: {bytes}\nsyscr: 1\nsyscw: {calls}\n");
            fs::write(place.path().join("proc/7/io"), io).unwrap();
        };
        fs::create_dir_all(place.path().join("proc/7/fd")).unwrap();
        std::os::unix::fs::symlink("/srv/app.log", place.path().join("proc/7/fd/3")).unwrap();
        set(1000, 10, 500);
        let written = Written::start(&root, &[7]);
        set(9000, 30, 800);
        let files = vec![WrittenFile { pid: 7, path: "/srv/app.log".to_owned(), bytes: 300 }];
        let expected = FileWrites { files, calls: Some(20) };
        assert_eq!(written.finish(&root, &[7]), Some(expected));
        let many: Vec<u32> = (7..8 + PROCESSES as u32).collect();
        assert_eq!(written.finish(&root, &many).and_then(|found| found.calls), None);
    }

    #[test]
    fn devices_and_sockets_are_no_files() {
        for (path, expected) in [
            ("/var/log/x.log", true),
            ("/dev/null", false),
            ("/proc/kmsg", false),
            ("/memfd:jit (deleted)", false),
            ("socket:[5]", false),
            ("pipe:[6]", false),
        ] {
            assert_eq!(is_file(path), expected, "{path}");
        }
    }
}
