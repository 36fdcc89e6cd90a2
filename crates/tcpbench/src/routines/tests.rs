// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that sets contain the advertised routines, and that calls are recorded.

use super::*;

#[test]
fn every_set_does_what_it_should() {
    for set in Set::all() {
        assert_eq!(set.check(), Ok(()), "{}", set.name());
    }
}

#[test]
fn a_routine_that_is_wrong_by_a_carry_is_found() {
    let wrong = Set::from_routines(Routines::wrong_by_a_carry()).check();
    let text = wrong.expect_err("the checksum is wrong").to_string();
    assert!(text.contains("`wrong`") && text.contains("the sum is"), "{text}");
}

#[test]
fn names_are_unique_and_found_and_others_are_listed() {
    let all = Set::all();
    for (i, set) in all.iter().enumerate() {
        assert!(all[..i].iter().all(|other| other.name() != set.name()), "{}", set.name());
        assert_eq!(Set::find(set.name()).map(|found| found.name()), Ok(set.name()));
    }
    for name in [SELECTED, DOCUMENT, LIBC, STACK, OFF, Set::scalar()] {
        assert!(Set::find(name).is_ok(), "{name}");
    }
    let text = Set::find("mmx").expect_err("no such set").to_string();
    assert!(all.iter().all(|set| text.contains(set.name())), "{text}");
}

/// Each observed call is counted once, with its bytes and their alignment.
#[test]
fn what_is_watched_is_counted() {
    let mut seam = Seam::new(Routines::document());
    let from = vec![7; 300];
    let mut to = vec![0; 300];
    seam.checksum(&from, 0);
    assert_eq!(seam.tallies(), Tallies::default(), "not watched yet");
    seam.watch(Some(Reading::Waiting));
    let at = (8 - from.as_ptr().addr() % 8) % 8;
    seam.checksum(&from[at..][..100], 0);
    seam.copy(&mut to[..3], &from[..3]);
    seam.copy_checksum(&mut to[..0], &from[..0], 0);
    let tallies = seam.tallies();
    assert_eq!((tallies.checksum.calls, tallies.checksum.bytes), (2, 100), "two passes");
    assert_eq!((tallies.copy.calls, tallies.copy.bytes), (2, 3));
    assert_eq!(tallies.checksum.lengths[7], 1, "64 to 127 bytes");
    assert_eq!((tallies.copy.lengths[0], tallies.copy.lengths[2]), (1, 1));
    let twice = tallies.clone() + &tallies;
    assert_eq!(twice.checksum.alignments.iter().sum::<u64>(), 4);
    assert_eq!(tallies.copy_checksum, Tally::default());
    let sum = seam.header(&from[..20], Sum::ZERO);
    assert_eq!(seam.copy_header(&mut to[..40], &from[..40], Sum::ZERO), sum + sum);
    let inline = seam.tallies();
    assert_eq!((inline.header.bytes, inline.copy_header.bytes), (20, 40));
    assert_eq!((inline.header.timed, inline.checksum.timed), (0, inline.checksum.calls));
    assert_eq!((&inline.checksum, &inline.copy), (&tallies.checksum, &tallies.copy));
}
