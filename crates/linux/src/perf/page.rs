// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page that the kernel maintains for an event, from which the event is read without a system
//! call.

use std::ptr::NonNull;
use std::sync::atomic::{Ordering, compiler_fence};

/// Fields of `perf_event_mmap_page` needed by a reader. They are consistent only if
/// [`Page::sequence`] was the same before and after reading them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageFields {
    /// Counter index plus one; 0 while not on a counter.
    pub index: u32,
    /// Offset to add to the counter value.
    pub offset: i64,
    /// Time enabled, as in `Reading`, up to when the event was last scheduled onto a counter.
    pub enabled_ns: u64,
    /// Time on a counter, as in `Reading`, up to when the event was last scheduled onto one.
    pub running_ns: u64,
    /// Whether user mode may read the counter.
    pub can_read_counter: bool,
    /// Whether the `time_*` fields are valid.
    pub can_read_time: bool,
    /// Whether the timestamp counter is narrower than 64 bits and must be extended with
    /// `time_cycles` and `time_mask`.
    pub is_time_short: bool,
    /// Counter width in bits.
    pub width: u16,
    /// ns = (ticks * `time_mult`) >> `time_shift`, plus `time_offset`.
    pub time_shift: u16,
    /// See `time_shift`.
    pub time_mult: u32,
    /// See `time_shift`.
    pub time_offset: u64,
    /// See `is_time_short`.
    pub time_cycles: u64,
    /// See `is_time_short`.
    pub time_mask: u64,
}

/// An event's mmap page. Only the counted thread may read the counter; in other threads the values
/// are meaningless.
#[derive(Debug)]
pub struct Page {
    pub(super) start: NonNull<u8>,
    pub(super) bytes: usize,
}

// SAFETY: the mapping belongs to the process rather than to a thread, and is only read.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// Reads a field of `perf_event_mmap_page`.
    #[inline]
    fn field<T: Copy>(&self, offset: usize) -> T {
        // SAFETY: all offsets below are within the page's first 96 bytes and suitably aligned for
        // their types; the kernel may write at any time, hence the volatile read.
        unsafe { self.start.as_ptr().add(offset).cast::<T>().read_volatile() }
    }

    /// Returns the page's sequence count, which works as in a seqlock: if it is odd, or differs
    /// between two calls, read the page again. On the counted thread, reads between two calls of
    /// this function stay between them: the kernel changes the page on the processor that runs this
    /// thread, so program order suffices. Fences are avoided because they would cost more than
    /// everything else.
    #[inline]
    pub fn sequence(&self) -> u32 {
        compiler_fence(Ordering::SeqCst);
        let sequence = self.field(8);
        compiler_fence(Ordering::SeqCst);
        sequence
    }

    /// Reads the fields. Must be called between two calls to [`Page::sequence`].
    #[inline]
    pub fn fields(&self) -> PageFields {
        let bits: u64 = self.field(40);
        let bits = if cfg!(target_endian = "big") { bits.reverse_bits() } else { bits };
        PageFields {
            index: self.field(12),
            offset: self.field(16),
            enabled_ns: self.field(24),
            running_ns: self.field(32),
            can_read_counter: bits >> 2 & 1 == 1,
            can_read_time: bits >> 3 & 1 == 1,
            is_time_short: bits >> 5 & 1 == 1,
            width: self.field(48),
            time_shift: self.field(50),
            time_mult: self.field(52),
            time_offset: self.field(56),
            time_cycles: self.field(80),
            time_mask: self.field(88),
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping was created by `Event::map` with this length, and nothing uses it
        // after `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
