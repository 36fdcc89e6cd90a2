// SPDX-License-Identifier: MIT OR Apache-2.0
//! A packet: the handle of a buffer that was allocated before the run.
//!
//! A buffer is a [`Meta`] followed by room for the frame. Buffers lie in a [`Pool`]; a [`Packet`]
//! is the only handle to its buffer, so its holder may read and write without locks, on whichever
//! strand it is. A packet that is dropped without being released is lost to its pool until the
//! pool itself goes; that is a leak of one buffer, never a dangling handle.

use crate::ledger::StageLedger;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Octets kept free in front of a frame for headers put on later (GRE over IPv6 needs 48).
pub const HEADROOM_OCTETS: usize = 128;

/// How a packet relates to IP fragmentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragment {
    /// Not a fragment.
    #[default]
    Whole,
    /// The fragment with offset 0: its transport header is present, its payload is not complete.
    First,
    /// Any other fragment: no transport header.
    Later,
}

/// Where the headers are. Offsets count from the first octet of the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    /// Offset of the IP header; 0 when the frame has not been parsed.
    pub l3: u16,
    /// Offset of what follows the IP header and its extension headers.
    pub l4: u16,
    /// Offset past the IP packet, by its own total length; link-layer padding lies behind it.
    pub l3_end: u16,
    /// 4 or 6; 0 when the frame has not been parsed.
    pub ip_version: u8,
    /// IP protocol number of what stands at `l4`.
    pub protocol: u8,
    /// Fragmentation.
    pub fragment: Fragment,
}

/// What is known of a packet beside its octets.
///
/// One cache line, in front of the frame it belongs to.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct Meta {
    /// Place in the sequence the source offers, from 0.
    pub position: u64,
    /// Time of capture, nanoseconds since 1970-01-01 UTC.
    pub time_ns: u64,
    /// Timestamp counter when the source handed the packet over; 0 when not sampled.
    pub born_ticks: u64,
    /// Where the headers are, once parsed.
    pub layers: Layers,
    /// The bucket the source sorted the packet into.
    pub bucket: u8,
    /// Offset of the frame from the end of this line.
    pub(crate) start: u16,
    /// Length of the frame.
    pub(crate) octets: u16,
    /// Octets behind this line that belong to the buffer.
    pub(crate) room: u16,
    /// The source queue whose free list the buffer belongs to.
    pub(crate) home: u16,
}

/// The only handle to one buffer of a pool.
pub struct Packet<'p> {
    slot: NonNull<Meta>,
    pool: PhantomData<&'p mut [u8]>,
}

// SAFETY: a packet is the only handle to its buffer (ensured by `Pool::packets`, which hands out
// each buffer once), so moving it to another thread moves all access to the buffer with it.
unsafe impl Send for Packet<'_> {}

impl Packet<'_> {
    /// A handle to the buffer at `slot`.
    ///
    /// # Safety
    /// `slot` points to an initialised `Meta` followed by `room` initialised octets, all valid for
    /// reads and writes for the lifetime of the result, and no other handle to them exists.
    pub(crate) unsafe fn from_slot(slot: NonNull<Meta>) -> Self {
        Self { slot, pool: PhantomData }
    }

    /// What is known of the packet.
    #[inline]
    pub fn meta(&self) -> &Meta {
        // SAFETY: `slot` is valid and this handle is the only one (contract of `from_slot`).
        unsafe { self.slot.as_ref() }
    }

    /// What is known of the packet.
    #[inline]
    pub fn meta_mut(&mut self) -> &mut Meta {
        // SAFETY: `slot` is valid and this handle is the only one (contract of `from_slot`).
        unsafe { self.slot.as_mut() }
    }

    #[inline]
    fn frame(&self, start: usize) -> *mut u8 {
        // SAFETY: `start` is at most `room`, which every method that moves it upholds, and `room`
        // octets follow the meta line in the same allocation (contract of `from_slot`).
        unsafe { self.slot.as_ptr().add(1).cast::<u8>().add(start) }
    }

    /// The frame, from its first octet.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let meta = self.meta();
        // SAFETY: `start + octets <= room`, upheld by every method that moves either, and the
        // handle is the only one.
        unsafe {
            std::slice::from_raw_parts(self.frame(meta.start.into()), usize::from(meta.octets))
        }
    }

    /// The frame, from its first octet.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let (start, octets) = (self.meta().start, self.meta().octets);
        // SAFETY: as in `bytes`.
        unsafe { std::slice::from_raw_parts_mut(self.frame(start.into()), usize::from(octets)) }
    }

    /// Length of the frame in octets.
    #[inline]
    pub fn octets(&self) -> usize {
        self.meta().octets.into()
    }

    /// Replaces the whole packet by a copy of `frame` behind the full headroom, unparsed. The
    /// account of a stage does not see this: it is how a source fills a buffer.
    ///
    /// Returns `false`, and changes nothing, when the buffer is too small.
    #[inline]
    pub fn fill(&mut self, frame: &[u8]) -> bool {
        if HEADROOM_OCTETS + frame.len() > usize::from(self.meta().room) {
            return false;
        }
        let meta = self.meta_mut();
        meta.start = HEADROOM_OCTETS as u16;
        meta.octets = frame.len() as u16;
        meta.layers = Layers::default();
        self.bytes_mut().copy_from_slice(frame);
        true
    }

    /// Makes room for `octets` octets in front of the frame; their content is unspecified. Offsets
    /// in [`Layers`] are not moved.
    ///
    /// Returns `None`, and changes nothing, when the headroom does not suffice.
    #[inline]
    pub fn push_front(&mut self, octets: usize, ledger: &mut StageLedger) -> Option<&mut [u8]> {
        let meta = self.meta_mut();
        let start = usize::from(meta.start).checked_sub(octets)?;
        let longer = usize::from(meta.octets) + octets;
        meta.octets = u16::try_from(longer).ok()?;
        meta.start = start as u16;
        ledger.created.octets += octets as u64;
        Some(&mut self.bytes_mut()[..octets])
    }

    /// Takes `octets` octets off the front of the frame. Offsets in [`Layers`] are not moved.
    ///
    /// Returns `false`, and changes nothing, when the frame is shorter.
    #[inline]
    pub fn trim_front(&mut self, octets: usize, ledger: &mut StageLedger) -> bool {
        let meta = self.meta_mut();
        if octets > usize::from(meta.octets) {
            return false;
        }
        meta.start += octets as u16;
        meta.octets -= octets as u16;
        ledger.consumed.octets += octets as u64;
        true
    }

    /// Cuts the frame to `octets` octets; does nothing when it is not longer.
    #[inline]
    pub fn truncate(&mut self, octets: usize, ledger: &mut StageLedger) {
        let meta = self.meta_mut();
        if octets < usize::from(meta.octets) {
            ledger.consumed.octets += u64::from(meta.octets) - octets as u64;
            meta.octets = octets as u16;
        }
    }

    /// Asks the processor to fetch the meta line and the line with the first headers, as another
    /// strand has written them.
    #[inline]
    pub(crate) fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let line = self.slot.as_ptr().cast::<i8>();
            // SAFETY: prefetching has no effect on memory whatever the address.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(line);
                _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(64 + HEADROOM_OCTETS));
            }
        }
    }
}

impl std::fmt::Debug for Packet<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packet").field("meta", self.meta()).finish_non_exhaustive()
    }
}
