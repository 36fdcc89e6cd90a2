// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classifies memory addresses by the mappings of their process.

use crate::sampler::accesses::{Access, Memory};
use crate::sampler::maps::{Mapping, parse_all};
use linerate_record::profile::MemoryKind;
use std::collections::BTreeMap;

/// Maximum number of processes whose mappings are read.
const MAX_PROCESSES: usize = 16;
/// Interval between readings, in slices.
const EVERY: u32 = 10;

/// Mappings of the sampled processes.
#[derive(Default)]
pub(super) struct Regions {
    processes: BTreeMap<u32, Vec<Region>>,
}

struct Region {
    start: u64,
    end: u64,
    kind: MemoryKind,
}

impl Regions {
    /// Rereads the mappings every [`EVERY`] slices. Keeps the mappings of processes that have
    /// exited.
    pub(super) fn read(&mut self, slice: u32, pids: impl Iterator<Item = u32>) {
        if !slice.is_multiple_of(EVERY) && slice != 1 {
            return;
        }
        for pid in pids.take(MAX_PROCESSES) {
            let text = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
            let regions = regions(&String::from_utf8_lossy(&text));
            if !regions.is_empty() {
                self.processes.insert(pid, regions);
            }
        }
    }

    /// Returns the kind of memory that is accessed.
    pub(super) fn kind(&self, access: &Access) -> MemoryKind {
        let Memory::Process(pid) = access.memory else { return MemoryKind::Shared };
        let Some(regions) = self.processes.get(&pid) else { return MemoryKind::Unknown };
        let behind = regions.partition_point(|region| region.start <= access.at);
        let found = regions[..behind].last().filter(|region| access.at < region.end);
        found.map_or(MemoryKind::Unknown, |region| region.kind)
    }
}

fn regions(text: &str) -> Vec<Region> {
    let mut regions: Vec<Region> = Vec::new();
    for (mapping, is_shared) in parse_all(text) {
        let mut kind = kind(&mapping, is_shared);
        // Zero-initialized global variables (.bss) follow the initialized ones in an anonymous
        // mapping.
        let before = regions.last().filter(|before| before.end == mapping.start);
        if kind == MemoryKind::Anonymous
            && before.is_some_and(|one| one.kind == MemoryKind::Globals)
        {
            kind = MemoryKind::Globals;
        }
        regions.push(Region { start: mapping.start, end: mapping.end, kind });
    }
    regions
}

/// Classifies a mapping by its name: the names in proc_pid_maps(5), and those that DPDK and VPP
/// give to their hugepage files.
fn kind(mapping: &Mapping, is_shared: bool) -> MemoryKind {
    let path = mapping.path.as_str();
    let contains = |parts: &[&str]| parts.iter().any(|part| path.contains(part));
    if contains(&["hugepage", "hugetlb", "/rtemap_", "/dev/huge"]) {
        return MemoryKind::HugePages;
    }
    if contains(&["socket:[", "[io_uring]"]) {
        return MemoryKind::KernelRing;
    }
    match path {
        "[heap]" => MemoryKind::Heap,
        _ if path.starts_with("[stack") => MemoryKind::Stack,
        _ if is_shared => MemoryKind::Shared,
        "" => MemoryKind::Anonymous,
        _ if path.starts_with("[anon") => MemoryKind::Anonymous,
        _ if mapping.inode == 0 => MemoryKind::Unknown,
        _ if contains(&["/lib", "/bin/"]) || mapping.offset < (64 << 20) => MemoryKind::Globals,
        _ => MemoryKind::File,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0c0a00000-55d0c0a02000 r--p 00000000 fd:00 131 /usr/bin/router
55d0c0a02000-55d0c0a06000 rw-p 00002000 fd:00 131 /usr/bin/router
55d0c0a06000-55d0c0b00000 rw-p 00000000 00:00 0 
55d0c1000000-55d0c1021000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000200000 rw-s 00000000 00:2f 99 /dev/hugepages/rtemap_0
7f1000000000-7f1000010000 rw-s 00000000 00:08 88 socket:[4711]
7f2000000000-7f2000010000 rw-p 00000000 00:00 0 
7f3000000000-7f3000010000 rw-s 00000000 00:01 77 /dev/shm/ring
7ffd1c1f2000-7ffd1c214000 rw-p 00000000 00:00 0 [stack]
";

    #[test]
    fn memory_is_distinguished_by_its_mapping() {
        let processes = BTreeMap::from([(1, regions(MAPS))]);
        let regions = Regions { processes };
        let kind = |at| {
            let memory = Memory::Process(1);
            regions.kind(&Access { memory, at, bytes: 8, is_write: false, spot: 0 })
        };
        for (at, expected) in [
            (0x55d0_c0a0_3000, MemoryKind::Globals),
            (0x55d0_c0a0_7000, MemoryKind::Globals),
            (0x55d0_c100_0000, MemoryKind::Heap),
            (0x7f00_0010_0000, MemoryKind::HugePages),
            (0x7f10_0000_0000, MemoryKind::KernelRing),
            (0x7f20_0000_0000, MemoryKind::Anonymous),
            (0x7f30_0000_0000, MemoryKind::Shared),
            (0x7ffd_1c20_0000, MemoryKind::Stack),
            (0x1000, MemoryKind::Unknown),
        ] {
            assert_eq!(kind(at), expected, "{at:#x}");
        }
    }
}
