// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that have as many descriptors open as they may. accept(2) then fails with EMFILE, and
//! connections wait in the accept queue.

use linerate_machine::Root;
use linerate_record::why::FullDescriptors;
use std::collections::BTreeMap;

/// Readings of open descriptors by process.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    processes: BTreeMap<u32, Process>,
}

#[derive(Debug)]
struct Process {
    /// `None` if unlimited or unreadable.
    limit: Option<u64>,
    reads: u64,
    full: u64,
}

impl Descriptors {
    /// Adds a reading of the number of descriptors that a process has open.
    pub(crate) fn take(&mut self, root: &Root, pid: u32, open: u64) {
        let new = || Process { limit: limit(root, pid), reads: 0, full: 0 };
        let process = self.processes.entry(pid).or_insert_with(new);
        process.reads += 1;
        process.full += u64::from(process.limit.is_some_and(|limit| open >= limit));
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
            descriptors.take(&root, pid, open);
        }
        assert_eq!(
            descriptors.finish(),
            [FullDescriptors { pid: 7, limit: 12, reads: 2, share: 0.5 }]
        );
        assert!(descriptors.finish().is_empty());
    }
}
