// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time that this process did not get, according to the kernel: steal time of the CPUs, and
//! throttling by the CPU quotas of its control groups.

use crate::cpu_time::{CpuTicks, CpuTimes, TICK_NS};
use crate::files::Root;
use crate::groups::{self, CpuQuota, Throttling};
use linerate_record::why::Quota;
use std::collections::BTreeMap;

/// One reading of the kernel's counters. Compare two of them to get the time lost in between.
#[derive(Clone, Debug, Default)]
pub struct LostTime {
    /// Time since boot by CPU; empty if it cannot be read.
    cpus: BTreeMap<u32, CpuTicks>,
    /// The groups that contain this process and have a quota, by directory; `None` if the groups or
    /// the counters of one of them cannot be read.
    groups: Option<BTreeMap<String, (CpuQuota, Throttling)>>,
}

impl LostTime {
    /// Reads the counters, which takes some 10 us per online CPU.
    pub fn read(root: &Root) -> Self {
        Self {
            cpus: CpuTimes::parse(&root.text("proc/stat").unwrap_or_default()).cpus,
            groups: read_groups(root),
        }
    }

    /// Returns the steal time of a CPU since the earlier reading `since`, in nanoseconds with a
    /// resolution of 10 ms: time in which the CPU had something to run, but the hypervisor ran
    /// something else. 0 without a hypervisor, or if it does not report steal time; `None` if
    /// either reading lacks the CPU or its steal time.
    pub fn stolen_ns(&self, since: &Self, cpu: u32) -> Option<u64> {
        let ticks = self.cpus.get(&cpu)?.since(since.cpus.get(&cpu)?);
        Some(ticks.stolen?.saturating_mul(TICK_NS))
    }

    /// Returns the CPU quotas that apply to this process, with how often and for how long they
    /// throttled it since the earlier reading `since`. Outer groups come first. `None` if unknown.
    pub fn quotas(&self, since: &Self) -> Option<Vec<Quota>> {
        let before = since.groups.as_ref()?;
        let quota = |(folder, (quota, now)): (&String, &(CpuQuota, Throttling))| {
            let (_, before) = before.get(folder)?;
            Some(Quota {
                group: format!("/{folder}"),
                pids: vec![std::process::id()],
                cpus: quota.cpus,
                periods: now.periods.saturating_sub(before.periods),
                throttled_periods: now.throttled_periods.saturating_sub(before.throttled_periods),
                throttled_s: now.throttled_ns.saturating_sub(before.throttled_ns) as f64 / 1e9,
                removal: Some(quota.removal()),
            })
        };
        self.groups.as_ref()?.iter().map(quota).collect()
    }
}

fn read_groups(root: &Root) -> Option<BTreeMap<String, (CpuQuota, Throttling)>> {
    let folders = groups::folders(root, "cpu")?.into_iter();
    let limited = folders.filter_map(|folder| Some((groups::quota_of(root, &folder)?, folder)));
    let counted = limited.map(|(quota, folder)| {
        let throttling = groups::throttling_of(root, &folder)?;
        Some((folder, (quota, throttling)))
    });
    counted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn machine(folder: &Path, stat: &str, throttling: Option<&str>) -> LostTime {
        put(folder, "proc/stat", stat);
        put(folder, "proc/self/cgroup", "0::/a/b\n");
        put(folder, "sys/fs/cgroup/a/cpu.max", "50000 100000\n");
        put(folder, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
        if let Some(text) = throttling {
            put(folder, "sys/fs/cgroup/a/cpu.stat", text);
        }
        LostTime::read(&Root::new(folder))
    }

    #[test]
    fn differences_between_two_readings() {
        let folder = tempfile::tempdir().unwrap();
        let counts = |periods: u32, throttled: u32, usec: u32| {
            format!(
                "usage_usec 9\nnr_periods {periods}\nnr_throttled {throttled}\n\
                 throttled_usec {usec}\n"
            )
        };
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 4 5 6 7 80 0 0\ncpu3 1 2 3 4 5 6 7 5 0 0\n\
                    intr 5\n";
        let first = machine(folder.path(), stat, Some(&counts(10, 4, 1_000)));
        let stat = stat.replace("80", "92");
        let last = machine(folder.path(), &stat, Some(&counts(28, 19, 811_000)));
        assert_eq!(last.stolen_ns(&first, 0), Some(120_000_000));
        assert_eq!(last.stolen_ns(&first, 3), Some(0));
        assert_eq!(last.stolen_ns(&first, 1), None);
        let quotas = last.quotas(&first).expect("readable groups");
        let [quota] = &quotas[..] else { panic!("{quotas:?}") };
        assert_eq!((quota.group.as_str(), quota.cpus), ("/sys/fs/cgroup/a", 0.5));
        assert_eq!((quota.periods, quota.throttled_periods), (18, 15));
        assert!((quota.throttled_s - 0.81).abs() < 1e-9, "{}", quota.throttled_s);
    }

    #[test]
    fn what_cannot_be_read_is_unknown() {
        let folder = tempfile::tempdir().unwrap();
        // Kernels before 2.6.11 have no steal time.
        let old = machine(folder.path(), "cpu0 1 2 3 4 5 6 7\n", None);
        assert_eq!(old.stolen_ns(&old, 0), None);
        assert_eq!(old.quotas(&old), None);
        // A damaged line hides its own CPU only.
        let stat = "cpu0 1 2 3 4 5 6 7 x 0 0\ncpu3 1 2 3 4 5 6 7 5 0 0\n";
        let damaged = machine(folder.path(), stat, None);
        assert_eq!(damaged.stolen_ns(&damaged, 0), None);
        assert_eq!(damaged.stolen_ns(&damaged, 3), Some(0));
        let nothing = LostTime::default();
        assert_eq!((nothing.stolen_ns(&nothing, 0), nothing.quotas(&nothing)), (None, None));
    }

    #[test]
    fn this_machine_can_be_read() {
        let root = Root::new(Path::new("/"));
        let first = LostTime::read(&root);
        let cpu = linerate_linux::allowed_cpus().unwrap()[0];
        let stolen = LostTime::read(&root).stolen_ns(&first, cpu);
        assert!(stolen.is_some_and(|ns| ns < 1_000_000_000), "{stolen:?}");
    }
}
