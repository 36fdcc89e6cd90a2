// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory for the chains: one page size, all of it touched before timing.
//!
//! Left out: hugetlbfs pages, which must be reserved in advance, and NUMA nodes: memory is on the
//! node of the CPU that touches it.

use crate::MemoryError;
use linerate_linux::{Mapping, advise_huge_pages, advise_small_pages, page_bytes};
use linerate_machine::Root;
use linerate_record::memory::PageKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Alignment of an arena: the huge page size on x86-64, and on aarch64 and riscv64 with 4 KiB
/// pages.
const ALIGNMENT: usize = 2 << 20;

/// Step between pages touched in succession. It is odd, so that each page in a chunk (a power of
/// two) is visited once, and far from 0 in both directions, modulo the chunk.
const APART: usize = 197;

/// The memory in which to measure: aligned to 2 MiB, mapped and touched. It is unmapped on drop.
#[derive(Debug)]
pub struct Arena {
    mapping: Mapping,
    /// Offset of the first byte in use from the start of the mapping.
    offset: usize,
    bytes: usize,
    kind: PageKind,
    granted: Option<f64>,
}

impl Arena {
    /// Allocates `bytes` bytes, rounded up to whole small pages, in pages of `kind` if the system
    /// grants them, and touches all of them, which takes 0.2 to 2 s per GiB. For the maximum, see
    /// [`limits`](crate::limits).
    ///
    /// # Errors
    /// The kernel does not have that much memory, or `stop` was set meanwhile.
    pub fn new(bytes: usize, kind: PageKind, stop: &AtomicBool) -> Result<Self, MemoryError> {
        let page = page_bytes();
        let bytes = bytes.max(page).saturating_add(page - 1) / page * page;
        let mapping = Mapping::new(bytes.saturating_add(ALIGNMENT))?;
        let offset = mapping.start().align_offset(ALIGNMENT);
        let mut arena = Self { mapping, offset, bytes, kind, granted: None };
        // A refusal is not an error: if the kernel has no huge pages, all pages are small, as
        // `granted` shows.
        let _ = match kind {
            PageKind::Huge => advise_huge_pages(arena.start(), bytes),
            PageKind::Base => advise_small_pages(arena.start(), bytes),
        };
        arena.touch(page, stop)?;
        arena.granted = arena.read_granted();
        Ok(arena)
    }

    /// Returns the address of the first byte. The [`bytes`](Self::bytes) bytes from there may be
    /// read and written while `self` lives, provided that the caller ensures exclusive access.
    pub fn start(&self) -> *mut u8 {
        self.mapping.start().wrapping_add(self.offset)
    }

    /// Size in bytes: whole small pages.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Kind of pages requested.
    pub fn kind(&self) -> PageKind {
        self.kind
    }

    /// Returns the share of the arena, 0 to 1, that is backed by huge pages according to the
    /// kernel; `None` if unknown.
    pub fn granted(&self) -> Option<f64> {
        self.granted
    }

    /// Returns all of the memory as words.
    pub fn words(&mut self) -> &mut [u64] {
        // SAFETY: the memory is mapped, initially zero and aligned to 2 MiB, and it is exclusively
        // borrowed, because `self` is.
        unsafe { std::slice::from_raw_parts_mut(self.start().cast(), self.bytes / 8) }
    }

    /// Writes to each page, so that the kernel allocates it now: in each chunk first one page, then
    /// the page [`APART`] pages later, and so on, wrapping around. Pages allocated in sequence are
    /// often physically adjacent, and some processors (AMD's since Zen) coalesce four adjacent
    /// pages into one TLB entry, which would make the TLB seem larger.
    fn touch(&mut self, page: usize, stop: &AtomicBool) -> Result<(), MemoryError> {
        let words = self.words();
        for chunk in words.chunks_mut(ALIGNMENT / 8) {
            if stop.load(Ordering::Relaxed) {
                return Err(MemoryError::Stopped);
            }
            let pages = ALIGNMENT / page;
            for turn in 0..pages {
                let place = turn * APART % pages * (page / 8);
                if let Some(first) = chunk.get_mut(place) {
                    // The value is never read, but the access must not be optimised away. SAFETY:
                    // the address is that of a word in an exclusively borrowed slice.
                    unsafe { std::ptr::write_volatile(first, 0) };
                }
            }
        }
        Ok(())
    }

    fn read_granted(&self) -> Option<f64> {
        let text = Root::new(Path::new("/")).text("proc/self/smaps")?;
        let start = self.start() as u64;
        let huge = huge_bytes(&text, start, start + self.bytes as u64)?;
        Some((huge as f64 / self.bytes as f64).min(1.0))
    }
}

/// Returns the number of bytes in huge pages between the addresses `start` and `end`, from the text
/// of /proc/PID/smaps; `None` if the text does not show it. madvise(2) makes the range a separate
/// mapping, so mappings that begin or end outside of it do not count.
fn huge_bytes(smaps: &str, start: u64, end: u64) -> Option<u64> {
    let (mut is_within, mut sum) = (false, None);
    for line in smaps.lines() {
        if let Some((from, to)) = addresses(line) {
            is_within = start <= from && to <= end;
        } else if let (true, Some(size)) = (is_within, line.strip_prefix("AnonHugePages:")) {
            let kib: u64 = size.trim().strip_suffix(" kB")?.parse().ok()?;
            sum = Some(sum.unwrap_or(0) + kib.checked_mul(1024)?);
        }
    }
    sum
}

/// Parses the addresses in a line that begins a mapping: `7f00-7fff rw-p ...`.
fn addresses(line: &str) -> Option<(u64, u64)> {
    let (from, to) = line.split(' ').next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(from)?, number(to)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    static RUN: AtomicBool = AtomicBool::new(false);

    #[test]
    fn an_arena_is_aligned_touched_and_of_its_size() {
        for kind in [PageKind::Base, PageKind::Huge] {
            for bytes in [1, 5000, 3 << 20] {
                let mut arena = Arena::new(bytes, kind, &RUN).unwrap();
                assert_eq!(arena.bytes(), bytes.next_multiple_of(page_bytes()));
                assert_eq!(arena.start() as usize % ALIGNMENT, 0);
                assert!(arena.words().iter().all(|word| *word == 0));
                assert_eq!(arena.words().len(), arena.bytes() / 8);
                arena.words().fill(1);
            }
        }
    }

    /// All of the arena is backed by memory: the kernel counts resident pages.
    #[test]
    fn all_of_an_arena_is_there_before_it_is_used() {
        let arena = Arena::new(8 << 20, PageKind::Base, &RUN).unwrap();
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let range = arena.start() as u64..arena.start() as u64 + arena.bytes() as u64;
        let (mut is_within, mut resident) = (false, 0);
        for line in smaps.lines() {
            if let Some((from, to)) = addresses(line) {
                is_within = from >= range.start && to <= range.end;
            } else if let (true, Some(size)) = (is_within, line.strip_prefix("Rss:")) {
                resident += size.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024;
            }
        }
        assert_eq!(resident, arena.bytes() as u64);
        // A kernel without huge pages reports none.
        assert!(arena.granted().is_none_or(|share| share == 0.0), "{arena:?}");
    }

    #[test]
    fn respects_a_stop() {
        let stop = AtomicBool::new(true);
        let stopped = Arena::new(8 << 20, PageKind::Base, &stop).unwrap_err();
        assert_eq!(stopped, MemoryError::Stopped);
    }

    #[test]
    fn more_than_there_is_is_refused() {
        for bytes in [usize::MAX, usize::MAX / 2] {
            let error = Arena::new(bytes, PageKind::Huge, &RUN).unwrap_err();
            assert!(matches!(error, MemoryError::System(_)), "{error:?}");
        }
    }

    /// Two mappings in the range, one before and one after it, and one of a file.
    #[test]
    fn huge_pages_as_recorded() {
        let smaps = "\
7f0000000000-7f0000200000 rw-p 00000000 00:00 0 \nSize: 2048 kB\nAnonHugePages:      2048 kB
VmFlags: rd wr mr mw me ac hg
7f0000200000-7f0000800000 rw-p 00000000 00:00 0 \nRss: 4096 kB\nAnonHugePages:      4096 kB
7f0000800000-7f0000a00000 rw-p 00000000 00:00 0 \nAnonHugePages:      2048 kB
7f0000a00000-7f0000e00000 r--p 00000000 fe:01 77 /lib/x-y\nAnonHugePages:         0 kB
";
        let at = |mib: u64| 0x7f00_0000_0000 + (mib << 20);
        assert_eq!(huge_bytes(smaps, at(2), at(10)), Some(6 << 20));
        assert_eq!(huge_bytes(smaps, at(10), at(14)), Some(0));
        assert_eq!(huge_bytes(smaps, at(3), at(10)), Some(2 << 20));
        assert_eq!(huge_bytes(smaps, at(14), at(20)), None);
        assert_eq!(huge_bytes("", 0, u64::MAX), None);
        let damaged = "0-10 rw-p\nAnonHugePages: many kB\n";
        assert_eq!(huge_bytes(damaged, 0, u64::MAX), None);
    }
}
