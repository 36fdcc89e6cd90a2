// SPDX-License-Identifier: MIT OR Apache-2.0
//! A process's control groups, and their CPU quotas.

use crate::files::Root;

/// Returns the directories of the groups in which `controller` governs this process. Paths are
/// relative to the root; outer groups come before inner ones. `None` if the kernel shows no groups.
/// In a container, the outer groups may be invisible; the mount point is then taken as the group.
pub fn folders(root: &Root, controller: &str) -> Option<Vec<String>> {
    folders_of(root, "self", controller)
}

/// Like [`folders`], but for the process with this name in /proc, such as `self` or a PID.
pub fn folders_of(root: &Root, process: &str, controller: &str) -> Option<Vec<String>> {
    let text = root.text(&format!("proc/{process}/cgroup"))?;
    let lines = text.lines().filter_map(|line| group_of(line, controller));
    Some(lines.flat_map(|(mount, group)| levels(&mount, group)).collect())
}

/// A limit on the CPU time of a control group.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuQuota {
    /// The limit as a number of CPUs: CPU time divided by wall time.
    pub cpus: f64,
    /// File that sets the limit, relative to the root.
    pub file: String,
    /// What to write to the file so that there is no limit.
    pub none: &'static str,
}

impl CpuQuota {
    /// Returns a shell command that removes the limit.
    pub fn removal(&self) -> String {
        format!("echo {} | sudo tee /{}", self.none, self.file)
    }
}

/// Returns the CPU quota of the group with the tightest one, among the groups in these directories;
/// `None` if no group has a quota.
pub fn cpu_quota(root: &Root, folders: &[String]) -> Option<CpuQuota> {
    let quotas = folders.iter().filter_map(|folder| quota_of(root, folder));
    quotas.reduce(|least, quota| if quota.cpus < least.cpus { quota } else { least })
}

/// Returns the CPU quota of one group. In cgroup v2, quota and period are in one file, with `max`
/// for no limit; in v1, each has its own file, with -1 for no limit.
pub fn quota_of(root: &Root, folder: &str) -> Option<CpuQuota> {
    let second = format!("{folder}/cpu.max");
    let first = format!("{folder}/cpu.cfs_quota_us");
    let (file, none, quota, period) = match root.text(&second) {
        Some(text) => {
            let (quota, period) = text.split_once(' ')?;
            (second, "max", quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?)
        }
        None => {
            let period = root.number(&format!("{folder}/cpu.cfs_period_us"))?;
            (first.clone(), "-1", root.number(&first)?, period)
        }
    };
    (quota > 0.0 && period > 0.0).then(|| CpuQuota { cpus: quota / period, file, none })
}

/// How often and for how long a group's CPU quota has throttled it since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttling {
    /// Number of quota periods in which the group ran.
    pub periods: u64,
    /// Number of periods in which the quota was used up.
    pub throttled_periods: u64,
    /// Throttled time in nanoseconds, summed over CPUs.
    pub throttled_ns: u64,
}

/// Reads a group's throttling counters from `cpu.stat`; `None` if the file cannot be read.
pub fn throttling_of(root: &Root, folder: &str) -> Option<Throttling> {
    Some(parse_throttling(&root.text(&format!("{folder}/cpu.stat"))?))
}

/// Parses `cpu.stat`, whose times are in microseconds in v2 and nanoseconds in v1.
fn parse_throttling(text: &str) -> Throttling {
    let mut counts = Throttling::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(' ') else { continue };
        let Ok(value) = value.trim().parse::<u64>() else { continue };
        match key {
            "nr_periods" => counts.periods = value,
            "nr_throttled" => counts.throttled_periods = value,
            "throttled_usec" => counts.throttled_ns = value.saturating_mul(1000),
            "throttled_time" => counts.throttled_ns = value,
            _ => {}
        }
    }
    counts
}

/// Returns a group's mount and path from a line in /proc/self/cgroup, which has the form
/// `number:controllers:path`; `None` if the line is for other controllers. In cgroup v2, there is
/// only one line, which names no controllers.
fn group_of<'l>(line: &'l str, controller: &str) -> Option<(String, &'l str)> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    match controllers {
        "" => Some(("sys/fs/cgroup".to_owned(), path)),
        _ if controllers.split(',').any(|c| c == controller) => {
            Some((format!("sys/fs/cgroup/{controller}"), path))
        }
        _ => None,
    }
}

/// Returns the directories of a group and of every group that contains it.
fn levels(mount: &str, group: &str) -> Vec<String> {
    let group = group.trim_matches('/');
    let inner = group.match_indices('/').map(|(at, _)| at).chain([group.len()]);
    let inner = inner.filter(|end| *end > 0).map(|end| format!("{mount}/{}", &group[..end]));
    std::iter::once(mount.to_owned()).chain(inner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_lie_within_groups_and_a_controller_has_a_mount_of_its_own() {
        assert_eq!(levels("m", "/"), ["m"]);
        assert_eq!(levels("m", "/a/b"), ["m", "m/a", "m/a/b"]);
        let line = "4:cpu,cpuacct:/a";
        assert_eq!(group_of(line, "cpu"), Some(("sys/fs/cgroup/cpu".to_owned(), "/a")));
        assert_eq!(group_of(line, "memory"), None);
        assert_eq!(group_of("0::/a", "memory"), Some(("sys/fs/cgroup".to_owned(), "/a")));
        assert_eq!(group_of("nothing", "cpu"), None);
    }

    #[test]
    fn damaged_counters_are_survived() {
        assert_eq!(
            parse_throttling("nr_periods x\nthrottled_usec 18446744073709551615\n\n"),
            Throttling { throttled_ns: u64::MAX, ..Throttling::default() }
        );
    }
}
