// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same seed gives the same segments in every run, with any routine set, and in any build: the
//! expected counts are constants.

use linerate_record::tcp::TcpProof;
use linerate_tcpbench::Stack;
use linerate_tcpbench::lwip::Lwip;
use linerate_tcpbench::pattern::Pattern;
use linerate_tcpbench::proof::{ROUGH, little, prove};
use linerate_tcpbench::routines::Set;
use linerate_tcpbench::session::Setup;
use linerate_tcpbench::smol::Smoltcp;

fn proof(stack: &dyn Stack, pattern: Pattern, seed: u64, set: &str) -> TcpProof {
    let setup = Setup { impairments: ROUGH, seed, ..Setup::for_pattern(pattern) };
    let set = Set::find(set).expect("a set");
    prove(&setup, [stack, stack], &set, little(pattern)).expect("the run completes")
}

fn counts(stack: &dyn Stack) -> [Counts; 5] {
    Pattern::ALL.map(|pattern| {
        let what = format!("{}, {pattern}", stack.name());
        let first = proof(stack, pattern, 1, "selected");
        assert_eq!(first, proof(stack, pattern, 1, "selected"), "{what}, twice");
        assert_eq!(first, proof(stack, pattern, 1, "document"), "{what}, with other routines");
        assert_ne!(first, proof(stack, pattern, 2, "selected"), "{what}, with another seed");
        (first.segments, first.lost, first.corrupted)
    })
}

#[test]
fn segments_are_those_of_the_seed() {
    assert_eq!(counts(&Smoltcp), SMOLTCP);
    let lwip = Lwip::new();
    match lwip.check(1460).and_then(|()| lwip.check(8000)) {
        Ok(()) => assert_eq!(counts(&lwip), LWIP),
        Err(error) => println!("SKIP: {error}"),
    }
}

/// Segments sent, lost, and corrupted.
type Counts = (u64, u64, u64);

/// smoltcp's expected counts by pattern.
const SMOLTCP: [Counts; 5] =
    [(6221, 30, 36), (4042, 23, 23), (3110, 19, 18), (8692, 46, 45), (7122, 37, 40)];
const LWIP: [Counts; 5] =
    [(5208, 27, 30), (2084, 13, 10), (3788, 22, 21), (2601, 15, 14), (7146, 37, 40)];
