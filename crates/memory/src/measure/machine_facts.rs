// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machine properties needed before measuring.

use super::{Bench, Request, Start};
use crate::arena::Arena;
use crate::limits::limit;
use crate::stated::stated;
use crate::window::{Windows, core_ghz};
use crate::{MemoryError, Watch};
use linerate_hierarchy::os_view::Level;
use linerate_linux::{memory_limits, page_bytes};
use linerate_machine::Root;
use linerate_machine::core_clock::core_cycles_per_tick;
use linerate_machine::free_memory::{Limit, available};
use linerate_machine::topology::{CacheKind, Topology};
use linerate_record::memory::{Effort, PageKind};
use linerate_record::units::memory_size;
use std::path::Path;

/// Memory and caches as reported by the OS.
pub(super) struct MachineFacts {
    /// Cache line size in bytes.
    pub(super) line: usize,
    /// Huge page size in bytes; `None` if unsupported.
    pub(super) huge: Option<usize>,
    /// Data caches reported by the OS, or the reason why none are.
    pub(super) stated: Result<Vec<Level>, String>,
    /// Longest chain in bytes.
    pub(super) arena_bytes: usize,
    /// Reason for the arena size.
    pub(super) arena_reason: String,
    /// Memory allocation limit.
    limit: Limit,
}

/// Last-level cache size assumed if the OS reports none.
const USUAL_LAST_LEVEL: u64 = 32 << 20;

/// Line size assumed if the OS reports none; correct for nearly all current processors.
const USUAL_LINE: usize = 64;

impl MachineFacts {
    /// Reads the properties of `cpu` and chooses the arena size.
    ///
    /// # Errors
    /// Returns an error if there is too little memory.
    pub(super) fn gather(request: &Request, cpu: u32) -> Result<Self, MemoryError> {
        let root = Root::new(Path::new("/"));
        let stated = stated(cpu);
        let wanted = Wanted::for_effort(request.effort, last_level(&stated));
        let limit = limit(wanted.most, request.max_bytes, available(&root, memory_limits()))?;
        let is_enough = wanted.arena <= limit.bytes;
        let arena_reason = match is_enough {
            true => wanted.reason(largest(&stated).is_some()),
            false => limit.reason.clone(),
        };
        let arena_bytes = usize::try_from(wanted.arena.min(limit.bytes)).unwrap_or(usize::MAX);
        let huge = huge_bytes(&root);
        Ok(Self { line: line(cpu), huge, stated, arena_bytes, arena_reason, limit })
    }

    /// Returns the last-level cache size that the OS reports or, if it reports none, the assumed
    /// one.
    pub(super) fn last_level(&self) -> u64 {
        last_level(&self.stated)
    }

    pub(super) fn bench<'a>(
        &self,
        windows: Windows<'a>,
        request: &Request,
        start: &Start,
    ) -> Bench<'a> {
        Bench {
            windows,
            effort: request.effort,
            cpu: start.cpu,
            cpus: start.cpus.clone(),
            line: self.line,
            page: page_bytes(),
            huge: self.huge,
            limit: self.limit.clone(),
            core_ghz: core_cycles_per_tick().ok().and_then(|cycles| core_ghz(cycles.value)),
            seed: request.seed,
        }
    }

    /// Allocates the arena for the curves in pages of the requested kind. Without a request, uses
    /// huge pages if nearly all of the arena gets them, and small pages otherwise.
    pub(super) fn arena(
        &self,
        pages: Option<PageKind>,
        watch: &Watch<'_>,
    ) -> Result<Arena, MemoryError> {
        let wanted = pages.unwrap_or(match self.huge {
            Some(bytes) if bytes <= self.arena_bytes => PageKind::Huge,
            _ => PageKind::Base,
        });
        let arena = Arena::new(self.arena_bytes, wanted, watch.stop())?;
        let is_granted = arena.granted().is_some_and(|share| share >= ENOUGH);
        if wanted == PageKind::Base || pages.is_some() || is_granted {
            return Ok(arena);
        }
        // Both arenas together might exceed the available memory.
        drop(arena);
        Arena::new(self.arena_bytes, PageKind::Base, watch.stop())
    }
}

/// Huge page fraction above which the remaining small pages are negligible.
const ENOUGH: f64 = 0.9;

/// Allocation sizes before memory limits are applied.
struct Wanted {
    arena: u64,
    /// Ratio of arena size to last-level cache size; 0 if below 1.
    times: u64,
    /// Maximum bytes allocated at the same time.
    most: u64,
    /// Whether the size was limited by the time needed to touch more memory.
    is_cut: bool,
}

impl Wanted {
    /// Chooses a multiple of the last-level cache size, so that the memory plateau shows. The size
    /// is limited because touching memory takes 0.5 s per GiB, which cuts into measuring time above
    /// a few hundred MiB.
    fn for_effort(effort: Effort, last_level: u64) -> Self {
        let (times, least, most) = match effort {
            Effort::Quick => (2, 64 << 20, 256 << 20),
            Effort::Default => (4, 128 << 20, 512 << 20),
            Effort::Full => (8, 256 << 20, 2 << 30),
        };
        let enough = last_level.saturating_mul(times);
        let arena = enough.clamp(least, most);
        Self { arena, times: arena / last_level.max(1), most, is_cut: most < enough }
    }

    /// Returns the reason for the arena size. `is_stated` is whether the OS reports at least one
    /// cache.
    fn reason(&self, is_stated: bool) -> String {
        let times = self.times;
        match (self.is_cut, is_stated) {
            (true, _) => "touching more memory would exceed the time limit".to_owned(),
            (false, true) => format!("{times} times the last-level cache, enough to reach memory"),
            (false, false) => {
                let usual = memory_size(USUAL_LAST_LEVEL as f64);
                format!(
                    "{times} times an assumed last-level cache of {usual}: the OS reports no cache"
                )
            }
        }
    }
}

fn last_level(stated: &Result<Vec<Level>, String>) -> u64 {
    largest(stated).unwrap_or(USUAL_LAST_LEVEL)
}

/// Returns the size of the largest cache reported by the OS.
fn largest(stated: &Result<Vec<Level>, String>) -> Option<u64> {
    let levels = stated.iter().flatten();
    let bytes = levels.filter_map(|level| level.bytes.as_ref().ok().copied());
    bytes.max().filter(|bytes| *bytes > 0)
}

/// Returns the longest line size among the data caches. A chain with this stride touches each line
/// of every cache once.
fn line(cpu: u32) -> usize {
    let topology = Topology::read(&[cpu]);
    let caches = topology.cpus.iter().filter_map(|cpu| cpu.caches.as_ref().ok()).flatten();
    let caches = caches.filter(|cache| cache.kind != CacheKind::Instruction);
    let lines = caches.filter_map(|cache| cache.line_bytes.as_ref().ok());
    let lines = lines.filter_map(|bytes| usize::try_from(*bytes).ok());
    let is_line = |bytes: &usize| (16..=1024).contains(bytes) && bytes.is_power_of_two();
    lines.filter(is_line).max().unwrap_or(USUAL_LINE)
}

/// Returns the size of the huge pages that the OS provides on request; `None` if unsupported.
fn huge_bytes(root: &Root) -> Option<usize> {
    const FOLDER: &str = "sys/kernel/mm/transparent_hugepage";
    let choice = root.text(&format!("{FOLDER}/enabled"))?;
    let bytes: usize = root.number(&format!("{FOLDER}/hpage_pmd_size"))?;
    (!choice.contains("[never]") && bytes.is_power_of_two()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn an_arena_is_some_times_the_last_cache_within_bounds() {
        for (effort, last_mib, arena_mib, times) in [
            (Effort::Quick, 1, 64, 64),
            (Effort::Quick, 32, 64, 2),
            (Effort::Default, 32, 128, 4),
            (Effort::Default, 96, 384, 4),
            (Effort::Default, 504, 512, 1),
            (Effort::Full, 32, 256, 8),
            (Effort::Full, 504, 2048, 4),
        ] {
            let wanted = Wanted::for_effort(effort, last_mib << 20);
            assert_eq!((wanted.arena >> 20, wanted.times), (arena_mib, times), "{effort:?}");
            assert!(wanted.arena <= wanted.most);
        }
    }

    #[test]
    fn an_arena_limited_by_time_is_not_called_sufficient() {
        let reason = |last_mib: u64, is_stated| {
            Wanted::for_effort(Effort::Default, last_mib << 20).reason(is_stated)
        };
        assert_eq!(reason(128, true), "4 times the last-level cache, enough to reach memory");
        assert_eq!(reason(129, true), "touching more memory would exceed the time limit");
        assert_eq!(
            reason(32, false),
            "4 times an assumed last-level cache of 32 MiB: the OS reports no cache"
        );
    }

    #[test]
    fn the_last_level_is_the_largest_that_is_stated() {
        let level = |level, bytes| Level { level, bytes, shared_by: 1 };
        let stated = Ok(vec![
            level(1, Ok(32 << 10)),
            level(2, Err("no such file".to_owned())),
            level(3, Ok(8 << 20)),
        ]);
        assert_eq!(last_level(&stated), 8 << 20);
        assert_eq!(last_level(&Ok(vec![])), USUAL_LAST_LEVEL);
        assert_eq!(last_level(&Err("no".to_owned())), USUAL_LAST_LEVEL);
    }

    #[test]
    fn huge_pages_are_there_unless_switched_off() {
        for (choice, bytes, expected) in [
            ("always [madvise] never", "2097152", Some(2 << 20)),
            ("[always] madvise never", "33554432", Some(32 << 20)),
            ("always madvise [never]", "2097152", None),
            ("always [madvise] never", "many", None),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("sys/kernel/mm/transparent_hugepage");
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("enabled"), choice).unwrap();
            fs::write(path.join("hpage_pmd_size"), bytes).unwrap();
            assert_eq!(huge_bytes(&Root::new(folder.path())), expected, "{choice} {bytes}");
        }
        let none = tempfile::tempdir().unwrap();
        assert_eq!(huge_bytes(&Root::new(none.path())), None);
    }

    #[test]
    fn the_line_of_this_machine_is_one_that_there_is() {
        let cpu = linerate_linux::allowed_cpus().unwrap()[0];
        assert!(line(cpu).is_power_of_two() && line(cpu) >= 16);
        assert_eq!(line(60_000), USUAL_LINE);
    }
}
