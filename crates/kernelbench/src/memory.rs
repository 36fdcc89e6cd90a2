// SPDX-License-Identifier: MIT OR Apache-2.0
//! The octets the routines work on: two areas, each in huge pages where the system gives them,
//! every page touched before anything is timed.

use linerate_linux::advise_huge_pages;
use linerate_machine::topology::Topology;
use std::fs;
use std::hint::black_box;
use std::ops::Range;

/// What areas are aligned to: a huge page of x86 and of most others.
const HUGE_PAGE_OCTETS: usize = 2 << 20;

/// How far behind a multiple of 4096 the destinations begin when sources begin at one. Source and
/// destination of up to as many octets then differ in the last 12 bits of all addresses: loads that
/// agree with an earlier store in these wait for it on many processors.
const SKEW_OCTETS: usize = 2_112;

/// Octets beside those that hold buffers: the skew, and what is read in front and behind.
const MARGIN_OCTETS: usize = 4_096;

/// Length of a cache line. Lines of 128 octets are touched twice then.
pub(crate) const LINE_OCTETS: usize = 64;

/// A range of memory that begins at a multiple of [`HUGE_PAGE_OCTETS`], `skew` aside.
struct Area {
    octets: Vec<u8>,
    start: usize,
}

impl Area {
    fn new(octets: usize, skew: usize) -> Self {
        let mut all = vec![0; octets + MARGIN_OCTETS + HUGE_PAGE_OCTETS];
        advise_huge_pages(all.as_mut_ptr(), all.len());
        let start = all.as_ptr().align_offset(HUGE_PAGE_OCTETS) + skew;
        Self { octets: all, start }
    }

    fn get(&self) -> &[u8] {
        &self.octets[self.start..]
    }

    fn get_mut(&mut self) -> &mut [u8] {
        &mut self.octets[self.start..]
    }
}

/// A source and a destination area of the same size.
pub(crate) struct Memory {
    source: Area,
    destination: Area,
}

impl Memory {
    /// Two areas of so many octets, the source filled at random by seed.
    pub(crate) fn new(octets: usize, seed: u64) -> Self {
        let mut source = Area::new(octets, 0);
        let mut destination = Area::new(octets, SKEW_OCTETS);
        fastrand::Rng::with_seed(seed).fill(source.get_mut());
        destination.get_mut().fill(0x5a);
        Self { source, destination }
    }

    /// Both areas, from their aligned start on.
    pub(crate) fn both(&mut self) -> (&mut [u8], &mut [u8]) {
        (self.destination.get_mut(), self.source.get_mut())
    }

    /// Reads every line of a range of the areas asked for, so that what was in the caches makes
    /// room for it.
    pub(crate) fn read_lines(&self, range: Range<usize>, source: bool, destination: bool) {
        let wanted = [(source, &self.source), (destination, &self.destination)];
        for (_, area) in wanted.iter().filter(|(wanted, _)| *wanted) {
            let lines = area.get()[range.clone()].iter().step_by(LINE_OCTETS);
            black_box(lines.fold(0_u8, |all, octet| all ^ octet));
        }
    }
}

/// Octets to walk through so that what was touched at first has left every cache of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// Octets of each area.
    pub(crate) octets: usize,
    /// The size of its last-level cache, where the system tells.
    pub(crate) cache_octets: Option<u64>,
}

impl Footprint {
    /// Never less, for processors that tell of no cache, and for caches of the host's that a guest
    /// is not told of.
    const LEAST: u64 = 64 << 20;

    /// The share of the memory available that the two areas may take.
    const SHARE: u64 = 4;

    /// The footprint for a processor of this machine.
    pub(crate) fn of(cpu: u32) -> Self {
        let topology = Topology::read(&[cpu]);
        let caches = topology.cpus.first().and_then(|cpu| cpu.caches.as_ref().ok());
        let caches = caches.into_iter().flatten().filter(|cache| cache.level >= 2);
        let last = caches.max_by_key(|cache| cache.level);
        let cache_octets = last.and_then(|cache| cache.octets.as_ref().ok()).copied();
        let memory = fs::read_to_string("/proc/meminfo").ok();
        Self::from(cache_octets, memory.as_deref().and_then(available_octets))
    }

    fn from(cache_octets: Option<u64>, available: Option<u64>) -> Self {
        let wanted = cache_octets.map_or(0, |octets| 2 * octets).max(Self::LEAST);
        let most = available.map_or(u64::MAX, |octets| octets / Self::SHARE / 2);
        Self { octets: wanted.min(most) as usize, cache_octets }
    }

    /// Whether it is twice what is known of the caches.
    pub(crate) fn is_enough(&self) -> bool {
        self.octets as u64 >= self.cache_octets.map_or(Self::LEAST, |cache| 2 * cache)
    }
}

/// `MemAvailable` of /proc/meminfo, which counts in units of 1024 octets.
fn available_octets(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_begin_where_they_say_and_hold_what_was_asked_for() {
        let mut memory = Memory::new(100_000, 1);
        memory.read_lines(0..100_000, true, true);
        let (destination, source) = memory.both();
        assert_eq!(source.as_ptr() as usize % HUGE_PAGE_OCTETS, 0);
        assert_eq!(destination.as_ptr() as usize % HUGE_PAGE_OCTETS, SKEW_OCTETS);
        assert!(source.len() >= 100_000 && destination.len() >= 100_000);
        assert_eq!(SKEW_OCTETS % LINE_OCTETS, 0);
    }

    #[test]
    fn the_seed_decides_the_octets() {
        let first = |seed| Memory::new(64, seed).both().1[..64].to_vec();
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }

    #[test]
    fn the_footprint_is_twice_the_cache_if_memory_allows() {
        const MIB: u64 = 1 << 20;
        let octets = |cache, available| Footprint::from(cache, available).octets as u64 / MIB;
        assert_eq!(octets(Some(32 * MIB), Some(100_000 * MIB)), 64);
        assert_eq!(octets(Some(100 * MIB), Some(100_000 * MIB)), 200);
        assert_eq!(octets(None, None), 64);
        assert_eq!(octets(Some(MIB), None), 64);
        assert_eq!(octets(Some(100 * MIB), Some(800 * MIB)), 100);
        assert!(Footprint::from(None, None).is_enough());
        assert!(!Footprint::from(Some(100 * MIB), Some(800 * MIB)).is_enough());
        assert!(!Footprint::from(None, Some(MIB)).is_enough());
    }

    #[test]
    fn memory_available_as_the_kernel_prints_it() {
        let text = "MemTotal:  8 kB\nMemFree: 1 kB\nMemAvailable:    6104308 kB\n";
        assert_eq!(available_octets(text), Some(6_104_308 * 1024));
        for bad in
            ["", "MemAvailable: x kB", "MemAvailable: 12", "MemAvailable: 99999999999999999999 kB"]
        {
            assert_eq!(available_octets(bad), None, "{bad}");
        }
    }
}
