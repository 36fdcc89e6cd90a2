// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory for the chains, in pages of one size. All pages are touched before timing.
//!
//! hugetlbfs pages are not supported because they must be reserved in advance. NUMA placement is
//! left to first touch.

use crate::MemoryError;
use linerate_linux::{Mapping, advise_huge_pages, advise_small_pages, page_bytes};
use linerate_machine::Root;
use linerate_record::memory::PageKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Arena alignment: the huge page size on x86-64, and on aarch64 and riscv64 with 4 KiB pages.
const ALIGNMENT: usize = 2 << 20;

/// Stride, in pages, between consecutively touched pages. It is odd, so that each page in a
/// power-of-two chunk is visited once. Modulo the chunk size it is far from 0 in both directions,
/// so that consecutively touched pages are not close to each other.
const APART: usize = 197;

/// Memory for the measurements: 2 MiB aligned, mapped and touched; unmapped on drop.
#[derive(Debug)]
pub struct Arena {
    mapping: Mapping,
    /// Offset of the first usable byte from the start of the mapping.
    offset: usize,
    bytes: usize,
    kind: PageKind,
    granted: Option<f64>,
}

impl Arena {
    /// Allocates `bytes` bytes, rounded up to whole small pages, using pages of `kind` if the
    /// kernel grants them. Touches every page, which takes 0.2 to 2 s per GiB. See
    /// [`limits`](crate::limits) for the maximum.
    ///
    /// # Errors
    /// Returns an error if the allocation fails, or if `stop` is set in the meantime.
    pub fn new(bytes: usize, kind: PageKind, stop: &AtomicBool) -> Result<Self, MemoryError> {
        let mut arena = Self::unread(bytes, kind, stop)?;
        arena.granted = arena.read_granted();
        Ok(arena)
    }

    /// Like [`Arena::new`], but does not check which pages the kernel granted. The check takes a
    /// different number of instructions each time, which must not happen in a program whose events
    /// are counted.
    ///
    /// # Errors
    /// The same as for [`Arena::new`].
    pub fn unread(bytes: usize, kind: PageKind, stop: &AtomicBool) -> Result<Self, MemoryError> {
        let page = page_bytes();
        let bytes = bytes.max(page).saturating_add(page - 1) / page * page;
        let mapping = Mapping::new(bytes.saturating_add(ALIGNMENT))?;
        let offset = mapping.start().align_offset(ALIGNMENT);
        let mut arena = Self { mapping, offset, bytes, kind, granted: None };
        // Not an error: if the kernel has no huge pages, all pages are small, and `granted` shows
        // this.
        let _ = match kind {
            PageKind::Huge => advise_huge_pages(arena.start(), bytes),
            PageKind::Base => advise_small_pages(arena.start(), bytes),
        };
        arena.touch(page, stop)?;
        Ok(arena)
    }

    /// Returns the address of the first byte. The caller may access [`bytes`](Self::bytes) bytes
    /// from there while `self` is alive, but must ensure that access is exclusive.
    pub fn start(&self) -> *mut u8 {
        self.mapping.start().wrapping_add(self.offset)
    }

    /// Returns the size in bytes, a multiple of the small page size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the requested page kind.
    pub fn kind(&self) -> PageKind {
        self.kind
    }

    /// Returns the fraction (0 to 1) of the arena that the kernel reports as backed by huge pages;
    /// `None` if unknown.
    pub fn granted(&self) -> Option<f64> {
        self.granted
    }

    /// Returns the whole arena as words.
    pub fn words(&mut self) -> &mut [u64] {
        // SAFETY: the memory is mapped, initially zero and aligned to 2 MiB, and it is exclusively
        // borrowed, because `self` is.
        unsafe { std::slice::from_raw_parts_mut(self.start().cast(), self.bytes / 8) }
    }

    /// Writes to every page so that the kernel allocates it now. Within a chunk, pages are visited
    /// in steps of [`APART`], wrapping around. Pages allocated in sequence are often physically
    /// adjacent, and some processors (AMD since Zen) coalesce four adjacent pages into one TLB
    /// entry, which would make the TLB seem larger.
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

/// Returns how many bytes between the addresses `start` and `end` are in huge pages according to
/// the text of /proc/PID/smaps; `None` if the text lacks the figure. madvise(2) makes the range a
/// mapping of its own, so mappings that extend outside of it are ignored.
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

/// Parses the address range in the first line of a mapping: `7f00-7fff rw-p ...`.
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

    /// The kernel's resident page count covers the whole arena.
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

    /// Covers two mappings within the range, one on either side of it, and a file mapping.
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
