// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines how much memory this process may allocate, and what limits it.
//!
//! The process will touch all memory that it allocates, so it must be available without swapping
//! and without the OOM killer. Half of the free memory is left to other processes, which continue
//! to allocate. An eighth of what this process's limits allow is left for its other mappings.
//!
//! Per-node limits, and memory that a hypervisor may reclaim, are not considered.

use crate::{Root, groups};
use linerate_linux::MemoryLimits;

/// An upper limit on how much memory to allocate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Maximum number of bytes to allocate.
    pub bytes: u64,
    /// What imposes the limit, in a few words.
    pub reason: String,
}

impl Limit {
    /// Creates a limit of `bytes` bytes, imposed by `reason`.
    pub fn new(bytes: u64, reason: &str) -> Self {
        Self { bytes, reason: reason.to_owned() }
    }

    /// Returns the lower of two limits; `self` if they are equal.
    pub fn or_less(self, other: Self) -> Self {
        if other.bytes < self.bytes { other } else { self }
    }
}

/// Returns the maximum memory that this process can use: all [`free`] memory, or less if the
/// process's own limits `own` are lower.
pub fn room(root: &Root, own: MemoryLimits) -> Option<Limit> {
    free(root).into_iter().chain(of_process(root, own)).reduce(Limit::or_less)
}

/// Returns how much memory this process may allocate within its own limits `own`, while leaving
/// room for the system and for the process's control groups; `None` if nothing can be read and
/// nothing limits the process. If several limits are equally low, returns the one that users know
/// best.
pub fn available(root: &Root, own: MemoryLimits) -> Option<Limit> {
    let free = free_on_machine(root);
    let free = free.map(|bytes| Limit::new(bytes / 2, "half of the free memory"));
    let limits = free.into_iter().chain(of_groups(root)).chain(of_process(root, own));
    limits.reduce(Limit::or_less)
}

/// Returns the memory left under each of the process's own limits.
fn of_process(root: &Root, own: MemoryLimits) -> impl Iterator<Item = Limit> {
    let status = root.text("proc/self/status").unwrap_or_default();
    let left = |limit: Option<u64>, used: &str, reason: &str| {
        let left = limit?.saturating_sub(kib(&status, used).unwrap_or(0));
        Some(Limit::new(left / 8 * 7, reason))
    };
    let address_space = left(own.address_space, "VmSize:", "the address space limit (ulimit -v)");
    let data = left(own.data, "VmData:", "the data segment limit (ulimit -d)");
    address_space.into_iter().chain(data)
}

/// Bytes reserved for the process's other needs: stacks, page tables, the program.
const LEFT_BYTES: u64 = 1 << 20;

/// Returns all of the machine's free memory, within control group limits. A larger mapping
/// succeeds, but the kernel kills a process that touches more than this. `None` if nothing can be
/// read.
pub fn free(root: &Root) -> Option<Limit> {
    let machine =
        free_on_machine(root).map(|bytes| Limit::new(bytes, "the machine has no more free memory"));
    let groups = groups::folders(root, "memory").unwrap_or_default();
    let groups = groups.into_iter().filter_map(|folder| {
        let bytes = free_in_group(root, &folder)?;
        let reason = format!("the cgroup has no more free memory (/{folder})");
        Some(Limit { bytes: bytes.saturating_sub(LEFT_BYTES), reason })
    });
    machine.into_iter().chain(groups).reduce(Limit::or_less)
}

/// Like [`free`], but subtracts the part of the process's heap (`held` bytes) that it has not
/// touched yet, which the system still counts as free.
pub fn free_in_addition_to(root: &Root, held: u64) -> Option<Limit> {
    let status = root.text("proc/self/status").unwrap_or_default();
    let touched = kib(&status, "RssAnon:").or_else(|| kib(&status, "VmRSS:")).unwrap_or(held);
    let limit = free(root)?;
    let bytes = limit.bytes.saturating_sub(held.saturating_sub(touched));
    Some(Limit { bytes, ..limit })
}

/// Returns how many bytes can be allocated before the system must swap.
fn free_on_machine(root: &Root) -> Option<u64> {
    let meminfo = root.text("proc/meminfo").unwrap_or_default();
    kib(&meminfo, "MemAvailable:").or_else(|| kib(&meminfo, "MemFree:"))
}

/// Returns the value of `key` in bytes, from a /proc file that gives it in KiB.
fn kib(text: &str, key: &str) -> Option<u64> {
    let size = text.lines().find_map(|line| line.strip_prefix(key))?;
    size.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns half of the memory that is still free in each control group that contains this process.
fn of_groups(root: &Root) -> Vec<Limit> {
    let limit = |folder: String| {
        let bytes = free_in_group(root, &folder)? / 2;
        let reason = format!("half of the cgroup's free memory (/{folder})");
        Some(Limit { bytes, reason })
    };
    let folders = groups::folders(root, "memory").unwrap_or_default();
    folders.into_iter().filter_map(limit).collect()
}

/// Returns how much memory the group in `folder` may still allocate; `None` if unlimited. In cgroup
/// v2, the limit is in memory.max, which contains `max` if there is none; in v1, it is in
/// memory.limit_in_bytes, which is nearly 2^63 if there is none. The kernel counts inactive page
/// cache as used, but reclaims it first, so it counts as free here.
fn free_in_group(root: &Root, folder: &str) -> Option<u64> {
    let number = |name: &str| root.number::<u64>(&format!("{folder}/{name}"));
    let (limit, used) = match number("memory.max") {
        Some(limit) => (limit, number("memory.current")),
        None => (number("memory.limit_in_bytes")?, number("memory.usage_in_bytes")),
    };
    let stat = root.text(&format!("{folder}/memory.stat")).unwrap_or_default();
    let field = |name: &str| {
        let value = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        value.trim().parse::<u64>().ok()
    };
    let files = field("total_inactive_file").or_else(|| field("inactive_file")).unwrap_or(0);
    (limit < 1 << 62).then(|| limit.saturating_sub(used.unwrap_or(0).saturating_sub(files)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::path::Path;

    const GIB: u64 = 1 << 30;
    const FREE: MemoryLimits = MemoryLimits { address_space: None, data: None };

    fn root(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::new(folder.path());
        (folder, root)
    }

    const MEMINFO: (&str, &str) = (
        "proc/meminfo",
        "MemTotal:       16384000 kB\nMemFree:         1000000 kB\nMemAvailable:    8388608 kB\n",
    );

    #[test]
    fn half_of_what_is_free() {
        let (_folder, root) = root(&[MEMINFO]);
        let found = available(&root, FREE).unwrap();
        assert_eq!((found.bytes, found.reason.as_str()), (4 * GIB, "half of the free memory"));
        let old = ("proc/meminfo", "MemTotal: 1 kB\nMemFree:   1048576 kB\n");
        let (_folder, root) = super::tests::root(&[old]);
        assert_eq!(available(&root, FREE).unwrap().bytes, GIB / 2);
    }

    #[test]
    fn unknown_values_do_not_limit() {
        let (_folder, root) = root(&[]);
        assert_eq!(available(&root, FREE), None);
    }

    /// The group is nested two levels deep; the outer one has the tighter limit.
    #[test]
    fn control_groups_of_version_2() {
        let (_folder, root) = root(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/memory.max", "268435456\n"),
            ("sys/fs/cgroup/a/memory.current", "201326592\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 67108864\nactive_file 5\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "201326592\n"),
        ]);
        let found = available(&root, FREE).unwrap();
        assert_eq!(found.bytes, 64 << 20);
        assert!(found.reason.contains("/sys/fs/cgroup/a)"), "{found:?}");
    }

    #[test]
    fn control_groups_of_version_1() {
        let (_folder, root) = root(&[
            MEMINFO,
            ("proc/self/cgroup", "4:cpu:/c\n3:memory:/box\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "4096\n"),
            ("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "134217728\n"),
            ("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "67108864\n"),
        ]);
        assert_eq!(available(&root, FREE).unwrap().bytes, 32 << 20);
    }

    #[test]
    fn all_that_is_free_is_what_the_tightest_group_has() {
        let (_folder, here) = root(&[MEMINFO]);
        assert_eq!(free(&here).unwrap().bytes, 8 * GIB);
        let (_folder, here) = root(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/a\n"),
            ("sys/fs/cgroup/a/memory.max", "62914560\n"),
            ("sys/fs/cgroup/a/memory.current", "31457280\n"),
        ]);
        let found = free(&here).unwrap();
        assert_eq!(found.bytes, (30 << 20) - LEFT_BYTES);
        assert!(found.reason.contains("/sys/fs/cgroup/a)"), "{found:?}");
        let status = ("proc/self/status", "RssAnon:\t 1024 kB\n");
        let (_folder, here) = root(&[MEMINFO, status]);
        let beside = |held| free_in_addition_to(&here, held).unwrap().bytes;
        assert_eq!((beside(0), beside(1 << 20)), (8 * GIB, 8 * GIB));
        assert_eq!((beside(3 << 20), beside(u64::MAX)), (8 * GIB - (2 << 20), 0));
        let (_folder, here) = root(&[]);
        assert_eq!(free(&here), None);
    }

    #[test]
    fn a_group_that_is_full_has_no_room() {
        let (_folder, root) = root(&[
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/memory.max", "1048576\n"),
            ("sys/fs/cgroup/memory.current", "2097152\n"),
        ]);
        let found = available(&root, FREE).unwrap();
        assert_eq!(found.bytes, 0);
        assert!(found.reason.contains("cgroup"), "{found:?}");
    }

    #[test]
    fn limits_of_the_process() {
        let (_folder, root) = root(&[
            MEMINFO,
            ("proc/self/status", "Name:\tx\nVmSize:\t  131072 kB\nVmData:\t   65536 kB\n"),
        ]);
        let tight = MemoryLimits { address_space: Some(256 << 20), ..FREE };
        let found = available(&root, tight).unwrap();
        assert_eq!(found.bytes, 112 << 20);
        assert!(found.reason.contains("ulimit -v"), "{found:?}");
        let tight = MemoryLimits { data: Some(128 << 20), ..FREE };
        assert_eq!(available(&root, tight).unwrap().bytes, 56 << 20);
        let none = MemoryLimits { data: Some(0), ..FREE };
        assert_eq!(available(&root, none).unwrap().bytes, 0);
    }

    /// Reads this machine's own files: some memory is free, but not more than the machine has.
    #[test]
    fn this_machine_has_room() {
        let here = Root::new(Path::new("/"));
        let found = available(&here, linerate_linux::memory_limits()).unwrap();
        let total = kib(&fs::read_to_string("/proc/meminfo").unwrap(), "MemTotal:").unwrap();
        assert!((1 << 20..total).contains(&found.bytes), "{found:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            cases: 64,
            ..ProptestConfig::default()
        })]

        #[test]
        fn files_may_say_anything(
            text in concat!(
                "((MemAvailable:|0::/|3:memory:/x|[0-9]{1,21})[ 0-9akB/.]{0,24}\n){0,4}",
                "|.{0,40}"
            ),
        ) {
            let names = ["proc/meminfo", "proc/self/cgroup", "proc/self/status",
                "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current",
                "sys/fs/cgroup/memory/x/memory.limit_in_bytes"];
            let files: Vec<_> = names.iter().map(|name| (*name, text.as_str())).collect();
            let (_folder, root) = root(&files);
            if let Some(found) = available(&root, FREE) {
                prop_assert!(found.bytes <= u64::MAX / 2, "{found:?}");
            }
        }
    }
}
