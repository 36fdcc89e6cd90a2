// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pools of preallocated packet buffers.

use crate::packet::{HEADROOM_BYTES, Line, Packet};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

const LINE_BYTES: usize = size_of::<Line>();
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Maximum buffer size in bytes, which follows from the 16-bit offsets in packet metadata.
pub const MAX_BUFFER_BYTES: usize = u16::MAX as usize - HEADROOM_BYTES;

/// A pool of buffers of equal size.
pub struct Pool {
    base: NonNull<u8>,
    layout: Layout,
    slots: usize,
    stride: usize,
    room: u16,
}

// SAFETY: the pool itself never touches a buffer after `packets` has handed it out.
unsafe impl Send for Pool {}

impl Pool {
    /// Allocates `slots` buffers for frames of up to `buffer_bytes` bytes (at most
    /// [`MAX_BUFFER_BYTES`]), and touches every page, so that no page faults occur during the run.
    pub fn new(slots: usize, buffer_bytes: usize) -> Self {
        assert!(
            slots > 0 && buffer_bytes <= MAX_BUFFER_BYTES,
            "invalid pool: {slots} x {buffer_bytes} bytes"
        );
        let room = HEADROOM_BYTES + buffer_bytes;
        let stride = Self::stride(buffer_bytes);
        let layout = slots
            .checked_mul(stride)
            .and_then(|bytes| Layout::from_size_align(bytes, HUGE_PAGE_BYTES).ok())
            .expect("a pool is far smaller than the address space");
        // SAFETY: the size of the layout is not 0, since neither `slots` nor `stride` is 0.
        let base = unsafe { alloc(layout) };
        let Some(base) = NonNull::new(base) else { handle_alloc_error(layout) };
        // Must precede the first access to the memory, which determines the page size. Errors are
        // ignored, because the pool also works with small pages.
        let _ = linerate_linux::advise_huge_pages(base.as_ptr(), layout.size());
        // SAFETY: the memory has just been allocated with this size.
        unsafe { base.write_bytes(0, layout.size()) }
        Self { base, layout, slots, stride, room: room as u16 }
    }

    /// Returns the distance in bytes between buffers for frames of up to `buffer_bytes` bytes. It
    /// is an odd number of cache lines, so that the first lines of successive buffers map to
    /// different cache sets.
    pub(crate) fn stride(buffer_bytes: usize) -> usize {
        let lines = 1 + (HEADROOM_BYTES + buffer_bytes).div_ceil(LINE_BYTES);
        (lines | 1) * LINE_BYTES
    }

    /// Returns the size of the pool in bytes.
    pub fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// Returns handles to all buffers of the pool, which belongs to source queue `home`. The
    /// handles borrow the pool exclusively, so no buffer is handed out twice or outlives the pool.
    pub fn packets(&mut self, home: u16) -> Vec<Packet<'_>> {
        (0..self.slots)
            .map(|i| {
                // SAFETY: `i < slots`, so the slot is within the allocation. It is aligned to a
                // cache line, because base and stride are.
                let slot = unsafe { self.base.add(i * self.stride).cast::<Line>() };
                // SAFETY: `slot` is valid for writes; the bytes behind it are zeroed; slots do not
                // overlap and each index is taken once, under an exclusive borrow of the pool.
                unsafe {
                    slot.write(Line::new(self.room, home));
                    Packet::from_slot(slot)
                }
            })
            .collect()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout; no packet outlives the pool (`packets`).
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_apart_and_come_back() {
        let mut pool = Pool::new(3, 100);
        for home in [4, 5] {
            let mut packets = pool.packets(home);
            for (i, packet) in packets.iter_mut().enumerate() {
                assert!(packet.fill(&[i as u8; 100]));
            }
            assert_eq!(packets.len(), 3);
            for (i, packet) in packets.iter().enumerate() {
                assert_eq!((packet.bytes(), packet.home()), (&[i as u8; 100][..], home.into()));
            }
        }
    }

    #[test]
    #[should_panic(expected = "far smaller than the address space")]
    fn a_pool_beyond_the_address_space_is_refused() {
        Pool::new(usize::MAX / 64, 64);
    }
}
