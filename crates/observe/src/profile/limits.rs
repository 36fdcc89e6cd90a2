// SPDX-License-Identifier: MIT OR Apache-2.0
//! Caches of this machine.

use linerate_machine::Root;
use linerate_record::profile::MachineLimits;
use std::collections::BTreeSet;

/// Reads the caches of the first CPU, as reported by the kernel, and how many last-level caches
/// there are.
pub(super) fn limits(root: &Root) -> MachineLimits {
    let mut limits = MachineLimits::default();
    let mut last_level = (0, 0);
    for index in 0..8 {
        let text = |name: &str| {
            let text = root.text(&format!("{CPUS}/cpu0/cache/index{index}/{name}"))?;
            Some(text.trim().to_owned())
        };
        let size = text("size").and_then(|size| size.strip_suffix('K')?.parse().ok());
        let Some(bytes) = size.map(|kib: u64| kib << 10) else { continue };
        let Some(level) = text("level").and_then(|level| level.parse::<u32>().ok()) else {
            continue;
        };
        match (level, text("type").as_deref()) {
            (1, Some("Data")) => limits.l1d_bytes = Some(bytes),
            (1, Some("Instruction")) => limits.l1i_bytes = Some(bytes),
            (2, _) => limits.l2_bytes = Some(bytes),
            _ => {}
        }
        if level >= last_level.0 {
            last_level = (level, index);
            limits.last_level_bytes = Some(bytes);
        }
    }
    limits.last_level_caches =
        limits.last_level_bytes.and_then(|_| last_level_caches(root, last_level.1));
    limits
}

const CPUS: &str = "sys/devices/system/cpu";

/// Returns the number of different caches that the online CPUs list at an index; `None` if one of
/// them does not say which CPUs share its cache.
fn last_level_caches(root: &Root, index: u32) -> Option<u32> {
    let cpus = root.cpu_list(&format!("{CPUS}/online"))?;
    let shared = |cpu: &u32| {
        root.text(&format!("{CPUS}/cpu{cpu}/cache/index{index}/shared_cpu_list"))
            .filter(|list| !list.trim().is_empty())
    };
    let caches = cpus.iter().map(shared).collect::<Option<BTreeSet<String>>>()?;
    Some(caches.len() as u32).filter(|caches| *caches > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_by_level_and_type() {
        let folder = tempfile::tempdir().unwrap();
        let caches = [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "1024K")];
        for (index, (level, kind, size)) in caches.iter().enumerate() {
            let at = folder.path().join(format!("sys/devices/system/cpu/cpu0/cache/index{index}"));
            std::fs::create_dir_all(&at).unwrap();
            for (name, value) in [("level", level), ("type", kind), ("size", size)] {
                std::fs::write(at.join(name), format!("{value}\n")).unwrap();
            }
        }
        let found = limits(&Root::new(folder.path()));
        assert_eq!((found.l1d_bytes, found.l1i_bytes), (Some(48 << 10), Some(32 << 10)));
        assert_eq!((found.l2_bytes, found.last_level_bytes), (Some(1 << 20), Some(1 << 20)));
        assert_eq!(found.last_level_caches, None);
    }

    #[test]
    fn last_level_caches_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let file = folder.path().join("sys/devices/system/cpu").join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, format!("{text}\n")).unwrap();
        };
        write("online", "0-3");
        for (cpu, shared) in ["0-1", "0-1", "2-3", "2-3"].iter().enumerate() {
            for (index, level, size, shared) in
                [(0, "1", "32K", cpu.to_string().as_str()), (3, "3", "32768K", shared)]
            {
                write(&format!("cpu{cpu}/cache/index{index}/level"), level);
                write(&format!("cpu{cpu}/cache/index{index}/size"), size);
                write(&format!("cpu{cpu}/cache/index{index}/shared_cpu_list"), shared);
            }
        }
        let found = limits(&Root::new(folder.path()));
        assert_eq!((found.last_level_bytes, found.last_level_caches), (Some(32 << 20), Some(2)));
    }
}
