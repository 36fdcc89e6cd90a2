// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long the longest chain may be, and why not longer.

use crate::MemoryError;
use linerate_linux::MemoryLimits;
use linerate_machine::Root;
use linerate_machine::free_memory::{Limit, available};

/// Less than this tells nothing: it fits the second level of most caches.
pub const LEAST_BYTES: u64 = 256 << 10;

/// How much of the `wanted` bytes may be taken, in whole pages of 4 KiB: no more than `max`, where
/// the user gave one, and no more than the machine and the limits `own` leave.
///
/// # Errors
/// It would be less than [`LEAST_BYTES`].
pub fn limit(
    root: &Root,
    own: MemoryLimits,
    wanted: u64,
    max: Option<u64>,
) -> Result<Limit, MemoryError> {
    let wanted = Limit::new(wanted, "more would tell no more");
    let given = max.map(|bytes| Limit::new(bytes, "no more was allowed (--max)"));
    let others = given.into_iter().chain(available(root, own));
    let Limit { bytes, reason } = others.fold(wanted, Limit::or_less);
    let bytes = bytes / 4096 * 4096;
    match bytes >= LEAST_BYTES {
        true => Ok(Limit { bytes, reason }),
        false => Err(MemoryError::TooLittle { bytes, least: LEAST_BYTES, reason }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn as_much_as_is_wanted_where_there_is_room() {
        let (_folder, root) = root(&[MEMINFO]);
        let limit = limit(&root, FREE, GIB, None).unwrap();
        assert_eq!(limit, Limit { bytes: GIB, reason: "more would tell no more".to_owned() });
    }

    #[test]
    fn no_more_than_half_of_what_is_free() {
        let (_folder, root) = root(&[MEMINFO]);
        let found = limit(&root, FREE, 64 * GIB, None).unwrap();
        assert_eq!(found.bytes, 4 * GIB);
        assert!(found.reason.contains("half of the memory that is free"), "{found:?}");
    }

    #[test]
    fn hostile_requests_are_cut_or_refused() {
        let (_folder, root) = root(&[MEMINFO]);
        for max in [u64::MAX, 1 << 63, 1 << 40] {
            assert_eq!(limit(&root, FREE, u64::MAX, Some(max)).unwrap().bytes, 4 * GIB);
        }
        assert_eq!(
            limit(&root, FREE, GIB, Some(1_000_001)).unwrap().bytes,
            1_000_001 / 4096 * 4096
        );
        for max in [0, 1, LEAST_BYTES - 1] {
            let error = limit(&root, FREE, GIB, Some(max)).unwrap_err();
            assert!(matches!(error, MemoryError::TooLittle { .. }), "{error:?}");
            assert!(error.to_string().contains("--max"), "{error}");
        }
        assert_eq!(limit(&root, FREE, GIB, Some(LEAST_BYTES)).unwrap().bytes, LEAST_BYTES);
    }

    #[test]
    fn a_group_that_is_full_is_refused() {
        let (_folder, root) = root(&[
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/memory.max", "1048576\n"),
            ("sys/fs/cgroup/memory.current", "2097152\n"),
        ]);
        let error = limit(&root, FREE, GIB, None).unwrap_err();
        assert!(error.to_string().contains("control group"), "{error}");
    }

    #[test]
    fn this_machine_has_room() {
        let here = Root::new(Path::new("/"));
        let found = limit(&here, linerate_linux::memory_limits(), 1 << 20, None).unwrap();
        assert_eq!(found.bytes, 1 << 20);
    }
}
