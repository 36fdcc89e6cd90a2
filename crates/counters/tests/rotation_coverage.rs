// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests scaled counts for loads with known totals: intervals must have their nominal coverage, and
//! errors per unit of work must be small. With few runs per load, limits are wide for a single load
//! and narrow for all loads together; the example `rotation_coverage` does many runs.

#[path = "../examples/rotation_coverage/simulation.rs"]
mod simulation;
#[path = "../examples/rotation_coverage/tally.rs"]
mod tally;

use simulation::{LOADS, Load};
use std::collections::BTreeSet;
use tally::{Outcome, Setting, outcome};

fn outcomes(run_ms: usize, runs: usize) -> Vec<(&'static Load, Outcome)> {
    let setting = Setting { sets: 4, slice_ms: 2.0, run_ms, runs };
    LOADS.iter().map(|load| (load, outcome(load, setting))).collect()
}

/// Asserts the coverage of the intervals. Each run of a load has three intervals of each kind,
/// possibly correlated, so the coverage for one load has a standard deviation of up to 5 %; over
/// all loads, it is 0.8 %.
fn assert_covered(outcomes: &[(&Load, Outcome)]) {
    let mut mean = [0.0; 2];
    for (load, outcome) in outcomes {
        let shares = [outcome.by_time.coverage(), outcome.by_packets.coverage()];
        assert!(shares.iter().all(|&share| share >= 0.75), "{}: {shares:?}", load.name);
        mean.iter_mut().zip(shares).for_each(|(mean, share)| *mean += share);
        let ratio = outcome.per_instruction.coverage();
        assert!(ratio >= 0.75, "{}, per instruction: {ratio}", load.name);
    }
    let mean = mean.map(|sum| sum / outcomes.len() as f64);
    assert!(mean.iter().all(|mean| (0.92..=0.975).contains(mean)), "{mean:?}");
}

#[test]
fn intervals_of_half_a_second_hold_the_truth() {
    assert_covered(&outcomes(500, 30));
}

#[test]
fn intervals_of_two_seconds_hold_the_truth_and_errors_per_unit_of_work_are_small() {
    let outcomes = outcomes(2000, 24);
    assert_covered(&outcomes);
    for (load, outcome) in &outcomes {
        // Only 20 of 80 spikes are counted, and no other rotation would count more. See
        // docs/results/rotation.md.
        let limit = if load.name == "rare spikes" { 0.2 } else { 0.05 };
        let error = outcome.by_packets.p95_error();
        assert!(error <= limit, "{}: {error}", load.name);
    }
    // A fixed order of long slices has large errors on loads that change slowly or are in phase
    // with the order.
    for name in ["phases", "warm-up", "period 400 ms", "wander 50 ms"] {
        let (_, outcome) = outcomes.iter().find(|(load, _)| load.name == name).unwrap();
        let (ours, fixed) = (outcome.by_time.p95_error(), outcome.round_robin.p95_error());
        assert!(fixed > 3.0 * ours, "{name}: {ours} {fixed}");
    }
    // Intervals computed from a fixed order would cover far less than 95 %.
    for name in ["warm-up", "period 8 ms", "period 16 ms", "period 400 ms"] {
        let (_, outcome) = outcomes.iter().find(|(load, _)| load.name == name).unwrap();
        assert!(outcome.round_robin.coverage() < 0.75, "{name}");
    }
}

#[test]
fn loads_have_names_of_their_own() {
    let names: BTreeSet<&str> = LOADS.iter().map(|load| load.name).collect();
    assert_eq!(names.len(), LOADS.len());
    assert!(LOADS.iter().all(|load| !load.prose.is_empty()));
}
