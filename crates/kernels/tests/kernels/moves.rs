// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that copies and fills write exactly the given bytes.

use crate::rig::{kernels, lengths, noise, rfc1071};
use linerate_kernels::{Kernels, Sum, copy, copy_checksum, fill};

const GUARD: usize = 70;

/// Passes `wanted.len()` bytes at offset `start` of a buffer to `write`, and checks that these
/// bytes become `wanted` and that the bytes around them do not change.
#[track_caller]
fn written(start: usize, wanted: &[u8], write: impl FnOnce(&mut [u8])) {
    let before = noise(GUARD + start + wanted.len() + GUARD, 99);
    let mut after = before.clone();
    let (first, last) = (GUARD + start, GUARD + start + wanted.len());
    write(&mut after[first..last]);
    assert!(after[first..last] == *wanted, "wrong bytes: {} at {start}", wanted.len());
    assert!(after[..first] == before[..first], "changed bytes before: {} at {start}", wanted.len());
    assert!(after[last..] == before[last..], "changed bytes after: {} at {start}", wanted.len());
}

/// Returns the source and destination offsets: equal, one varying, both varying independently.
fn offsets() -> impl Iterator<Item = (usize, usize)> {
    (0..64).step_by(9).flat_map(|i| [(i, i), (i, 0), (0, i), (i, 63 - i)])
}

fn moves(k: &Kernels, source: &[u8], length: usize, from: usize, to: usize) {
    let src = &source[from..from + length];
    written(to, src, |dst| k.copy(dst, src));
    let seed = Sum::from_raw(0xffff_fffe);
    let truth = k.checksum(src, seed).fold();
    written(to, src, |dst| {
        assert_eq!(k.copy_checksum(dst, src, seed).fold(), truth, "{} {length}", k.name());
    });
    for value in [0x00, 0x5a, 0xff] {
        written(to, &vec![value; length], |dst| k.fill(dst, value));
    }
}

#[test]
fn every_variant_moves_the_bytes_named_and_no_others() {
    let source = noise(2200, 5);
    for k in &kernels() {
        for length in lengths().filter(|n| n % 3 != 1 || *n < 100) {
            for (from, to) in offsets() {
                moves(k, &source, length, from, to);
            }
        }
    }
}

#[test]
fn the_functions_move_as_the_kernels_do() {
    let source = noise(2200, 6);
    for length in lengths() {
        let src = &source[1..=length];
        written(2, src, |dst| copy(dst, src));
        written(3, src, |dst| {
            assert_eq!(copy_checksum(dst, src, Sum::ZERO).fold(), rfc1071(src), "{length}");
        });
        written(4, &vec![0xa5; length], |dst| fill(dst, 0xa5));
    }
}

/// Header that defines the length at which variants switch to nontemporal stores.
const BODY: &str = include_str!("../../native/kernels/body.h");

#[test]
fn copies_that_stream_are_whole() {
    assert!(BODY.contains("#define LR_STREAM_BYTES ((size_t)12 << 20)"), "the threshold differs");
    let source = noise((12 << 20) + 70, 8);
    for k in &kernels() {
        let mut to = vec![0; source.len()];
        k.copy(&mut to[5..], &source[5..]);
        assert!(to[5..] == source[5..], "{}", k.name());
        to.fill(0);
        let sum = k.copy_checksum(&mut to[3..], &source[3..], Sum::ZERO);
        assert!(to[3..] == source[3..], "{}", k.name());
        assert_eq!(sum.fold(), k.checksum(&source[3..], Sum::ZERO).fold(), "{}", k.name());
        k.fill(&mut to[1..], 0x77);
        assert!(to[0] == 0 && to[1..].iter().all(|&byte| byte == 0x77), "{}", k.name());
    }
}

#[test]
#[should_panic(expected = "source and destination differ in length: 20 and 21 bytes")]
fn a_longer_destination_is_refused() {
    copy(&mut [0; 21], &[0; 20]);
}

#[test]
#[should_panic(expected = "source and destination differ in length: 20 and 19 bytes")]
fn a_shorter_destination_is_refused() {
    copy_checksum(&mut [0; 19], &[0; 20], Sum::ZERO);
}

#[test]
#[should_panic(expected = "differ in length")]
fn kernels_refuse_to_copy_between_lengths() {
    Kernels::selected().copy(&mut [0; 1], &[]);
}

#[test]
#[should_panic(expected = "differ in length")]
fn kernels_refuse_to_copy_and_sum_between_lengths() {
    Kernels::selected().copy_checksum(&mut [], &[0; 1], Sum::ZERO);
}
