// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums of bytes.

use crate::rig::{fills, kernels, lengths, noise, rfc1071};
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
    assert_eq!(!u16::from_be(odd), 0x00ab, "an odd byte in the half that is wrong here");
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
