// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a path's output does not depend on its mapping.

mod common;
#[path = "common/conserved.rs"]
mod conserved;

use common::{OPTIONS, mapping, path, run_on_one, stage};
use conserved::assert_conserved;
use linerate_dataplane::{Kept, RunError};
use linerate_path::model::{FullRing, PacketClass, Path, Rate, RunLength, RunOptions, StageUse};
use linerate_record::run::{FailureKind, StageFailure, StageReport};
use std::collections::BTreeMap;

fn edge() -> Path {
    path(vec![stage("drop", "", 0), stage("number", "", 0), stage("trim", "", 0)])
}

/// Returns the packets, grouped by pair of IP addresses, in order of arrival. A pair may have
/// several flows.
fn by_flow(kept: &Kept) -> BTreeMap<Vec<u8>, Vec<(u64, Vec<u8>)>> {
    let mut flows: BTreeMap<Vec<u8>, Vec<(u64, Vec<u8>)>> = BTreeMap::new();
    for (position, _, frame) in kept.iter() {
        // Source and destination address are at offset 26 of the original frame. Four bytes were
        // added before them (the sequence number), and two were trimmed.
        flows.entry(frame[28..36].to_vec()).or_default().push((position, frame.to_vec()));
    }
    flows
}

#[test]
fn every_mapping_gives_the_same_packets_in_the_same_order_per_flow() {
    let path = edge();
    let merged = run_on_one(&path, &mapping(&[(3, 1)]), OPTIONS).expect("merged");
    assert_conserved(&merged.report);
    let expected = by_flow(&merged.kept);
    assert_eq!(merged.kept.len(), 20_000 - 20_000_usize.div_ceil(7));
    assert!(expected.len() > 100, "only {} flows", expected.len());
    let mappings: [&[(usize, u32)]; 7] = [
        &[(1, 1), (2, 1)],
        &[(1, 1), (1, 1), (1, 1)],
        &[(3, 2)],
        &[(3, 4)],
        &[(1, 1), (2, 3)],
        &[(1, 3), (2, 1)],
        &[(1, 2), (1, 3), (1, 2)],
    ];
    for segments in mappings {
        let outcome = run_on_one(&path, &mapping(segments), OPTIONS).expect("mapped");
        assert_conserved(&outcome.report);
        assert_eq!(by_flow(&outcome.kept), expected, "{segments:?}");
    }
}

/// Returns a stage without parameters that processes only some packets.
fn only(class: PacketClass, kind: &str) -> StageUse {
    let name = format!("{kind} {}", class.word());
    StageUse { name, only: class, ..stage(kind, "", 0) }
}

/// Returns a path with separate branches for IPv4 and IPv6, a branch for TCP over either, and a
/// common end.
fn branches() -> Path {
    path(vec![
        stage("classify", "", 0),
        only(PacketClass::Ipv4, "number"),
        only(PacketClass::Ipv6, "drop"),
        only(PacketClass::Tcp, "number"),
        only(PacketClass::Other, "trim"),
    ])
}

/// Returns all ways to divide a chain of `stages` stages into segments.
fn cuts(stages: usize) -> Vec<Vec<usize>> {
    let lengths = |cuts: usize| {
        let mut lengths = vec![1];
        for stage in 1..stages {
            match cuts >> (stage - 1) & 1 {
                1 => lengths.push(1),
                _ => *lengths.last_mut().expect("it has one") += 1,
            }
        }
        lengths
    };
    (0..1 << (stages - 1)).map(lengths).collect()
}

#[test]
fn branches_give_the_same_packets_under_every_mapping() {
    let path = branches();
    let options = RunOptions { length: RunLength::Packets(3_000), ..OPTIONS };
    let of = |segments: &[(usize, u32)]| {
        let outcome = run_on_one(&path, &mapping(segments), options).expect("runs");
        assert_conserved(&outcome.report);
        let total = |part: fn(&StageReport) -> u64| -> Vec<u64> {
            let stages = outcome.report.workers.iter().flat_map(|worker| worker.path_stages());
            let name = |stage: &&StageUse, all: &StageReport| all.name == stage.name;
            let all: Vec<_> = stages.collect();
            let sum = |stage: &StageUse| {
                all.iter().filter(|one| name(&stage, one)).map(|one| part(one)).sum()
            };
            path.stages.iter().map(sum).collect()
        };
        let counts = [total(|stage| stage.packets), total(|stage| stage.bypassed)];
        let mut packets: Vec<(u64, Vec<u8>)> =
            outcome.kept.iter().map(|(position, _, frame)| (position, frame.to_vec())).collect();
        if segments.iter().all(|(_, replicas)| *replicas == 1) {
            assert!(packets.is_sorted_by_key(|(position, _)| *position), "{segments:?}");
        }
        packets.sort_unstable();
        (counts, packets)
    };
    let expected = of(&[(5, 1)]);
    let [processed, bypassed] = &expected.0;
    assert_eq!(processed[0], 3_000);
    assert!(processed.iter().all(|packets| *packets > 100), "{processed:?}");
    assert!(bypassed[1..].iter().all(|packets| *packets > 100), "{bypassed:?}");
    assert_eq!((bypassed[0], processed[1] + bypassed[1]), (0, 3_000));
    for lengths in cuts(5) {
        for replicas in [1, 2] {
            let segments: Vec<_> = lengths.iter().map(|length| (*length, replicas)).collect();
            assert_eq!(of(&segments), expected, "{segments:?}");
        }
    }
}

#[test]
fn a_branch_that_panics_holds_the_packets_that_go_round_it() {
    let mut path = branches();
    path.stages[2] = StageUse { only: PacketClass::Ipv6, ..stage("fail early", "bursts", 3) };
    for segments in [&[(5, 1)][..], &[(2, 1), (3, 1)]] {
        let error = run_on_one(&path, &mapping(segments), OPTIONS).expect_err("it is broken");
        let RunError::StageFailed { failure, report } = error else { panic!("{error}") };
        assert_eq!(failure.stage, "fail early");
        let mut stages = report.workers.iter().flat_map(|worker| &worker.stages);
        let broken = stages.find(|stage| stage.name == "fail early").expect("it ran");
        assert!(broken.ledger.held.packets > broken.packets.min(32) / 2, "{broken:?}");
        assert!(broken.bypassed > 0);
        for worker in &report.workers {
            assert!(worker.stages.iter().all(|stage| stage.ledger.is_conserved()), "{worker:?}");
        }
    }
}

#[test]
fn bursts_and_rings_of_any_size_lose_nothing() {
    let path = edge();
    for (burst, ring) in [(1, 2), (7, 4), (256, 2), (256, 1024)] {
        let options = RunOptions { burst, ring, ..OPTIONS };
        let outcome = run_on_one(&path, &mapping(&[(1, 2), (2, 2)]), options).expect("runs");
        assert_conserved(&outcome.report);
        let taken: u64 = outcome.report.workers.iter().take(2).map(|s| s.stages[0].packets).sum();
        assert_eq!(taken, 20_000, "burst {burst}, ring {ring}");
    }
}

#[test]
fn a_full_ring_drops_if_configured_and_counts_the_drops() {
    let path = path(vec![stage("drop", "", 0), stage("spin", "turns", 300)]);
    let options = RunOptions { full_ring: FullRing::Drop, ring: 8, ..OPTIONS };
    let report = run_on_one(&path, &mapping(&[(1, 1), (1, 1)]), options).expect("runs").report;
    assert_conserved(&report);
    let tail = report.workers[0].stages.last().expect("a tail");
    assert_eq!(tail.name, "ring out");
    assert!(tail.drops["ring_full"] > 0, "{:?}", tail.drops);
    assert_eq!(report.rings[0].held, 0);
    assert!(report.rings[0].full_pushes > 0);
}

#[test]
fn a_line_that_does_not_wait_is_missed() {
    let path = path(vec![stage("spin", "turns", 20_000)]);
    let options = RunOptions {
        rate: Rate::PacketsPerSecond(2e6),
        length: RunLength::Packets(60_000),
        ..OPTIONS
    };
    let report = run_on_one(&path, &mapping(&[(1, 1)]), options).expect("runs").report;
    assert_conserved(&report);
    let source = &report.workers[0].stages[0];
    let missed = source.drops["rx_missed"];
    assert!(missed > 0 && missed < 60_000, "{missed}");
    assert_eq!(source.packets + missed, 60_000);
}

#[test]
fn a_stage_that_panics_is_named_with_its_packet() {
    let path = path(vec![stage("drop", "", 0), stage("fail", "position", 5_000)]);
    for segments in [&[(2, 1)][..], &[(1, 1), (1, 1)], &[(1, 2), (1, 2)]] {
        let error = run_on_one(&path, &mapping(segments), OPTIONS).expect_err("it is broken");
        let said = error.to_string();
        let RunError::StageFailed { failure, report } = error else { panic!("{said}") };
        assert_eq!(report.failure.as_ref(), Some(&failure));
        assert_eq!(said, failure.to_string());
        let StageFailure { kind, worker, stage, packet, message } = failure;
        assert_eq!((stage.as_str(), packet), ("fail", Some(5_000)));
        assert_eq!(kind, FailureKind::Panic);
        assert!(message.contains("broken on purpose"), "{message}");
        assert!(report.workers.iter().any(|s| s.name == worker));
        assert!(report.workers[0].stages[0].packets > 0, "the profile so far is kept");
        assert!(report.interrupted);
    }
}
