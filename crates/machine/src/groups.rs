// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control groups that a process is in.

use crate::files::Root;

/// The folders of the groups whose `controller` governs this process, below the root, each outer
/// one before those within; `None` where the kernel shows no groups. In a container the outer ones
/// may not be there, and the mount itself is the group.
pub fn folders(root: &Root, controller: &str) -> Option<Vec<String>> {
    folders_of(root, "self", controller)
}

/// As [`folders`], of the process with this name in /proc.
pub fn folders_of(root: &Root, process: &str, controller: &str) -> Option<Vec<String>> {
    let text = root.text(&format!("proc/{process}/cgroup"))?;
    let lines = text.lines().filter_map(|line| group_of(line, controller));
    Some(lines.flat_map(|(mount, group)| levels(&mount, group)).collect())
}

/// A limit on CPU time.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuQuota {
    /// The limit in CPUs.
    pub cpus: f64,
    /// The file that sets it, below the root.
    pub file: String,
    /// The content of that file without a limit.
    pub none: &'static str,
}

impl CpuQuota {
    /// The command that removes it.
    pub fn removal(&self) -> String {
        format!("echo {} | sudo tee /{}", self.none, self.file)
    }
}

/// The narrowest CPU limit among groups with these folders.
pub fn cpu_quota(root: &Root, folders: &[String]) -> Option<CpuQuota> {
    let quotas = folders.iter().filter_map(|folder| quota_of(root, folder));
    quotas.reduce(|least, quota| if quota.cpus < least.cpus { quota } else { least })
}

/// The limit of one group: version 2 has both numbers in a file, `max` for none; version 1 one file
/// for each, -1 for none.
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

/// Path in a line of /proc/self/cgroup, `number:controllers:path`; `None` for other controllers.
/// Version 2 has one line without controllers.
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

/// The folder of a group and of each that contains it.
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
}
