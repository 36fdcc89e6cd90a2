// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets: owning handles to preallocated buffers.
//!
//! A buffer is a cache line of metadata, followed by memory for the frame. Its memory belongs to a
//! [`Pool`]. A [`Packet`] is the only handle to its buffer, so whichever worker owns the packet may
//! access the buffer without locks. If a packet is dropped without being released, its buffer is
//! leaked until the pool is dropped, but no handle ever dangles.
//!
//! [`Pool`]: crate::pool::Pool

use crate::context::Account;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Headroom in front of a frame, in bytes, for prepending headers (GRE over IPv6 needs 48).
pub const HEADROOM_BYTES: usize = 128;

/// Whether a packet is an IP fragment. Two bytes in size, so that [`Layers`] has no padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u16)]
pub enum Fragment {
    /// Not a fragment.
    #[default]
    Whole,
    /// The fragment with offset 0, which has a transport header but only part of the payload.
    First,
    /// Any other fragment, which has no transport header.
    Later,
}

/// Header offsets from the first byte of the frame, and properties of the IP packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Layers {
    /// Offset of the IP header; 0 if the frame has not been parsed.
    pub l3: u16,
    /// Offset of the first byte after the IP header and its extension headers.
    pub l4: u16,
    /// Offset of the first byte after the IP packet, according to its total length field;
    /// link-layer padding may follow.
    pub l3_end: u16,
    /// IP version: 4 or 6; 0 if the frame has not been parsed.
    pub ip_version: u8,
    /// IP protocol number of the header at `l4`.
    pub protocol: u8,
    /// IP fragmentation state.
    pub fragment: Fragment,
}

/// Packet metadata, which stages may read and write.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Meta {
    /// Position in the sequence of packets that the source offers, from 0.
    pub position: u64,
    /// Time of capture, nanoseconds since 1970-01-01 UTC.
    pub time_ns: u64,
    /// Timestamp, in ticks, at which the source delivered the packet or, if the source is paced, at
    /// which the packet was due; 0 if its latency is not measured.
    pub born_ticks: u64,
    /// Header offsets, once parsed.
    pub layers: Layers,
    /// RSS bucket, below [`BUCKETS`](crate::BUCKETS).
    pub bucket: u8,
    /// Index of the port on which the packet arrived; 0 for packets from memory.
    pub port: u8,
    /// Explicit padding, so that all bytes are initialised.
    reserved: [u8; 4],
}

/// The metadata line: a cache line before the frame, with the packet's metadata and the location of
/// the frame in the buffer. The location is not part of [`Meta`], so metadata can be copied between
/// buffers of different sizes.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Line {
    pub(crate) meta: Meta,
    /// Offset of the frame from the end of the metadata line, in bytes.
    pub(crate) start: u16,
    /// Length of the frame, in bytes.
    pub(crate) bytes: u16,
    /// Size of the buffer after the metadata line, in bytes; `start + bytes <= room` always holds.
    pub(crate) room: u16,
    /// Index of the source queue that owns the buffer.
    pub(crate) home: u16,
}

const _: () = assert!(size_of::<Line>() == 64 && size_of::<Layers>() == 10);

impl Line {
    /// Creates the metadata line of an empty packet.
    pub(crate) fn new(room: u16, home: u16) -> Self {
        Self { meta: Meta::default(), start: 0, bytes: 0, room, home }
    }
}

/// The only handle to one buffer of a pool.
#[repr(transparent)]
pub struct Packet<'p> {
    slot: NonNull<Line>,
    pool: PhantomData<&'p mut [u8]>,
}

// SAFETY: a packet is the only handle to its buffer (ensured by `Pool::packets`, which hands out
// each buffer once), so moving it to another thread moves all access to the buffer with it.
unsafe impl Send for Packet<'_> {}

impl Packet<'_> {
    /// Creates a handle to the buffer at `slot`.
    ///
    /// # Safety
    /// `slot` must point to an initialised `Line` followed by `room` initialised bytes, all valid
    /// for reads and writes for the lifetime of the result, and there must be no other handle to
    /// them.
    pub(crate) unsafe fn from_slot(slot: NonNull<Line>) -> Self {
        Self { slot, pool: PhantomData }
    }

    #[inline]
    pub(crate) fn line(&self) -> &Line {
        // SAFETY: `slot` is valid and this handle is the only one (contract of `from_slot`).
        unsafe { self.slot.as_ref() }
    }

    /// Returns the line for writing. The caller must maintain `start + bytes <= room`.
    #[inline]
    pub(crate) fn line_mut(&mut self) -> &mut Line {
        // SAFETY: `slot` is valid and this handle is the only one (contract of `from_slot`).
        unsafe { self.slot.as_mut() }
    }

    /// Returns the metadata of the packet.
    #[inline]
    pub fn meta(&self) -> &Meta {
        &self.line().meta
    }

    /// Returns the packet's metadata for writing.
    #[inline]
    pub fn meta_mut(&mut self) -> &mut Meta {
        &mut self.line_mut().meta
    }

    /// Returns a number that identifies the buffer, and so the packet while it is in flight.
    #[inline]
    pub(crate) fn id(&self) -> usize {
        self.slot.addr().get()
    }

    /// Returns the index of the source queue that owns the buffer.
    #[inline]
    pub(crate) fn home(&self) -> usize {
        self.line().home.into()
    }

    #[inline]
    fn frame(&self, start: usize) -> *mut u8 {
        // SAFETY: `start` is at most `room`, as upheld by every method that changes it, and `room`
        // bytes follow the line in the same allocation (contract of `from_slot`).
        unsafe { self.slot.as_ptr().add(1).cast::<u8>().add(start) }
    }

    /// Returns the bytes of the frame, from the Ethernet header on.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let line = self.line();
        // SAFETY: `start + bytes <= room`, as upheld by every method that changes either, and the
        // handle is the only one.
        unsafe {
            std::slice::from_raw_parts(self.frame(line.start.into()), usize::from(line.bytes))
        }
    }

    /// Returns the frame for writing.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let (start, bytes) = (self.line().start, self.line().bytes);
        // SAFETY: as in `bytes`.
        unsafe { std::slice::from_raw_parts_mut(self.frame(start.into()), usize::from(bytes)) }
    }

    /// Returns the frame length in bytes.
    #[inline]
    pub fn length(&self) -> usize {
        self.line().bytes.into()
    }

    /// Replaces the packet with an unparsed frame of `bytes` bytes after the full headroom, and
    /// returns the frame for the caller to write. For sources: the bytes are not charged to the
    /// account of any stage.
    ///
    /// Returns `None`, leaving the packet unchanged, if the buffer is too small.
    #[inline]
    pub fn renew(&mut self, bytes: usize) -> Option<&mut [u8]> {
        if bytes > usize::from(self.line().room) - HEADROOM_BYTES {
            return None;
        }
        let line = self.line_mut();
        line.start = HEADROOM_BYTES as u16;
        line.bytes = bytes as u16;
        line.meta.layers = Layers::default();
        Some(self.bytes_mut())
    }

    /// Replaces the packet with a copy of `frame`, like [`Packet::renew`]. Returns `false` if the
    /// buffer is too small.
    #[inline]
    pub fn fill(&mut self, frame: &[u8]) -> bool {
        self.renew(frame.len()).map(|renewed| renewed.copy_from_slice(frame)).is_some()
    }

    /// Prepends `bytes` bytes of unspecified content to the frame, and returns the new frame. Does
    /// not adjust the offsets in [`Layers`].
    ///
    /// Returns `None`, leaving the packet unchanged, if the headroom is too small.
    #[inline]
    pub fn push_front(&mut self, bytes: usize, account: &mut Account) -> Option<&mut [u8]> {
        let line = self.line_mut();
        let start = usize::from(line.start).checked_sub(bytes)?;
        let longer = usize::from(line.bytes) + bytes;
        line.bytes = u16::try_from(longer).ok()?;
        line.start = start as u16;
        account.created.bytes += bytes as u64;
        Some(&mut self.bytes_mut()[..bytes])
    }

    /// Removes `bytes` bytes from the front of the frame. Does not adjust the offsets in
    /// [`Layers`].
    ///
    /// Returns `false`, leaving the packet unchanged, if the frame is shorter than `bytes`.
    #[inline]
    pub fn trim_front(&mut self, bytes: usize, account: &mut Account) -> bool {
        let line = self.line_mut();
        if bytes > usize::from(line.bytes) {
            return false;
        }
        line.start += bytes as u16;
        line.bytes -= bytes as u16;
        account.consumed.bytes += bytes as u64;
        true
    }

    /// Truncates the frame to at most `bytes` bytes.
    #[inline]
    pub fn truncate(&mut self, bytes: usize, account: &mut Account) {
        let line = self.line_mut();
        if bytes < usize::from(line.bytes) {
            account.consumed.bytes += u64::from(line.bytes) - bytes as u64;
            line.bytes = bytes as u16;
        }
    }

    /// Returns the maximum frame length that [`Packet::resize`] accepts.
    #[inline]
    pub fn capacity(&self) -> usize {
        usize::from(self.line().room - self.line().start)
    }

    /// Resizes the frame to `bytes` bytes by moving its end. Added bytes have unspecified content.
    ///
    /// Returns `None`, leaving the packet unchanged, if the buffer is too small.
    #[inline]
    pub fn resize(&mut self, bytes: usize, account: &mut Account) -> Option<&mut [u8]> {
        if bytes > self.capacity() {
            return None;
        }
        let before = self.length();
        if bytes > before {
            account.created.bytes += (bytes - before) as u64;
            self.line_mut().bytes = bytes as u16;
        }
        self.truncate(bytes, account);
        Some(self.bytes_mut())
    }

    /// Prefetches the cache lines with the metadata and the first headers, which were last written
    /// on another CPU.
    #[inline]
    pub(crate) fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let line = self.slot.as_ptr().cast::<i8>();
            // SAFETY: prefetching does not affect memory contents, whatever the address.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(line);
                _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(64 + HEADROOM_BYTES));
            }
        }
    }
}

impl std::fmt::Debug for Packet<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packet").field("meta", self.meta()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;

    #[test]
    fn metadata_of_a_large_buffer_leaves_a_small_one_as_it_is() {
        let (mut large, mut small) = (Pool::new(1, 9000), Pool::new(1, 64));
        let (mut large, mut small) = (large.packets(0), small.packets(1));
        assert!(large[0].fill(&[1; 9000]) && small[0].fill(&[2; 64]));
        large[0].meta_mut().position = 7;
        *small[0].meta_mut() = *large[0].meta();
        assert_eq!((small[0].bytes(), small[0].meta().position), (&[2; 64][..], 7));
        assert_eq!((small[0].home(), large[0].home()), (1, 0));
        assert!(!small[0].fill(&[3; 65]));
    }

    #[test]
    fn a_frame_grows_and_shrinks_at_its_end() {
        let mut pool = Pool::new(2, 100);
        let mut packets = pool.packets(0);
        let mut account = Account::default();
        assert!(packets[1].fill(&[9; 100]));
        let packet = &mut packets[0];
        assert!(packet.fill(&[5; 60]));
        assert!(packet.trim_front(10, &mut account));
        assert_eq!(packet.capacity(), 90);
        assert!(packet.resize(91, &mut account).is_none());
        packet.resize(90, &mut account).expect("the room there is")[50..].fill(6);
        assert_eq!(packet.bytes(), [&[5; 50][..], &[6; 40]].concat());
        assert_eq!(packet.resize(3, &mut account).map(|frame| frame.len()), Some(3));
        assert_eq!((account.created.bytes, account.consumed.bytes), (40, 97));
        assert_eq!(packets[1].bytes(), [9; 100], "the next buffer is unchanged");
    }

    #[test]
    fn a_frame_moves_within_its_buffer_and_no_further() {
        let mut pool = Pool::new(2, 100);
        let mut packets = pool.packets(0);
        let mut account = Account::default();
        let packet = &mut packets[0];
        assert!(packet.bytes().is_empty());
        assert!(packet.fill(&[5; 100]));
        assert!(packet.push_front(HEADROOM_BYTES + 1, &mut account).is_none());
        packet.push_front(HEADROOM_BYTES, &mut account).expect("all the headroom").fill(6);
        assert!(packet.push_front(1, &mut account).is_none());
        assert_eq!(packet.bytes(), [[6; HEADROOM_BYTES].as_slice(), &[5; 100]].concat());
        assert!(!packet.trim_front(HEADROOM_BYTES + 101, &mut account));
        assert!(packet.trim_front(HEADROOM_BYTES + 99, &mut account));
        packet.truncate(2, &mut account);
        assert_eq!(packet.bytes(), [5]);
        packet.truncate(0, &mut account);
        assert!(packet.bytes_mut().is_empty());
        assert_eq!(account.created.bytes, HEADROOM_BYTES as u64);
        assert_eq!(account.consumed.bytes, HEADROOM_BYTES as u64 + 100);
        assert!(packets[1].bytes().is_empty(), "the next buffer is unchanged");
    }
}
