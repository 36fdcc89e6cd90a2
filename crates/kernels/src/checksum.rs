// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Internet checksum (RFC 1071), its pseudo-headers, and its incremental update (RFC 1624).
//!
//! [`partial`] is for payloads, [`burst`] for the payloads of several packets at once, [`header`]
//! for headers of 20 to 60 bytes, especially those that have just been written. [`Sum`] explains
//! sums and how they become checksums.

pub use crate::buffer::Buffer;

use crate::buffer::assert_equal_counts;
use crate::{Sum, ffi};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
use core::arch::asm;

/// Value of `byte_swap` with which [`reference`](fn@reference) returns the RFC 1071 checksum on
/// this machine.
pub const BYTE_SWAP: bool = cfg!(target_endian = "big");

/// Adds `bytes` to `sum` with the selected kernel; an odd last byte counts as if followed by a
/// zero.
///
/// Any length and alignment are allowed, but the call goes through a pointer, while [`header`] is
/// inline. To sum a message in parts, add the sums of parts that begin at even offsets, or
/// [`combine`](Sum::combine) the sums.
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

/// Longest buffer, in bytes, for which [`burst`] is faster than [`partial`]. Collecting longer
/// buffers into a burst gains nothing: sum them one by one.
pub const BURST_BYTES: usize = 255;

/// Adds the bytes of each buffer to the sum at the same index, as [`partial`] does, with the
/// selected kernel. On x86-64 with AVX-512, buffers of up to [`BURST_BYTES`] are summed several at
/// a time, which takes about half as long for 128 bytes; on other machines, buffers are summed one
/// after the other.
///
/// Summing bytes that have just been stored may stall (see [`header`]). In a burst, these stalls
/// overlap; for a single header that has just been written, use [`header`] instead.
///
/// # Panics
/// Panics if the number of sums differs from the number of buffers.
///
/// ```
/// use linerate_kernels::Sum;
/// use linerate_kernels::checksum::{self, Buffer};
///
/// let (ping, pong) = ([8, 0, 0xf7, 0xff, 0, 0, 0, 0], [0, 0, 0xff, 0xff, 0, 0, 0, 0]);
/// let mut sums = [Sum::ZERO; 2];
/// checksum::burst(&[Buffer::new(&ping), Buffer::new(&pong)], &mut sums);
/// assert_eq!(sums.map(Sum::fold), [0xffff; 2]);
/// ```
#[inline]
#[track_caller]
pub fn burst(buffers: &[Buffer<'_>], sums: &mut [Sum]) {
    assert_equal_counts(buffers, sums);
    // SAFETY: the types ensure that all bytes can be read and all sums be written; the line above
    // ensures that there are equally many buffers and sums.
    unsafe { ffi::lr_csum_burst(buffers.as_ptr(), sums.as_mut_ptr(), buffers.len()) };
}

/// Like [`partial`], but for a header of 20 to 60 bytes: inline, without vector registers, and with
/// four bytes per load. Longer input works too, but [`partial`] is faster for it.
///
/// A wide load that covers bytes from narrower stores still in flight cannot be served by store
/// forwarding, and stalls until the stores have reached the cache. The loads of this function do
/// not stall on fields of four bytes or more. The compiler is kept from merging these loads on
/// x86-64, AArch64 and 64-bit RISC-V; elsewhere it may merge them.
///
/// The sum of fewer than 2^32 32-bit words cannot overflow 64 bits.
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
    // Two independent sums, because each addition to a sum has to wait for the previous one.
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

/// Copies a header and adds it to a sum, loading each word once. Use this instead of [`header`] for
/// data that is copied anyway.
///
/// # Panics
/// Panics if the lengths differ or are not a multiple of 4.
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

/// Returns the word that begins with the given bytes (at most three), padded with zeros.
#[cold]
fn last_bytes(rest: &[u8]) -> u64 {
    let mut word = [0; 4];
    word[..rest.len()].copy_from_slice(rest);
    u32::from_ne_bytes(word).into()
}

/// Hides the origin of a word from the compiler, on the architectures listed below. Otherwise, the
/// compiler may merge narrow loads into wide ones: without this function, rustc 1.95 loads the
/// first 16 bytes of a 20-byte header with one vector load.
#[inline(always)]
fn opaque(word: u64) -> u64 {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
    let word = {
        let mut word = word;
        // SAFETY: the assembly consists only of a comment: it executes no instruction and accesses
        // no memory.
        unsafe {
            asm!("/* {0} */", inout(reg) word, options(pure, nomem, nostack, preserves_flags));
        }
        word
    };
    word
}

/// Returns the sum of the TCP or UDP pseudo-header over IPv4 (RFC 9293, 3.1; RFC 768). `addresses`
/// holds the source and destination addresses in network byte order; `bytes` is the length of the
/// segment, including its header.
#[inline]
pub fn pseudo_ipv4(addresses: &[u8; 8], protocol: u8, bytes: u16) -> Sum {
    header(addresses, Sum::of_number(u32::from(protocol) + u32::from(bytes)))
}

/// Returns the sum of the pseudo-header over IPv6 (RFC 8200, 8.1). `addresses` holds the source and
/// final destination addresses; `bytes` is the upper-layer packet length, and `next_header` is the
/// upper layer's next-header number.
#[inline]
pub fn pseudo_ipv6(addresses: &[u8; 32], next_header: u8, bytes: u32) -> Sum {
    header(addresses, Sum::of_number(bytes)) + Sum::of_number(next_header.into())
}

/// Returns the checksum after one 16-bit word that it covers has changed (RFC 1624, equation 3).
/// The three arguments are either all in host order or all in network order. Do not use this for a
/// UDP checksum of zero, which means that there is no checksum.
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

/// The combined change of up to 2^15 16-bit words. It can be applied to every checksum that covers
/// these words, such as the IP and TCP checksums after an address change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change(u64);

impl Change {
    /// Adds the change of one 16-bit word at an even offset.
    #[inline]
    pub fn word(&mut self, before: u16, after: u16) {
        self.0 += u64::from(!before) + u64::from(after);
    }

    /// Adds the change of two adjacent 16-bit words, such as an IPv4 address.
    #[inline]
    pub fn long(&mut self, before: u32, after: u32) {
        let before = !before;
        self.0 += u64::from(before >> 16) + u64::from(before & 0xffff);
        self.0 += u64::from(after >> 16) + u64::from(after & 0xffff);
    }

    /// Returns the checksum after the change (RFC 1624, equation 3): ~(~checksum + ~m + m'), where
    /// m stands for the old words and m' for the new ones.
    #[inline]
    pub fn apply(self, checksum: u16) -> u16 {
        let mut sum = self.0 + u64::from(!checksum);
        // `sum` adds up at most 2^16 numbers below 2^16, plus the checksum, so it is below 2^32:
        // the first fold leaves at most 2^17 - 2, the second at most 2^16 - 1.
        sum = (sum >> 16) + (sum & 0xffff);
        sum = (sum >> 16) + (sum & 0xffff);
        !(sum as u16)
    }
}

/// Specification of the checksum: adds the bytes to `sum` two at a time and returns the complement
/// of the folded result, in the machine's byte order. With [`BYTE_SWAP`], the result equals
/// `partial(bytes, sum).finish().to_be()`. For checks only, because it is slow.
///
/// `byte_swap` selects which half of its word an odd last byte goes into: `false` the low half,
/// which is correct on little-endian machines, `true` the high half.
pub fn reference(bytes: &[u8], sum: Sum, byte_swap: bool) -> u16 {
    let (at, bytes) = (bytes.as_ptr(), bytes.len());
    // SAFETY: the slice can be read for its whole length; ensured by its type.
    unsafe { ffi::lr_checksum16(at, bytes, sum.raw(), byte_swap.into()) }
}
