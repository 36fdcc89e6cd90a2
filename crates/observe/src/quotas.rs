// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU quotas of the observed processes' control groups, v1 and v2.

use linerate_machine::Root;
use linerate_machine::groups::{self, CpuQuota, Throttling};
use linerate_record::why::Quota;
use std::collections::BTreeMap;

#[derive(Debug)]
struct Group {
    pids: Vec<u32>,
    quota: CpuQuota,
    first: Throttling,
    last: Throttling,
    /// Throttled time in nanoseconds, by slice number.
    throttled_ns: BTreeMap<u32, u64>,
}

/// Groups with a quota.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    groups: BTreeMap<String, Group>,
}

impl Quotas {
    /// Adds the quotas that apply to a process.
    pub(crate) fn add(&mut self, root: &Root, pid: u32) {
        for folder in groups::folders_of(root, &pid.to_string(), "cpu").unwrap_or_default() {
            let Some(quota) = groups::quota_of(root, &folder) else { continue };
            let first = groups::throttling_of(root, &folder).unwrap_or_default();
            let group = self.groups.entry(folder).or_insert_with(|| Group {
                pids: Vec::new(),
                quota,
                first,
                last: first,
                throttled_ns: BTreeMap::new(),
            });
            if !group.pids.contains(&pid) {
                group.pids.push(pid);
            }
        }
    }

    /// Keeps only the groups of the processes `pids`.
    pub(crate) fn retain(&mut self, pids: &[u32]) {
        self.groups.retain(|_, group| {
            group.pids.retain(|pid| pids.contains(pid));
            !group.pids.is_empty()
        });
    }

    /// Begins the first window.
    pub(crate) fn begin(&mut self, root: &Root) {
        for (folder, group) in &mut self.groups {
            group.last = groups::throttling_of(root, folder).unwrap_or(group.last);
            group.first = group.last;
        }
    }

    /// Reads the groups' counters at the end of a slice. A group that has been removed, as that of
    /// a container is when its last process ends, keeps its last counters.
    pub(crate) fn read(&mut self, root: &Root, number: u32) {
        for (folder, group) in &mut self.groups {
            let Some(now) = groups::throttling_of(root, folder) else { continue };
            let more = now.throttled_ns.saturating_sub(group.last.throttled_ns);
            group.throttled_ns.insert(number, more);
            group.last = now;
        }
    }

    /// Returns how long a process was throttled in a slice, and by the quota of which group: of the
    /// groups that contain it, the one that was throttled for longest, since throttling a group
    /// also stops its descendants. The time, in ns, is the sum over all CPUs and all processes of
    /// that group. `None` if the process was not throttled.
    pub(crate) fn throttled_ns(&self, pid: u32, number: u32) -> Option<(u64, &str)> {
        let groups = self.groups.iter().filter(|(_, group)| group.pids.contains(&pid));
        let times = groups.filter_map(|(folder, group)| {
            Some((*group.throttled_ns.get(&number)?, folder.as_str()))
        });
        times.max().filter(|(ns, _)| *ns > 0)
    }

    /// Returns the quotas with the differences over the window, and begins the next window.
    pub(crate) fn finish(&mut self) -> Vec<Quota> {
        let quota = |(group, read): (&String, &mut Group)| {
            let (first, last) = (std::mem::replace(&mut read.first, read.last), read.last);
            let throttled_ns = std::mem::take(&mut read.throttled_ns).into_values().sum::<u64>();
            Quota {
                group: format!("/{group}"),
                pids: read.pids.clone(),
                cpus: read.quota.cpus,
                removal: Some(read.quota.removal()),
                periods: last.periods.saturating_sub(first.periods),
                throttled_periods: last.throttled_periods.saturating_sub(first.throttled_periods),
                throttled_s: throttled_ns as f64 / 1e9,
            }
        };
        self.groups.iter_mut().map(quota).collect()
    }
}

/// Returns whether the scheduler shares the CPUs among sessions, so that the nice value of a thread
/// only counts within its session. A process in a control group with a CPU weight shares with the
/// other groups instead. `None` if the setting is unreadable.
pub(crate) fn is_by_session(root: &Root, pid: Option<u32>) -> Option<bool> {
    let setting = root.text("proc/sys/kernel/sched_autogroup_enabled")?;
    let folders = pid.and_then(|pid| groups::folders_of(root, &pid.to_string(), "cpu"));
    let folders = folders.unwrap_or_default();
    // In v1, the outermost group has shares too, without effect.
    let has_weight = folders.iter().any(|folder| root.exists(&format!("{folder}/cpu.weight")))
        || folders.iter().skip(1).any(|folder| root.exists(&format!("{folder}/cpu.shares")));
    Some(setting.trim() != "0" && !has_weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::put;

    #[test]
    fn version_2_with_a_limit_on_an_outer_level() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        put(&root, "proc/7/cgroup", "0::/a/b\n");
        put(&root, "sys/fs/cgroup/a/cpu.max", "20000 100000\n");
        put(&root, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
        let stat = "usage_usec 9\nnr_periods 10\nnr_throttled 4\nthrottled_usec 1000\n";
        put(&root, "sys/fs/cgroup/a/cpu.stat", stat);
        let mut quotas = Quotas::default();
        quotas.add(&root, 7);
        let stat = "usage_usec 9\nnr_periods 28\nnr_throttled 19\nthrottled_usec 81000\n";
        put(&root, "sys/fs/cgroup/a/cpu.stat", stat);
        quotas.read(&root, 0);
        assert_eq!(quotas.throttled_ns(7, 0), Some((80_000_000, "sys/fs/cgroup/a")));
        assert_eq!((quotas.throttled_ns(8, 0), quotas.throttled_ns(7, 1)), (None, None));
        let found = quotas.finish();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].group.as_str(), found[0].cpus), ("/sys/fs/cgroup/a", 0.2));
        assert_eq!((found[0].periods, found[0].throttled_periods), (18, 15));
        let next = &quotas.finish()[0];
        assert_eq!((next.periods, next.throttled_periods, next.throttled_s), (0, 0, 0.0));
        // Once the process has ended, its group no longer counts.
        quotas.add(&root, 7);
        quotas.retain(&[7]);
        assert_eq!(quotas.finish()[0].pids, [7]);
        quotas.retain(&[8]);
        assert!(quotas.finish().is_empty());
        let removal = "echo max | sudo tee /sys/fs/cgroup/a/cpu.max";
        assert_eq!(found[0].removal.as_deref(), Some(removal));
    }

    #[test]
    fn a_group_that_is_removed_keeps_its_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        put(&root, "proc/7/cgroup", "0::/a\n");
        put(&root, "sys/fs/cgroup/a/cpu.max", "20000 100000\n");
        let stat = |n| format!("nr_periods {n}\nnr_throttled {n}\nthrottled_usec {n}000000\n");
        put(&root, "sys/fs/cgroup/a/cpu.stat", &stat(10));
        let mut quotas = Quotas::default();
        quotas.add(&root, 7);
        quotas.begin(&root);
        put(&root, "sys/fs/cgroup/a/cpu.stat", &stat(15));
        quotas.read(&root, 0);
        std::fs::remove_dir_all(folder.path().join("sys")).expect("removed");
        quotas.read(&root, 1);
        let found = &quotas.finish()[0];
        assert_eq!((found.periods, found.throttled_periods), (5, 5));
        assert!((found.throttled_s - 5.0).abs() < 1e-9);
        let next = &quotas.finish()[0];
        assert_eq!((next.periods, next.throttled_s), (0, 0.0));
    }

    #[test]
    fn version_1_and_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        put(&root, "proc/7/cgroup", "3:cpuset:/x\n1:cpu,cpuacct:/q\n0::/\n");
        put(&root, "sys/fs/cgroup/cpu/q/cpu.cfs_quota_us", "50000\n");
        put(&root, "sys/fs/cgroup/cpu/q/cpu.cfs_period_us", "100000\n");
        put(&root, "sys/fs/cgroup/cpu/q/cpu.stat", "nr_periods 1\nthrottled_time 5000\n");
        put(&root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
        put(&root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
        let mut quotas = Quotas::default();
        quotas.add(&root, 7);
        quotas.add(&root, 8);
        let found = quotas.finish();
        assert_eq!((found.len(), found[0].cpus, found[0].throttled_s), (1, 0.5, 0.0));
    }

    #[test]
    fn sessions_share_the_cpus_only_outside_of_groups() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        assert_eq!(is_by_session(&root, Some(7)), None);
        put(&root, "proc/sys/kernel/sched_autogroup_enabled", "1\n");
        put(&root, "proc/7/cgroup", "0::/a/b\n");
        assert_eq!(is_by_session(&root, Some(7)), Some(true));
        put(&root, "sys/fs/cgroup/a/cpu.weight", "100\n");
        assert_eq!(is_by_session(&root, Some(7)), Some(false));
        assert_eq!(is_by_session(&root, None), Some(true));
        put(&root, "proc/8/cgroup", "1:cpu:/\n0::/\n");
        put(&root, "sys/fs/cgroup/cpu/cpu.shares", "1024\n");
        assert_eq!(is_by_session(&root, Some(8)), Some(true));
        put(&root, "proc/9/cgroup", "1:cpu:/x\n0::/\n");
        put(&root, "sys/fs/cgroup/cpu/x/cpu.shares", "1024\n");
        assert_eq!(is_by_session(&root, Some(9)), Some(false));
        put(&root, "proc/sys/kernel/sched_autogroup_enabled", "0\n");
        assert_eq!(is_by_session(&root, Some(8)), Some(false));
    }

    #[test]
    fn damaged_texts_are_survived() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::new(folder.path());
        for text in ["max 100000", "5 0", "5", "-1 100000"] {
            put(&root, "g/cpu.max", text);
            assert_eq!(groups::quota_of(&root, "g"), None, "{text}");
        }
    }
}
