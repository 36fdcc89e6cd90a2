// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory for the routines: two areas for which huge pages are requested. Every page is touched
//! before timing, and the page size actually granted is queried and reported.

use linerate_linux::{MemoryLimits, advise_huge_pages, memory_limits};
use linerate_machine::Root;
use linerate_machine::free_memory::available;
use linerate_machine::topology::Topology;
use linerate_record::kernels::HugePages;
use std::fs;
use std::hint::black_box;
use std::ops::Range;
use std::path::Path;

/// Area alignment: the huge page size on x86 and most other architectures.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Number of values that an address's low 12 bits can take. On many processors, a load that matches
/// an earlier store in these address bits waits for it (4K aliasing).
pub(crate) const PAGE_BYTES: usize = 4_096;

/// Page offset of destinations when sources begin at a multiple of [`PAGE_BYTES`]: half a page and
/// a line. Source and destination of up to 1920 bytes then share no page offset, at any alignment
/// within their lines. From 2049 bytes on, sharing some is unavoidable.
pub(crate) const SKEW_BYTES: usize = 2_112;

/// Extra bytes around the buffers: up to a page to reach the required page offset, and the bytes
/// read before and after the buffers.
const MARGIN_BYTES: usize = 2 * PAGE_BYTES;

/// Cache line length. On machines with 128-byte lines, each line is touched twice.
pub(crate) const LINE_BYTES: usize = 64;

/// A huge-page-aligned area within a larger allocation. The buffer starts `skew` bytes into the
/// area.
struct Area {
    bytes: Vec<u8>,
    places: Range<usize>,
    skew: usize,
    /// Result of requesting huge pages with madvise(2); the error is a sentence.
    advised: Result<(), String>,
}

impl Area {
    fn new(bytes: usize, skew: usize) -> Self {
        let length = (bytes + MARGIN_BYTES).next_multiple_of(HUGE_PAGE_BYTES);
        // Fresh memory is zeroed by the kernel and not backed by pages of any size until filled.
        let mut all = vec![0; length + HUGE_PAGE_BYTES];
        let first = all.as_ptr().align_offset(HUGE_PAGE_BYTES);
        let places = first..first + length;
        let advised = advise_huge_pages(all[places.clone()].as_mut_ptr(), length);
        Self { bytes: all, places, skew, advised: advised.map_err(|error| error.to_string()) }
    }

    fn get(&self) -> &[u8] {
        &self.bytes[self.places.clone()][self.skew..]
    }

    fn get_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.places.clone()][self.skew..]
    }

    /// Returns the area's address range.
    fn addresses(&self) -> Range<usize> {
        let start = self.bytes.as_ptr() as usize;
        start + self.places.start..start + self.places.end
    }
}

/// A source and a destination area of the same size.
pub(crate) struct Memory {
    source: Area,
    destination: Area,
}

impl Memory {
    /// Allocates two areas of `bytes` bytes and fills the source with seeded random bytes.
    pub(crate) fn new(bytes: usize, seed: u64) -> Self {
        let mut source = Area::new(bytes, 0);
        let mut destination = Area::new(bytes, SKEW_BYTES);
        fastrand::Rng::with_seed(seed).fill(source.get_mut());
        destination.get_mut().fill(0x5a);
        Self { source, destination }
    }

    /// Returns the destination buffer and the source buffer.
    pub(crate) fn both(&mut self) -> (&mut [u8], &mut [u8]) {
        (self.destination.get_mut(), self.source.get_mut())
    }

    /// Returns whether huge pages were granted for the areas, and what fraction of the areas they
    /// back.
    pub(crate) fn huge_pages(&self) -> HugePages {
        let areas = [&self.source, &self.destination];
        let refused = areas.iter().find_map(|area| area.advised.clone().err());
        let granted = fs::read_to_string("/proc/self/smaps")
            .map_err(|error| format!("/proc/self/smaps: {error}"))
            .and_then(|smaps| {
                huge_share(&smaps, &areas.map(Area::addresses))
                    .ok_or_else(|| "/proc/self/smaps does not report huge pages".to_owned())
            });
        HugePages {
            advised: refused.is_none(),
            granted: granted.as_ref().ok().copied(),
            reason: refused.or(granted.err()),
        }
    }

    /// Reads every cache line of the given areas that is in `range`, to evict earlier contents
    /// from the caches.
    pub(crate) fn read_lines(&self, range: Range<usize>, source: bool, destination: bool) {
        let wanted = [(source, &self.source), (destination, &self.destination)];
        for (_, area) in wanted.iter().filter(|(wanted, _)| *wanted) {
            let lines = area.get()[range.clone()].iter().step_by(LINE_BYTES);
            black_box(lines.fold(0_u8, |all, byte| all ^ byte));
        }
    }
}

/// Memory to walk in order to evict earlier contents from all of a CPU's caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// Size of each area in bytes.
    pub(crate) bytes: usize,
    /// Last-level cache size in bytes, if the OS reports it.
    pub(crate) cache_bytes: Option<u64>,
}

impl Footprint {
    /// Minimum size in bytes, for processors that report no cache, and for host caches hidden from
    /// a guest.
    const LEAST: u64 = 64 << 20;

    /// Divisor for the memory that this process may allocate: the two areas together take at most
    /// one part in `SHARE`.
    const SHARE: u64 = 2;

    /// Returns the footprint for one of this machine's CPUs, within the limits of this process and
    /// its control groups.
    pub(crate) fn for_cpu(cpu: u32) -> Self {
        Self::within(&Root::new(Path::new("/")), memory_limits(), cpu)
    }

    /// Like [`Footprint::for_cpu`], with the kernel's files in `root` and the process's own limits
    /// `own`.
    fn within(root: &Root, own: MemoryLimits, cpu: u32) -> Self {
        let topology = Topology::read(&[cpu]);
        let caches = topology.cpus.first().and_then(|cpu| cpu.caches.as_ref().ok());
        let caches = caches.into_iter().flatten().filter(|cache| cache.level >= 2);
        let last = caches.max_by_key(|cache| cache.level);
        let cache_bytes = last.and_then(|cache| cache.bytes.as_ref().ok()).copied();
        Self::from(cache_bytes, available(root, own).map(|limit| limit.bytes))
    }

    fn from(cache_bytes: Option<u64>, available: Option<u64>) -> Self {
        let wanted = cache_bytes.map_or(0, |bytes| 2 * bytes).max(Self::LEAST);
        let most = available.map_or(u64::MAX, |bytes| bytes / Self::SHARE / 2);
        Self { bytes: wanted.min(most) as usize, cache_bytes }
    }

    /// Returns whether the footprint is at least twice the size of the known caches.
    pub(crate) fn is_enough(&self) -> bool {
        self.bytes as u64 >= self.cache_bytes.map_or(Self::LEAST, |cache| 2 * cache)
    }
}

/// Returns the fraction of the address ranges backed by huge pages, from the text of
/// /proc/self/smaps. There, a mapping starts with a line that gives its addresses; a later line
/// gives the size of its huge pages. `None` if a range has no mapping that reports its huge pages.
/// If a mapping is larger than a range, all its huge pages count, up to the length of the range,
/// because no huge pages were requested for the rest of the mapping.
fn huge_share(smaps: &str, ranges: &[Range<usize>]) -> Option<f64> {
    let mut found = vec![None; ranges.len()];
    let mut inside = None;
    for line in smaps.lines() {
        if let Some(mapping) = addresses(line) {
            let meets =
                |range: &Range<usize>| range.start < mapping.end && mapping.start < range.end;
            inside = ranges.iter().position(meets);
        } else if let (Some(range), Some(bytes)) = (inside, kilobytes(line, "AnonHugePages:")) {
            *found[range].get_or_insert(0) += bytes;
        }
    }
    let all: u64 = ranges.iter().map(|range| range.len() as u64).sum();
    let huge = ranges.iter().zip(found).map(|(range, bytes)| Some(bytes?.min(range.len() as u64)));
    Some(huge.sum::<Option<u64>>()? as f64 / all as f64)
}

/// Parses the addresses at the start of a line in /proc/self/smaps: `7f0200-7f0400 rw-p ...`.
fn addresses(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some(number(start)?..number(end)?)
}

/// Returns the value in bytes of the line with this name, such as `AnonHugePages:  2048 kB`, which
/// is in KiB.
fn kilobytes(line: &str, name: &str) -> Option<u64> {
    let number = line.strip_prefix(name)?.trim().strip_suffix("kB")?;
    number.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_have_the_documented_offsets_and_sizes() {
        let mut memory = Memory::new(100_000, 1);
        memory.read_lines(0..100_000, true, true);
        let (destination, source) = memory.both();
        assert_eq!(source.as_ptr() as usize % HUGE_PAGE_BYTES, 0);
        assert_eq!(destination.as_ptr() as usize % HUGE_PAGE_BYTES, SKEW_BYTES);
        assert!(source.len() >= 100_000 && destination.len() >= 100_000);
        assert_eq!(SKEW_BYTES % LINE_BYTES, 0);
        // The distance suffices for any alignment of the two buffers within their cache lines.
        let between = SKEW_BYTES.min(PAGE_BYTES - SKEW_BYTES);
        assert!(between - LINE_BYTES >= 1920);
    }

    #[test]
    fn requests_huge_pages_and_reports_the_granted_share() {
        let pages = Memory::new(3 << 20, 1).huge_pages();
        assert!(pages.granted.is_none_or(|share| (0.0..=1.0).contains(&share)), "{pages:?}");
        assert_eq!(pages.reason.is_none(), pages.advised && pages.granted.is_some(), "{pages:?}");
        let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
        match setting {
            Ok(_) => assert!(pages.advised, "aligned ranges are taken: {pages:?}"),
            Err(error) => println!("SKIP: this kernel has no huge pages: {error}"),
        }
    }

    #[test]
    fn huge_pages_are_counted_in_the_mappings_of_the_areas() {
        const SMAPS: &str = "00200000-00600000 rw-p 00000000 00:00 0\nSize:  4096 kB\n\
                             AnonHugePages:      2048 kB\nVmFlags: rd wr\n\
                             00600000-00700000 rw-p 00000000 00:00 0 [heap]\n\
                             AnonHugePages:      8192 kB\n\
                             00a00000-00e00000 rw-p 00000000 00:00 0\nAnonHugePages: 4096 kB\n";
        let share = |ranges: &[(usize, usize)]| {
            let ranges: Vec<Range<usize>> = ranges.iter().map(|&(from, to)| from..to).collect();
            huge_share(SMAPS, &ranges)
        };
        assert_eq!(share(&[(0x20_0000, 0x60_0000)]), Some(0.5));
        assert_eq!(share(&[(0xa0_0000, 0xe0_0000)]), Some(1.0));
        assert_eq!(share(&[(0x20_0000, 0x60_0000), (0xa0_0000, 0xe0_0000)]), Some(0.75));
        assert_eq!(share(&[(0x20_0000, 0x60_0000), (0xf0_0000, 0xf1_0000)]), None);
    }

    #[test]
    fn the_seed_decides_the_bytes() {
        let first = |seed| Memory::new(64, seed).both().1[..64].to_vec();
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }

    #[test]
    fn the_footprint_is_twice_the_cache_if_memory_allows() {
        const MIB: u64 = 1 << 20;
        let bytes = |cache, available| Footprint::from(cache, available).bytes as u64 / MIB;
        assert_eq!(bytes(Some(32 * MIB), Some(100_000 * MIB)), 64);
        assert_eq!(bytes(Some(100 * MIB), Some(100_000 * MIB)), 200);
        assert_eq!(bytes(None, None), 64);
        assert_eq!(bytes(Some(MIB), None), 64);
        assert_eq!(bytes(Some(100 * MIB), Some(400 * MIB)), 100);
        assert!(Footprint::from(None, None).is_enough());
        assert!(!Footprint::from(Some(100 * MIB), Some(400 * MIB)).is_enough());
        assert!(!Footprint::from(None, Some(MIB)).is_enough());
    }

    /// Both areas take half of what `linerate memory` would: a quarter of the machine's free
    /// memory, or of what a container may still allocate.
    #[test]
    fn a_container_limits_the_footprint() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let free = MemoryLimits { address_space: None, data: None };
        let bytes = |own| Footprint::within(&Root::new(folder.path()), own, 0).bytes >> 20;
        write("proc/meminfo", "MemTotal: 999999 kB\nMemAvailable: 262144 kB\n");
        assert_eq!(bytes(free), 32);
        write("proc/self/cgroup", "0::/box\n");
        write("sys/fs/cgroup/box/memory.max", "134217728\n");
        write("sys/fs/cgroup/box/memory.current", "0\n");
        assert_eq!(bytes(free), 16);
        assert_eq!(bytes(MemoryLimits { data: Some(32 << 20), ..free }), 7);
    }
}
