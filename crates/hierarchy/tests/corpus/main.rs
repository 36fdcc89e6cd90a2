// SPDX-License-Identifier: MIT OR Apache-2.0
//! The detector on a few made-up machines; `examples/corpus.rs` runs all of them.

mod judge;

use judge::{Verdict, Way, judge};
use linerate_caches::Noise;

/// A machine takes seconds without optimisation.
const MACHINES: u64 = if cfg!(debug_assertions) { 4 } else { 20 };

/// Judges machines, and shows those that went wrong if they are more than `allowed` in a hundred:
/// what the detector reaches now, so that it does not get worse.
fn assert_most_right(first: u64, machines: u64, way: Way, noise: &Noise, allowed: usize) {
    let verdicts: Vec<Verdict> =
        (first..first + machines).map(|seed| judge(seed, way, noise)).collect();
    let wrong: Vec<String> =
        verdicts.iter().filter(|verdict| !verdict.is_right()).map(Verdict::print).collect();
    assert!(
        wrong.len() * 100 <= allowed * verdicts.len(),
        "{} wrong\n{}",
        wrong.len(),
        wrong.concat()
    );
}

#[test]
fn analytic_machines_without_noise() {
    assert_most_right(0, MACHINES, Way::Analytic, &Noise::none(), 75);
}

#[test]
fn analytic_machines_beside_neighbours() {
    assert_most_right(0, MACHINES, Way::Analytic, &Noise::idle(), 50);
}

#[test]
fn machines_simulated_load_by_load() {
    assert_most_right(0, MACHINES / 2, Way::Trace(512 << 10), &Noise::none(), 75);
}
