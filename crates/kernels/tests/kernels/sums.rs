// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests sums of bytes against RFC 1071.

use crate::rig::{fills, kernels, lengths, noise, rfc1071};
use linerate_kernels::checksum::Buffer;
use linerate_kernels::{Sum, checksum};

#[test]
fn every_variant_sums_as_defined() {
    let kernels = kernels();
    for fill in fills(2200) {
        for length in lengths() {
            for start in (0..64).step_by(if length < 70 { 1 } else { 7 }) {
                let bytes = &fill[start..start + length];
                let truth = rfc1071(bytes);
                assert_eq!(checksum::partial(bytes, Sum::ZERO).fold(), truth, "{length}, {start}");
                assert_eq!(checksum::header(bytes, Sum::ZERO).fold(), truth, "{length}, {start}");
                for k in &kernels {
                    let sum = k.checksum(bytes, Sum::ZERO).fold();
                    assert_eq!(sum, truth, "{}: {length} bytes at {start}", k.name());
                }
            }
        }
    }
}

#[test]
fn the_reference_of_the_kernels_is_the_definition() {
    for fill in fills(2200) {
        for length in lengths() {
            let bytes = &fill[1..=length];
            let complement = checksum::reference(bytes, Sum::ZERO, checksum::BYTE_SWAP);
            assert_eq!(!u16::from_be(complement), rfc1071(bytes), "{length}");
        }
    }
    let odd = checksum::reference(&[0xab], Sum::ZERO, !checksum::BYTE_SWAP);
    assert_eq!(!u16::from_be(odd), 0x00ab, "the odd byte is in the wrong half for this byte order");
}

#[test]
fn a_burst_is_the_sum_of_each_buffer() {
    let mut random = fastrand::Rng::with_seed(5);
    let seeds = [0, 1, 0xffff, 0x1_0000, u32::MAX].map(Sum::from_raw);
    for fill in fills(2200) {
        for limit in [1, 20, 64, 65, 128, 129, 255, 256, 257, 1500] {
            for count in 0..=40 {
                let mut part = || {
                    let (start, bytes) = (random.usize(..64), random.usize(..=limit));
                    (&fill[start..start + bytes], seeds[random.usize(..seeds.len())])
                };
                let parts: Vec<(&[u8], Sum)> = (0..count).map(|_| part()).collect();
                let buffers: Vec<Buffer<'_>> =
                    parts.iter().map(|(bytes, _)| Buffer::new(bytes)).collect();
                let truth: Vec<u16> = parts
                    .iter()
                    .map(|(bytes, seed)| (Sum::from_raw(of(bytes).into()) + *seed).fold())
                    .collect();
                let folded = |sum: &dyn Fn(&mut [Sum])| {
                    let mut sums: Vec<Sum> = parts.iter().map(|(_, seed)| *seed).collect();
                    sum(&mut sums);
                    sums.into_iter().map(Sum::fold).collect::<Vec<u16>>()
                };
                assert_eq!(folded(&|sums| checksum::burst(&buffers, sums)), truth, "{limit}");
                for k in &kernels() {
                    let sums = folded(&|sums| k.checksum_burst(&buffers, sums));
                    assert_eq!(sums, truth, "{}: {count} of at most {limit} bytes", k.name());
                }
            }
        }
    }
}

/// Returns the sum by RFC 1071, as the raw value of a [`Sum`].
fn of(bytes: &[u8]) -> u16 {
    rfc1071(bytes).to_be()
}

#[test]
#[should_panic(expected = "2 buffers, but 1 sums")]
fn a_burst_needs_a_sum_per_buffer() {
    checksum::burst(&[Buffer::default(); 2], &mut [Sum::ZERO]);
}

#[test]
fn a_buffer_gives_its_bytes_back() {
    assert_eq!(Buffer::new(b"ping").bytes(), b"ping");
    assert_eq!(format!("{:?}", Buffer::default()), "Buffer([])");
}

#[test]
fn a_sum_continues_an_earlier_one() {
    let bytes = noise(1500, 3);
    let truth = rfc1071(&bytes);
    for k in &kernels() {
        for cut in (0..1500).step_by(86) {
            let first = k.checksum(&bytes[..cut], Sum::ZERO);
            assert_eq!(k.checksum(&bytes[cut..], first).fold(), truth, "{} {cut}", k.name());
        }
    }
}

#[test]
fn a_sum_is_zero_only_for_zeros() {
    for k in &kernels() {
        for length in lengths() {
            let mut bytes = vec![0; length];
            assert_eq!(k.checksum(&bytes, Sum::ZERO), Sum::ZERO, "{} {length}", k.name());
            for seed in [0xffff, 0xffff_0000, 0xffff_ffff] {
                let sum = k.checksum(&bytes, Sum::from_raw(seed)).fold();
                assert_eq!(sum, 0xffff, "{} {length}: seed {seed:x}", k.name());
            }
            bytes.fill(0xff);
            bytes.truncate(length & !1);
            let ones = if bytes.is_empty() { 0 } else { 0xffff };
            assert_eq!(k.checksum(&bytes, Sum::ZERO).fold(), ones, "{} {length}", k.name());
        }
    }
}

#[test]
fn the_largest_seed_does_not_lose_a_carry() {
    let bytes = vec![0xff; 65_534];
    for k in &kernels() {
        for seed in [u32::MAX, u32::MAX - 1, 0x8000_0000, 0xffff_0001] {
            let alone = Sum::from_raw(seed);
            let both = k.checksum(&bytes, alone);
            assert_eq!(both.fold(), (alone + Sum::from_raw(0xffff)).fold(), "{}", k.name());
        }
    }
}
