// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cache sizes of this machine.

use linerate_machine::Root;
use linerate_record::profile::MachineLimits;

/// Reads the caches of the first CPU, as reported by the kernel.
pub(super) fn limits(root: &Root) -> MachineLimits {
    let mut limits = MachineLimits::default();
    for index in 0..8 {
        let text =
            |name| root.text(&format!("sys/devices/system/cpu/cpu0/cache/index{index}/{name}"));
        let size = text("size").and_then(|size| size.trim().strip_suffix('K')?.parse().ok());
        let bytes = size.map(|kib: u64| kib << 10);
        match (text("level").as_deref().map(str::trim), text("type").as_deref().map(str::trim)) {
            (Some("1"), Some("Data")) => limits.l1d_bytes = bytes,
            (Some("1"), Some("Instruction")) => limits.l1i_bytes = bytes,
            (Some("2"), _) => limits.l2_bytes = bytes,
            _ => {}
        }
        limits.last_level_bytes = limits.last_level_bytes.max(bytes);
    }
    limits
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
    }
}
