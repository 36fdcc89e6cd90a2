// SPDX-License-Identifier: MIT OR Apache-2.0
//! Regular files to which processes write, such as logs: how far the positions of their descriptors
//! move within a window. Readable by the user of the processes, without tracing.

use linerate_machine::Root;
use linerate_record::why::{FileWrites, WrittenFile};
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
    /// Number of write calls by process.
    calls: BTreeMap<u32, u64>,
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
            if let Some(calls) = write_calls(root, pid) {
                self.calls.entry(pid).or_insert(calls);
            }
        }
    }

    /// Returns what was written since the first reading of each descriptor; `None` if nothing was.
    pub(crate) fn finish(&self, root: &Root, pids: &[u32]) -> Option<FileWrites> {
        let mut files: Vec<WrittenFile> = Vec::new();
        let (mut calls, mut is_complete) = (0, true);
        for &pid in pids.iter().take(PROCESSES) {
            let before = files.len();
            for (number, path, position) in open_files(root, pid) {
                let Some((known, start)) = self.descriptors.get(&(pid, number)) else { continue };
                let bytes = position.saturating_sub(*start);
                // A descriptor that was duplicated has the same position.
                let is_known = files[before..].iter().any(|one| one.path == path);
                if *known == path && bytes > 0 && !is_known {
                    files.push(WrittenFile { pid, path, bytes });
                }
            }
            let more = write_calls(root, pid)
                .zip(self.calls.get(&pid))
                .and_then(|(now, before)| now.checked_sub(*before));
            calls += more.unwrap_or(0);
            is_complete &= more.is_some();
        }
        files.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.path.cmp(&b.path)));
        files.truncate(FILES);
        (!files.is_empty()).then_some(FileWrites { files, calls: is_complete.then_some(calls) })
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

/// Returns the number of write calls that a process has made (write, writev, pwrite; to any
/// descriptor, but not with sendto or sendmsg); `None` if unreadable.
fn write_calls(root: &Root, pid: u32) -> Option<u64> {
    let text = root.text(&format!("proc/{pid}/io"))?;
    text.lines().find_map(|line| line.strip_prefix("syscw:"))?.trim().parse().ok()
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
        let found = written.finish(&root, &own).expect("written");
        let path = path.to_str().unwrap().to_owned();
        // Other tests of this process may write as well.
        let of_log = found.files.iter().find(|file| file.path == path);
        assert_eq!(of_log, Some(&WrittenFile { pid: own[0], path, bytes: 60 }));
        assert!(found.files.iter().all(|file| file.path != read.to_str().unwrap()));
        assert!(found.calls.is_none_or(|calls| calls >= 20), "{found:?}");
        assert_eq!(written.finish(&root, &[]), None);
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
