// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same seed gives the same segments: twice, with any set, and however this was compiled, for
//! the counts stand here.

use linerate_record::tcp::TcpProof;
use linerate_tcpbench::pattern::Pattern;
use linerate_tcpbench::proof::{ROUGH, little, prove};
use linerate_tcpbench::routines::Set;
use linerate_tcpbench::session::Setup;
use linerate_tcpbench::smol::Smoltcp;

fn proof(pattern: Pattern, seed: u64, set: &str) -> TcpProof {
    let setup = Setup { impairments: ROUGH, seed, ..Setup::of(pattern) };
    let set = Set::find(set).expect("a set");
    prove(&setup, [&Smoltcp, &Smoltcp], &set, little(pattern)).expect("it gets through")
}

#[test]
fn segments_are_those_of_the_seed() {
    let counts = Pattern::ALL.map(|pattern| {
        let first = proof(pattern, 1, "selected");
        assert_eq!(first, proof(pattern, 1, "selected"), "{pattern} twice");
        assert_eq!(first, proof(pattern, 1, "document"), "{pattern} with other routines");
        assert_ne!(first, proof(pattern, 2, "selected"), "{pattern} by another seed");
        (first.segments, first.lost, first.corrupted)
    });
    assert_eq!(counts, COUNTS);
}

/// Segments, those lost, those damaged, by pattern.
const COUNTS: [(u64, u64, u64); 5] =
    [(6221, 30, 36), (4042, 23, 23), (3110, 19, 18), (8692, 46, 45), (7122, 37, 40)];
