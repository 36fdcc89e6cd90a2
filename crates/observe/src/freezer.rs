// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that the cgroup freezer has stopped (v1 and v2), as `docker pause` and
//! `systemctl freeze` do. A frozen thread looks like a thread that sleeps in its last system call.

use crate::threads::text_of;
use linerate_machine::Root;
use linerate_machine::groups;
use std::collections::BTreeMap;
use std::fs::File;

/// Groups of processes, with their state files.
#[derive(Debug, Default)]
pub(crate) struct Freezer {
    /// Directory of each process's group; `None` for a process whose group cannot be frozen, such
    /// as one in the root group.
    folders: BTreeMap<u32, Option<String>>,
    states: BTreeMap<String, File>,
}

impl Freezer {
    /// Returns whether a process is frozen now.
    pub(crate) fn is_frozen(&mut self, root: &Root, pid: u32) -> bool {
        if !self.folders.contains_key(&pid) {
            let folder = self.open(root, pid);
            self.folders.insert(pid, folder);
        }
        let folder = self.folders.get(&pid).and_then(Option::as_ref);
        let state = folder.and_then(|folder| text_of(self.states.get(folder)?).ok());
        state.is_some_and(|text| shows_frozen(&text))
    }

    /// Opens the state file of a process's innermost group, which includes the state of the groups
    /// around it. Returns the group's directory.
    fn open(&mut self, root: &Root, pid: u32) -> Option<String> {
        let folders = groups::folders_of(root, &pid.to_string(), "freezer")?;
        folders.into_iter().rev().find(|folder| {
            let open = |name| File::open(root.path(&format!("{folder}/{name}"))).ok();
            if !self.states.contains_key(folder)
                && let Some(file) = open("cgroup.events").or_else(|| open("freezer.state"))
            {
                self.states.insert(folder.clone(), file);
            }
            self.states.contains_key(folder)
        })
    }
}

/// Returns whether the contents of `freezer.state` (v1) or `cgroup.events` (v2) are those of a
/// frozen group.
fn shows_frozen(text: &str) -> bool {
    text.lines().any(|line| ["FROZEN", "frozen 1"].contains(&line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::put;

    #[test]
    fn frozen_groups_of_both_versions_are_seen() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        put(&root, "proc/7/cgroup", "4:freezer:/jobs/a\n0::/\n");
        put(&root, "sys/fs/cgroup/freezer/jobs/a/freezer.state", "THAWED\n");
        put(&root, "proc/8/cgroup", "0::/b\n");
        put(&root, "sys/fs/cgroup/b/cgroup.events", "populated 1\nfrozen 0\n");
        put(&root, "proc/9/cgroup", "0::/\n");
        let mut freezer = Freezer::default();
        let mut frozen = || [7, 8, 9].map(|pid| freezer.is_frozen(&root, pid));
        assert_eq!(frozen(), [false, false, false]);
        put(&root, "sys/fs/cgroup/freezer/jobs/a/freezer.state", "FROZEN\n");
        assert_eq!(frozen(), [true, false, false]);
        put(&root, "sys/fs/cgroup/b/cgroup.events", "populated 1\nfrozen 1\n");
        assert_eq!(frozen(), [true, true, false]);
    }
}
