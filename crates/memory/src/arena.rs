// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory that chains lie in: of one size of page, all of it touched before anything is timed.
//!
//! Left out: pages of hugetlbfs, which someone has to reserve first, and the node of memory, which
//! is that of the processor that touches it.

use crate::MemoryError;
use linerate_linux::{Mapping, advise_huge_pages, advise_small_pages, page_octets};
use linerate_machine::Root;
use linerate_record::memory::PageKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Alignment of an arena: the huge page of x86-64, and of aarch64 and riscv64 with pages of 4 KiB.
const ALIGNMENT: usize = 2 << 20;

/// Memory to measure in, aligned to 2 MiB, mapped and touched. Given back when dropped.
#[derive(Debug)]
pub struct Arena {
    mapping: Mapping,
    /// Of the first octet in use, from the start of the mapping.
    offset: usize,
    bytes: usize,
    kind: PageKind,
    granted: Option<f64>,
}

impl Arena {
    /// Takes `bytes` octets, rounded up to whole small pages, in pages of `kind` if the system
    /// grants them, and touches all of them: 0.2 to 2 s per GiB. Ask [`limits`](crate::limits) how
    /// much may be taken.
    ///
    /// # Errors
    /// The kernel has not as much, or `stop` was set meanwhile.
    pub fn new(bytes: usize, kind: PageKind, stop: &AtomicBool) -> Result<Self, MemoryError> {
        let page = page_octets();
        let bytes = bytes.max(page).saturating_add(page - 1) / page * page;
        let mapping = Mapping::new(bytes.saturating_add(ALIGNMENT))?;
        let offset = mapping.start().align_offset(ALIGNMENT);
        let mut arena = Self { mapping, offset, bytes, kind, granted: None };
        // A refusal is no failure: where the kernel has no huge pages, all of them are small, which
        // `granted` tells.
        let _ = match kind {
            PageKind::Huge => advise_huge_pages(arena.start(), bytes),
            PageKind::Base => advise_small_pages(arena.start(), bytes),
        };
        arena.touch(page, stop)?;
        arena.granted = arena.read_granted();
        Ok(arena)
    }

    /// Its first octet. All of [`bytes`](Self::bytes) from there may be read and written while
    /// `self` lives, by whoever makes sure that no one else uses them.
    pub fn start(&self) -> *mut u8 {
        self.mapping.start().wrapping_add(self.offset)
    }

    /// How many octets it has: whole small pages.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The pages that were asked for.
    pub fn kind(&self) -> PageKind {
        self.kind
    }

    /// The share of it, 0 to 1, that the kernel says huge pages stand behind; `None` where it does
    /// not tell.
    pub fn granted(&self) -> Option<f64> {
        self.granted
    }

    /// All of it, as numbers.
    pub fn words(&mut self) -> &mut [u64] {
        // SAFETY: mapped, zero at first, aligned to 2 MiB, and borrowed alone: `self` is.
        unsafe { std::slice::from_raw_parts_mut(self.start().cast(), self.bytes / 8) }
    }

    /// Writes to each page, so that the kernel finds memory for it now.
    fn touch(&mut self, page: usize, stop: &AtomicBool) -> Result<(), MemoryError> {
        let words = self.words();
        for chunk in words.chunks_mut(ALIGNMENT / 8) {
            if stop.load(Ordering::Relaxed) {
                return Err(MemoryError::Stopped);
            }
            for first in chunk.iter_mut().step_by(page / 8) {
                // Never read: only the access counts, which must not be optimised away.
                // SAFETY: a word of a slice that is borrowed alone.
                unsafe { std::ptr::write_volatile(first, 0) };
            }
        }
        Ok(())
    }

    fn read_granted(&self) -> Option<f64> {
        let text = Root::new(Path::new("/")).text("proc/self/smaps")?;
        let start = self.start() as u64;
        let huge = huge_octets(&text, start, start + self.bytes as u64)?;
        Some((huge as f64 / self.bytes as f64).min(1.0))
    }
}

/// Octets in huge pages between the addresses `start` and `end`, as the text of /proc/PID/smaps
/// tells; `None` where it does not. madvise(2) makes a mapping of its own of the range, so mappings
/// that begin or end outside of it hold nothing that counts.
fn huge_octets(smaps: &str, start: u64, end: u64) -> Option<u64> {
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

/// The addresses of a line that begins a mapping: `7f00-7fff rw-p ...`.
fn addresses(line: &str) -> Option<(u64, u64)> {
    let (from, to) = line.split(' ').next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(from)?, number(to)?))
}
