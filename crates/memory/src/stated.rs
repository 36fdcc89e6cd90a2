// SPDX-License-Identifier: MIT OR Apache-2.0
//! Caches as reported by the OS, for `hierarchy` to compare with the measured levels.

use linerate_hierarchy::os_view::Level;
use linerate_machine::topology::{Cache, CacheKind, Topology};

/// Returns the data caches, nearest first.
///
/// # Errors
/// Returns why the OS reports none.
pub(crate) fn stated(cpu: u32) -> Result<Vec<Level>, String> {
    let topology = Topology::read(&[cpu]);
    match topology.cpus.first().map(|cpu| &cpu.caches) {
        Some(Ok(caches)) => Ok(levels(caches)),
        Some(Err(error)) => Err(error.to_string()),
        None => Err(format!("the OS does not list CPU {cpu}")),
    }
}

fn levels(caches: &[Cache]) -> Vec<Level> {
    let for_data = caches.iter().filter(|cache| cache.kind != CacheKind::Instruction);
    let level = |cache: &Cache| Level {
        level: cache.level,
        bytes: cache.bytes.as_ref().copied().map_err(ToString::to_string),
        shared_by: cache.shared_by.as_ref().map_or(0, Vec::len),
    };
    let mut levels: Vec<Level> = for_data.map(level).collect();
    levels.sort_by_key(|level| level.level);
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_read() {
        let cpu = linerate_linux::current_cpu().unwrap();
        match stated(cpu) {
            Ok(levels) => assert!(levels.windows(2).all(|pair| pair[0].level <= pair[1].level)),
            Err(reason) => assert!(!reason.is_empty()),
        }
        assert!(stated(99_999).is_err());
    }
}
