// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rings of an AF_XDP socket: single-producer, single-consumer, with the kernel on one side.
//!
//! Indices are free-running: entry `i` is in slot `i mod entries`. `publish` makes the entries that
//! this side has written visible to the kernel; `release` frees the entries that this side has
//! read, so that the kernel can reuse them.

use super::super::socket::get_at;
use crate::Error;
use crate::memory::Shared;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

const OLD: &str = "this kernel is too old: Linux 5.9 or later is needed";

/// Size of a frame descriptor (`xdp_desc`) in bytes: address, length, options.
const DESCRIPTION: usize = 16;

/// Size of a frame address in bytes.
const ADDRESS: usize = 8;

/// Ring flag: the kernel needs a wakeup.
const NEED_WAKEUP: u32 = 1;

/// A ring of an AF_XDP socket, of which this program is either the producer or the consumer.
#[derive(Debug)]
pub(super) struct Ring {
    memory: Shared,
    producer: usize,
    consumer: usize,
    entries: usize,
    flags: usize,
    size: u32,
    /// Index of the next entry that this side writes or reads.
    next: u32,
    /// The kernel's index in this ring, as last read.
    other: u32,
}

impl Ring {
    /// Maps a socket's receive, transmit, fill and completion rings, with `size` entries each.
    pub(super) fn all_of(socket: &OwnedFd, size: u32) -> Result<[Self; 4], Error> {
        // `xdp_mmap_offsets`: producer, consumer, entries and flags of each ring.
        let mut words = [0; 32];
        get_at(socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, &mut words)
            .ok_or_else(|| Error::last("getsockopt", "XDP_MMAP_OFFSETS".to_owned(), OLD))?;
        // An offset is a 64-bit number, but small, so one of its two 32-bit halves is 0.
        let offset = |ring: usize, field: usize| {
            let at = 2 * (4 * ring + field);
            (words[at] | words[at + 1]) as usize
        };
        let map = |ring: usize, entry: usize, at: i64| {
            let entries = offset(ring, 2);
            let bytes = entries + size as usize * entry;
            Ok(Self {
                memory: Shared::of_socket(socket, bytes, at)?,
                producer: offset(ring, 0),
                consumer: offset(ring, 1),
                entries,
                flags: offset(ring, 3),
                size,
                next: 0,
                other: 0,
            })
        };
        Ok([
            map(0, DESCRIPTION, 0)?,
            map(1, DESCRIPTION, 0x8000_0000)?,
            map(2, ADDRESS, 0x1_0000_0000)?,
            map(3, ADDRESS, 0x1_8000_0000)?,
        ])
    }

    fn slot(&self, entry: usize) -> usize {
        self.entries + (self.next & (self.size - 1)) as usize * entry
    }

    fn write64(&self, at: usize, value: u64) {
        let bytes = value.to_ne_bytes();
        for (half, at) in bytes.chunks_exact(4).zip([at, at + 4]) {
            let word = u32::from_ne_bytes(half.try_into().unwrap_or_default());
            // Relaxed: `publish` orders it.
            self.memory.atomic(at).store(word, Ordering::Relaxed);
        }
    }

    fn read64(&self, at: usize) -> u64 {
        // Relaxed: ordered by the acquire in `is_readable`.
        let half = |at| self.memory.atomic(at).load(Ordering::Relaxed).to_ne_bytes();
        let [a, b, c, d] = half(at);
        let [e, f, g, h] = half(at + 4);
        u64::from_ne_bytes([a, b, c, d, e, f, g, h])
    }

    /// Writes a frame address to an address ring, which must have room.
    pub(super) fn push_address(&mut self, address: u64) {
        self.write64(self.slot(ADDRESS), address);
        self.next = self.next.wrapping_add(1);
    }

    /// Writes a frame's address and length to a descriptor ring, which must have room.
    pub(super) fn push_description(&mut self, address: u64, bytes: u32) {
        let at = self.slot(DESCRIPTION);
        self.write64(at, address);
        // The options, in the upper half, are 0.
        self.memory.atomic(at + 8).store(bytes, Ordering::Relaxed);
        self.memory.atomic(at + 12).store(0, Ordering::Relaxed);
        self.next = self.next.wrapping_add(1);
    }

    /// Makes the pushed entries visible to the kernel. Uses release ordering, which pairs with the
    /// kernel's acquire.
    pub(super) fn publish(&self) {
        self.memory.atomic(self.producer).store(self.next, Ordering::Release);
    }

    fn is_readable(&mut self) -> bool {
        if self.other == self.next {
            // Acquire: pairs with the kernel's release of what it wrote.
            self.other = self.memory.atomic(self.producer).load(Ordering::Acquire);
        }
        self.other != self.next
    }

    /// Reads a frame address from an address ring; `None` if the ring is empty.
    pub(super) fn pop_address(&mut self) -> Option<u64> {
        let address = self.is_readable().then(|| self.read64(self.slot(ADDRESS)))?;
        self.next = self.next.wrapping_add(1);
        Some(address)
    }

    /// Reads a frame's address and length from a descriptor ring; `None` if the ring is empty.
    pub(super) fn pop_description(&mut self) -> Option<(u64, u32)> {
        let at = self.is_readable().then(|| self.slot(DESCRIPTION))?;
        let address = self.read64(at);
        let bytes = self.memory.atomic(at + 8).load(Ordering::Relaxed);
        self.next = self.next.wrapping_add(1);
        Some((address, bytes))
    }

    /// Frees the entries that this side has read, so that the kernel can reuse them. Uses release
    /// ordering, because the kernel must not reuse an entry before it has been read.
    pub(super) fn release(&self) {
        self.memory.atomic(self.consumer).store(self.next, Ordering::Release);
    }

    /// Returns the number of entries that the kernel has written and this side has not read yet.
    pub(super) fn filled(&self) -> u32 {
        self.memory.atomic(self.producer).load(Ordering::Acquire).wrapping_sub(self.next)
    }

    /// Returns the number of published entries that the kernel has not consumed yet, according to
    /// the last consumer index that it published.
    pub(super) fn unread(&self) -> u32 {
        // Relaxed: this is only a count. The completion ring shows which frames have been sent.
        self.next.wrapping_sub(self.memory.atomic(self.consumer).load(Ordering::Relaxed))
    }

    /// Returns whether the kernel needs a wakeup before it uses this ring.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.memory.atomic(self.flags).load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }
}
