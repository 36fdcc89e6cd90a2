// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks combined sums, pseudo-headers and incremental updates against the sum of the bytes
//! themselves.

use crate::rig::rfc1071;
use linerate_kernels::Sum;
use linerate_kernels::checksum::{
    Change, header, partial, pseudo_ipv4, pseudo_ipv6, reference, update,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn sum(bytes: &[u8]) -> Sum {
    partial(bytes, Sum::ZERO)
}

/// Returns a message of whole words with its checksum in word `at`.
fn sealed(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
    bytes[2 * at..2 * at + 2].fill(0);
    let checksum = sum(&bytes).finish().to_be_bytes();
    bytes[2 * at..2 * at + 2].copy_from_slice(&checksum);
    bytes
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[2 * at], bytes[2 * at + 1]])
}

fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from(word(bytes, at)) << 16 | u32::from(word(bytes, at + 1))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fragments_join_at_any_offset(
        bytes in vec(any::<u8>(), 0..600),
        cuts in vec(0..600usize, 0..6),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let joined = cuts.windows(2).fold(Sum::ZERO, |before, ends| {
            before.combine(sum(&bytes[ends[0]..ends[1]]), ends[0])
        });
        prop_assert_eq!(joined.fold(), rfc1071(&bytes));
    }

    #[test]
    fn sums_add_in_any_order_and_zero_only_to_zero(a: u32, b: u32, c: u32) {
        let [x, y, z] = [a, b, c].map(Sum::from_raw);
        prop_assert_eq!(((x + y) + z).fold(), ((z + y) + x).fold());
        prop_assert_eq!((x + y) == Sum::ZERO, a == 0 && b == 0);
        prop_assert_eq!(x.combine(y, 1) == Sum::ZERO, a == 0 && b == 0);
        let remainder = |n: u32| u64::from(n) % 65535;
        let folded = u64::from((x + y).fold().to_be());
        prop_assert_eq!(folded % 65535, (remainder(a) + remainder(b)) % 65535);
    }

    #[test]
    fn seeds_of_any_size_count_in_full(bytes in vec(any::<u8>(), 0..70), seed: u32) {
        let seed = Sum::from_raw(seed);
        let truth = reference(&bytes, seed, linerate_kernels::checksum::BYTE_SWAP);
        prop_assert_eq!(partial(&bytes, seed).finish().to_be(), truth);
        prop_assert_eq!(header(&bytes, seed).finish().to_be(), truth);
    }

    #[test]
    fn a_checksum_written_makes_the_message_intact(bytes in vec(any::<u8>(), 1..40), at: usize) {
        let words = bytes.len();
        let bytes = sealed([bytes.clone(), bytes].concat(), at % words);
        prop_assert_eq!(sum(&bytes).fold(), 0xffff);
        prop_assert_eq!(header(&bytes, Sum::ZERO).fold(), 0xffff);
    }

    #[test]
    fn pseudo_header_of_ipv4_is_its_bytes(addresses: [u8; 8], protocol: u8, bytes: u16) {
        let flat = [&addresses[..], &[0, protocol], &bytes.to_be_bytes()].concat();
        prop_assert_eq!(pseudo_ipv4(&addresses, protocol, bytes).fold(), rfc1071(&flat));
    }

    #[test]
    fn pseudo_header_of_ipv6_is_its_bytes(addresses: [u8; 32], next_header: u8, bytes: u32) {
        let flat = [&addresses[..], &bytes.to_be_bytes(), &[0, 0, 0, next_header]].concat();
        prop_assert_eq!(pseudo_ipv6(&addresses, next_header, bytes).fold(), rfc1071(&flat));
    }

    /// The checksum is in word 5. The test changes words 0 and 6, and the address in words 8 and 9.
    #[test]
    fn an_updated_checksum_equals_a_new_one(
        bytes in vec(any::<u8>(), 20),
        new in vec(any::<u8>(), 20),
    ) {
        let old = sealed(bytes, 5);
        let mut changed = old.clone();
        let mut change = Change::default();
        for at in [0, 6] {
            changed[2 * at..2 * at + 2].copy_from_slice(&new[2 * at..2 * at + 2]);
            change.word(word(&old, at), word(&changed, at));
        }
        changed[16..20].copy_from_slice(&new[16..20]);
        change.long(long(&old, 8), long(&changed, 8));

        let updated = change.apply(word(&old, 5));
        let by_words = [0, 6, 8, 9].iter().fold(word(&old, 5), |checksum, &at| {
            update(checksum, word(&old, at), word(&changed, at))
        });
        let fresh = word(&sealed(changed.clone(), 5), 5);
        prop_assert_eq!(updated, by_words);
        // A message of all zeros has two valid checksums; any other message has one.
        let zeros = |bytes: &[u8]| [&bytes[..10], &bytes[12..]].concat().iter().all(|o| *o == 0);
        if !zeros(&old) && !zeros(&changed) {
            prop_assert_eq!(updated, fresh);
        }
    }
}

#[test]
fn udp_sends_its_checksum_but_never_zero() {
    let ones = sum(&[0xff; 8]);
    assert_eq!((ones.finish(), ones.finish_udp()), (0, 0xffff));
    assert_eq!((Sum::ZERO.finish(), Sum::ZERO.finish_udp()), (0xffff, 0xffff));
    let other = sum(&[0x12, 0x34]);
    assert_eq!((other.finish(), other.finish_udp()), (0xedcb, 0xedcb));
}

#[test]
fn pseudo_headers_of_largest_numbers() {
    let flat = [&[0xff; 8][..], &[0, 0xff], &[0xff; 2]].concat();
    assert_eq!(pseudo_ipv4(&[0xff; 8], 0xff, u16::MAX).fold(), rfc1071(&flat));
    let flat = [&[0xff; 36][..], &[0, 0, 0, 0xff]].concat();
    assert_eq!(pseudo_ipv6(&[0xff; 32], 0xff, u32::MAX).fold(), rfc1071(&flat));
}

#[test]
fn update_avoids_the_error_of_rfc_1141() {
    // RFC 1624, section 4: the checksum becomes +0, where equation 2 would give 0xffff.
    assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
}

#[test]
fn a_change_holds_as_many_words_as_it_says() {
    let mut change = Change::default();
    for _ in 0..1 << 14 {
        change.long(0, u32::MAX);
    }
    // Each word increases by 0xffff, which is zero in ones' complement.
    assert_eq!(change.apply(0x1234), 0x1234);
}

#[test]
fn the_example_of_rfc_1071() {
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(sum(&bytes).fold(), 0xddf2);
    assert_eq!(header(&bytes, Sum::ZERO).fold(), 0xddf2);
}
