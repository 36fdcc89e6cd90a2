// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Internet checksum (RFC 1071), its pseudo-headers, and its incremental update (RFC 1624).
//!
//! [`partial`] is for payloads, [`header`] for headers of 20 to 60 bytes, in particular ones just
//! written. [`Sum`] explains sums and how they become checksums.

use crate::{Sum, ffi};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
use core::arch::asm;

/// Value of `byte_swap` for [`reference`](fn@reference) that gives the RFC 1071 checksum on this
/// machine.
pub const BYTE_SWAP: bool = cfg!(target_endian = "big");

/// Adds `bytes` to `sum` with the selected kernel; an odd last byte counts as if followed by a
/// zero.
///
/// Any length and alignment are allowed, but this is a call through a pointer, while [`header`] is
/// inline. To sum a message in pieces, add sums of pieces that begin at even offsets, or
/// [`combine`](Sum::combine) them.
///
/// ```
/// use linerate_kernels::{Sum, checksum};
///
/// let segment = *b"\x0d\x05\x00\x35\x00\x0c\x00\x00ping";
/// let pseudo = checksum::pseudo_ipv4(&[192, 0, 2, 1, 198, 51, 100, 7], 17, 12);
/// let checksum = checksum::partial(&segment, pseudo).finish_udp();
///
/// let mut sent = segment;
/// sent[6..8].copy_from_slice(&checksum.to_be_bytes());
/// assert_eq!(checksum::partial(&sent, pseudo).fold(), 0xffff);
/// ```
#[inline]
pub fn partial(bytes: &[u8], sum: Sum) -> Sum {
    // SAFETY: the slice can be read for its whole length; ensured by its type.
    Sum::from_raw(unsafe { ffi::lr_csum_partial(bytes.as_ptr(), bytes.len(), sum.raw()) })
}

/// As [`partial`], for a header of 20 to 60 bytes: inline, without vector registers, four bytes per
/// load. Longer input is summed as well, but [`partial`] is faster.
///
/// A wide load of bytes from narrower stores that are still in flight waits until those stores have
/// reached the cache; these loads do not wait for fields of four bytes or more. The compiler is
/// kept from merging them on x86-64, AArch64 and 64-bit RISC-V; elsewhere it may merge them.
///
/// Fewer than 2^32 32-bit words cannot overflow 64 bits.
///
/// ```
/// use linerate_kernels::{Sum, checksum};
///
/// let mut header = [
///     0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7,
/// ];
/// let sum = checksum::header(&header, Sum::ZERO).finish();
/// header[10..12].copy_from_slice(&sum.to_be_bytes());
/// assert_eq!(checksum::header(&header, Sum::ZERO).fold(), 0xffff);
/// ```
#[inline]
pub fn header(bytes: &[u8], sum: Sum) -> Sum {
    let (words, rest) = bytes.as_chunks::<4>();
    // In two sums, because each addition waits for the previous one.
    let (pairs, last) = words.as_chunks::<2>();
    let (mut even, mut odd) = (u64::from(sum.raw()), 0);
    for [first, second] in pairs {
        even += opaque(u32::from_ne_bytes(*first).into());
        odd += opaque(u32::from_ne_bytes(*second).into());
    }
    if let [word] = last {
        even += opaque(u32::from_ne_bytes(*word).into());
    }
    if !rest.is_empty() {
        odd += last_bytes(rest);
    }
    Sum::from_wide(even + odd)
}

/// Copies a header and adds it to a sum, loading each word once: [`header`] for data that is copied
/// anyway.
///
/// # Panics
/// If the lengths differ, or are not a multiple of 4.
///
/// ```
/// use linerate_kernels::{Sum, checksum};
///
/// let header = [0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0xac, 0x6f, 192, 0, 2, 1, 198, 51, 100, 7];
/// let mut copy = [0; 20];
/// let sum = checksum::copy_header(&mut copy, &header, Sum::ZERO);
/// assert_eq!((copy, sum), (header, checksum::header(&header, Sum::ZERO)));
/// ```
#[inline]
pub fn copy_header(to: &mut [u8], from: &[u8], sum: Sum) -> Sum {
    let (words, rest) = from.as_chunks::<4>();
    let (places, rest_of_places) = to.as_chunks_mut::<4>();
    assert!(words.len() == places.len() && rest.is_empty() && rest_of_places.is_empty());
    let (pairs, last) = words.as_chunks::<2>();
    let (places, last_place) = places.as_chunks_mut::<2>();
    let (mut even, mut odd) = (u64::from(sum.raw()), 0);
    for (place, [first, second]) in places.iter_mut().zip(pairs) {
        let first = opaque(u32::from_ne_bytes(*first).into());
        let second = opaque(u32::from_ne_bytes(*second).into());
        *place = [(first as u32).to_ne_bytes(), (second as u32).to_ne_bytes()];
        even += first;
        odd += second;
    }
    if let ([place], [word]) = (last_place, last) {
        let word = opaque(u32::from_ne_bytes(*word).into());
        *place = (word as u32).to_ne_bytes();
        even += word;
    }
    Sum::from_wide(even + odd)
}

/// The word that begins with these bytes, at most three.
#[cold]
fn last_bytes(rest: &[u8]) -> u64 {
    let mut word = [0; 4];
    word[..rest.len()].copy_from_slice(rest);
    u32::from_ne_bytes(word).into()
}

/// Hides from the compiler where a word came from, on the architectures listed. It would merge
/// narrow loads into wide ones: without this, rustc 1.95 loads the first 16 bytes of a 20-byte
/// header with one vector load.
#[inline(always)]
fn opaque(word: u64) -> u64 {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
    let word = {
        let mut word = word;
        // SAFETY: no instruction and no memory, only a comment in the assembly; ensured here.
        unsafe {
            asm!("/* {0} */", inout(reg) word, options(pure, nomem, nostack, preserves_flags));
        }
        word
    };
    word
}

/// The sum of the pseudo-header of TCP and UDP over IPv4 (RFC 9293, 3.1; RFC 768). `addresses`
/// holds source and destination in network byte order; `bytes` is the length of the segment with
/// its header.
#[inline]
pub fn pseudo_ipv4(addresses: &[u8; 8], protocol: u8, bytes: u16) -> Sum {
    header(addresses, Sum::of_number(u32::from(protocol) + u32::from(bytes)))
}

/// The sum of the pseudo-header over IPv6 (RFC 8200, 8.1). `addresses` holds source and final
/// destination; `bytes` is the upper-layer packet length, `next_header` that of the upper layer.
#[inline]
pub fn pseudo_ipv6(addresses: &[u8; 32], next_header: u8, bytes: u32) -> Sum {
    header(addresses, Sum::of_number(bytes)) + Sum::of_number(next_header.into())
}

/// Returns the checksum after a change of one 16-bit word that it covers (RFC 1624, equation 3);
/// all three arguments are in host order, or all three in network order. Not for a UDP checksum of
/// zero, which means that there is no checksum.
///
/// ```
/// // The example of RFC 1624, section 4.
/// assert_eq!(linerate_kernels::checksum::update(0xdd2f, 0x5555, 0x3285), 0x0000);
/// ```
#[inline]
pub fn update(checksum: u16, before: u16, after: u16) -> u16 {
    let mut change = Change::default();
    change.word(before, after);
    change.apply(checksum)
}

/// Words that changed together: one delta applies to every checksum that covers them, such as the
/// IP and TCP checksums after an address change. Up to 2^15 words.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change(u64);

impl Change {
    /// Adds the change of one 16-bit word at an even offset.
    #[inline]
    pub fn word(&mut self, before: u16, after: u16) {
        self.0 += u64::from(!before) + u64::from(after);
    }

    /// Adds the change of two 16-bit words, such as an address.
    #[inline]
    pub fn long(&mut self, before: u32, after: u32) {
        let before = !before;
        self.0 += u64::from(before >> 16) + u64::from(before & 0xffff);
        self.0 += u64::from(after >> 16) + u64::from(after & 0xffff);
    }

    /// The checksum after the change: HC' = ~(~HC + ~m + m').
    #[inline]
    pub fn apply(self, checksum: u16) -> u16 {
        let mut sum = self.0 + u64::from(!checksum);
        // At most 2^16 numbers below 2^16, plus the checksum, so the sum is below 2^32: the first
        // fold leaves at most 2^17 - 2, the second at most 2^16 - 1.
        sum = (sum >> 16) + (sum & 0xffff);
        sum = (sum >> 16) + (sum & 0xffff);
        !(sum as u16)
    }
}

/// The specification: adds the bytes to `sum` two at a time and returns the complement of the
/// folded result, in the byte order of the machine, so that with [`BYTE_SWAP`] it equals
/// `partial(bytes, sum).finish().to_be()`. Use it for checks, not for real work.
///
/// `byte_swap` selects the half of its word that an odd last byte goes into: `false` is the low
/// half, which is right on little-endian machines, `true` the high half.
pub fn reference(bytes: &[u8], sum: Sum, byte_swap: bool) -> u16 {
    let (at, bytes) = (bytes.as_ptr(), bytes.len());
    // SAFETY: the slice can be read for its whole length; ensured by its type.
    unsafe { ffi::lr_checksum16(at, bytes, sum.raw(), byte_swap.into()) }
}
