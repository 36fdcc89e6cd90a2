// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which of several CPUs share a cache, and how much memory leaves the caches of all of them.

use linerate_machine::topology::{Cache, CacheKind, Topology};
use linerate_record::memory::MemoryLevel;

/// Ratio of a working set to the size of a cache above which its loads hardly ever hit the cache.
const BEYOND_ONE: f64 = 2.0;

/// Ratio of a working set to the total size of all caches above which its loads hardly ever hit any
/// cache. The sizes are added because an L3 that takes what L2 evicts holds other lines than L2.
const BEYOND_ALL: f64 = 1.5;

/// How many of the measuring CPUs share one cache of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sharers {
    /// Number of CPUs that share the cache with the most sharers. The working sets of all of them
    /// must fit in it together.
    pub(super) most: usize,
    /// Number of CPUs that share the least-shared cache. Each of them gets more of its cache than
    /// the other CPUs of theirs.
    pub(super) fewest: usize,
}

/// Returns the number of sharers of each level's caches among `cpus`, as reported by the OS. If the
/// OS reports no caches of a level beyond L2, each may be private or shared by all CPUs.
pub(super) fn sharers(topology: &Topology, cpus: &[u32], levels: &[MemoryLevel]) -> Vec<Sharers> {
    let of_level = |level: &MemoryLevel| {
        let groups = groups(topology, cpus, number(level));
        let sizes = groups.iter().map(Vec::len);
        let (most, fewest) = (sizes.clone().max().unwrap_or(1), sizes.min().unwrap_or(1));
        let is_reported = !reported(topology, number(level)).is_empty();
        let is_private = matches!(number(level), Some(1 | 2));
        Sharers { most: if is_reported || is_private { most } else { cpus.len().max(1) }, fewest }
    };
    levels.iter().map(of_level).collect()
}

/// Returns the bytes that each of several threads must sweep so that its loads come from memory.
/// `parts` holds the size of the largest part of a cache that a thread may get, by level.
pub(super) fn beyond_parts(parts: &[f64]) -> f64 {
    let last = parts.last().copied().unwrap_or(0.0);
    (BEYOND_ONE * last).max(BEYOND_ALL * parts.iter().sum::<f64>())
}

/// Returns the number of bytes that `cpus` must take turns reading, each byte read by one of them,
/// so that their loads come from memory: more than all of their caches hold.
pub(super) fn beyond_caches_of(topology: &Topology, cpus: &[u32], levels: &[MemoryLevel]) -> f64 {
    let of_level = |level: &MemoryLevel| {
        let caches = groups(topology, cpus, number(level)).len();
        Some(level.size_bytes.as_number()? * caches as f64)
    };
    beyond_parts(&levels.iter().filter_map(of_level).collect::<Vec<f64>>())
}

/// Returns the number of a measured cache level, e.g. 3 for `L3`; `None` if it is or may be memory.
fn number(level: &MemoryLevel) -> Option<u32> {
    level.name.strip_prefix('L')?.parse().ok()
}

/// Returns the CPUs that share each cache of level `number`, once per CPU, as reported by the OS.
fn reported(topology: &Topology, number: Option<u32>) -> Vec<&Vec<u32>> {
    let is_data =
        |cache: &&Cache| Some(cache.level) == number && cache.kind != CacheKind::Instruction;
    let caches = topology.cpus.iter().filter_map(|cpu| cpu.caches.as_ref().ok());
    let shared = caches.flatten().filter(is_data).map(|cache| cache.shared_by.as_ref().ok());
    shared.flatten().collect()
}

/// Groups `cpus` by the cache of level `number` that they share. A CPU for which the OS reports no
/// such cache is assumed to have its own.
fn groups(topology: &Topology, cpus: &[u32], number: Option<u32>) -> Vec<Vec<u32>> {
    let reported = reported(topology, number);
    let group = |cpu: &u32| {
        let shared = reported.iter().find(|shared| shared.contains(cpu));
        let among = |cpus: &&u32| shared.map_or(*cpus == cpu, |shared| shared.contains(cpus));
        cpus.iter().filter(among).copied().collect()
    };
    let mut groups: Vec<Vec<u32>> = cpus.iter().map(group).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::parallel::tests::level;
    use linerate_machine::topology::Cpu;

    const MIB: f64 = 1024.0 * 1024.0;

    /// A machine whose CPUs have an L1 and an L2 each; each of `l3` is the CPUs of one L3.
    pub(in super::super) fn machine(l3: &[std::ops::Range<u32>]) -> Topology {
        let cache = |level, shared_by: Vec<u32>| Cache {
            level,
            kind: if level == 1 { CacheKind::Data } else { CacheKind::Unified },
            bytes: Ok(1),
            line_bytes: Ok(64),
            ways: Ok(8),
            shared_by: Ok(shared_by),
        };
        let code = |cpu| Cache { kind: CacheKind::Instruction, ..cache(1, vec![cpu]) };
        let cpu = |group: &std::ops::Range<u32>, number| Cpu {
            number,
            core: Ok(number),
            package: Ok(0),
            siblings: Ok(vec![number]),
            caches: Ok(vec![
                code(number),
                cache(1, vec![number]),
                cache(2, vec![number]),
                cache(3, group.clone().collect()),
            ]),
        };
        let of_group = |group: &std::ops::Range<u32>| {
            group.clone().map(|number| cpu(group, number)).collect::<Vec<_>>()
        };
        Topology { cpus: l3.iter().flat_map(of_group).collect() }
    }

    pub(in super::super) fn levels(mib: &[(&str, Option<f64>)]) -> Vec<MemoryLevel> {
        mib.iter().map(|(name, mib)| level(name, mib.map(|mib| mib * MIB))).collect()
    }

    fn epyc() -> Vec<MemoryLevel> {
        levels(&[("L1", Some(0.03)), ("L2", Some(1.0)), ("L3", Some(32.0)), ("memory", None)])
    }

    fn of(most: usize, fewest: usize) -> Sharers {
        Sharers { most, fewest }
    }

    /// Nine CPUs, eight of which share one L3.
    #[test]
    fn the_cpu_that_has_a_cache_for_itself_counts_too() {
        let (machine, cpus) = (machine(&[0..8, 8..16]), (0..9).collect::<Vec<u32>>());
        let found = sharers(&machine, &cpus, &epyc());
        assert_eq!(found, [of(1, 1), of(1, 1), of(8, 1), of(9, 1)]);
    }

    /// The level after L1 is L3, because L2 was withdrawn.
    #[test]
    fn sharers_go_by_the_name_of_the_level() {
        let (machine, cpus) = (machine(&[0..8, 8..16]), (0..8).collect::<Vec<u32>>());
        let levels = [epyc()[0].clone(), epyc()[2].clone(), epyc()[3].clone()];
        assert_eq!(sharers(&machine, &cpus, &levels)[1], of(8, 8));
    }

    /// If the OS reports no L3, a thread may have all of one, or all threads may share one.
    #[test]
    fn what_the_os_does_not_report_is_assumed_both_ways() {
        let (machine, cpus) = (Topology { cpus: Vec::new() }, [0, 1, 2, 3]);
        let found = sharers(&machine, &cpus, &epyc());
        assert_eq!(found[..3], [of(1, 1), of(1, 1), of(4, 1)]);
        let four = beyond_caches_of(&machine, &cpus, &epyc()) / MIB;
        assert_eq!(four, 4.0 * 32.0 * 2.0);
    }

    #[test]
    fn readers_need_more_than_the_caches_of_all_of_them_hold() {
        let machine = machine(&[0..8, 8..16, 16..24]);
        let beyond = |cpus: std::ops::Range<u32>| {
            beyond_caches_of(&machine, &cpus.collect::<Vec<u32>>(), &epyc()) / MIB
        };
        assert_eq!(beyond(1..8), 64.0);
        assert_eq!(beyond(1..9), 128.0, "a second L3");
        assert_eq!(beyond(1..24), 192.0);
        // Together, L2 and a small L3 hold more than either does.
        let victim = levels(&[("L2", Some(2.0)), ("L3", Some(8.0)), ("memory", None)]);
        let cpus: Vec<u32> = (0..8).collect();
        assert_eq!(beyond_caches_of(&machine, &cpus, &victim) / MIB, 36.0);
    }
}
