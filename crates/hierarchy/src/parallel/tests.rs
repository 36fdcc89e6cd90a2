// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with synthetic cores with a known number of outstanding loads.

use super::*;
use crate::resample::normal;
use fastrand::Rng;
use proptest::prelude::*;

const CHAINS: [u32; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];

/// Returns points of `passes` windows for a core with `truth` outstanding loads, with 1 % noise and
/// one window in seven slowed down by interference.
fn points(latency: f64, truth: f64, passes: usize, random: &mut Rng) -> Vec<Point> {
    let mut window = |chains: u32| {
        let time = (latency / f64::from(chains)).max(latency / truth);
        let disturbed = if random.f64() < 0.15 { 1.0 + random.f64() } else { 1.0 };
        time * disturbed * (1.0 + 0.01 * normal(random).abs())
    };
    let mut point =
        |chains| Point { chains, passes: (0..passes).map(|_| window(chains)).collect() };
    CHAINS.map(&mut point).into()
}

#[test]
fn outstanding_loads_are_those_at_the_knee() {
    for truth in [1.0, 2.0, 5.0, 10.0, 12.5, 22.0] {
        let mut random = Rng::with_seed(1);
        let found = outstanding(&points(98.0, truth, 5, &mut random), 0.95, 1).unwrap();
        assert!((found.value / truth - 1.0).abs() < 0.03, "{truth}: {found:?}");
        assert_eq!(found.n, 50);
    }
}

#[test]
fn intervals_hold_the_truth() {
    let mut random = Rng::with_seed(2);
    let experiments = 200;
    let holds = |seed| {
        let found = outstanding(&points(98.0, 10.0, 5, &mut random), 0.95, seed).unwrap();
        found.low <= 10.0 && 10.0 <= found.high
    };
    let hits = (0..experiments).map(holds).filter(|&holds| holds).count();
    assert!(hits as f64 >= 0.9 * experiments as f64, "{hits} of {experiments}");
}

#[test]
fn without_a_knee_there_is_no_upper_end() {
    let mut random = Rng::with_seed(3);
    let found = outstanding(&points(98.0, 64.0, 5, &mut random), 0.95, 3).unwrap();
    assert!(found.value > 28.0 && found.low > 15.0, "{found:?}");
    assert_eq!(found.high, f64::INFINITY);
}

#[test]
fn chains_that_hinder_each_other_take_nothing_off_the_knee() {
    let point = |chains, time: f64| Point { chains, passes: vec![time; 3] };
    let rising =
        [point(1, 100.0), point(4, 25.0), point(8, 20.0), point(16, 20.0), point(32, 24.0)];
    let found = outstanding(&rising, 0.95, 4).unwrap();
    assert_eq!(found.value, 5.0);
}

#[test]
fn one_number_of_chains_is_inconclusive() {
    let point = |chains, passes: &[f64]| Point { chains, passes: passes.to_vec() };
    assert_eq!(outstanding(&[], 0.95, 0), None);
    assert_eq!(outstanding(&[point(1, &[5.0])], 0.95, 0), None);
    assert_eq!(outstanding(&[point(2, &[5.0]), point(4, &[3.0])], 0.95, 0), None);
    assert_eq!(outstanding(&[point(1, &[f64::NAN]), point(4, &[3.0])], 0.95, 0), None);
}

/// A load takes 98 ns with one chain, and 10 loads can be outstanding. One single-chain window in
/// ten finds its lines nearer, at 22 ns; neighbours slow the other windows down by up to half.
fn busy(random: &mut Rng) -> Vec<Point> {
    let mut window = |chains: u32| {
        let time = (98.0 / f64::from(chains)).max(9.8);
        let disturbed = 1.0 + 0.5 * random.f64().powi(3);
        if chains == 1 && random.f64() < 0.1 { 22.0 } else { time * disturbed }
    };
    let mut point = |chains| Point { chains, passes: (0..6).map(|_| window(chains)).collect() };
    CHAINS.map(&mut point).into()
}

#[test]
fn a_lucky_window_of_one_chain_does_not_halve_what_is_outstanding() {
    let mut random = Rng::with_seed(5);
    let mut holds = |seed| {
        let found = outstanding(&busy(&mut random), 0.95, seed);
        found.is_none_or(|found| {
            assert!((5.0..14.0).contains(&found.value), "{found:?}");
            found.low <= 10.0 && 10.0 <= found.high
        })
    };
    let hits = (0..60).filter(|&seed| holds(seed)).count();
    assert!(hits >= 55, "{hits} of 60");
}

#[test]
fn time_that_rises_from_one_chain_to_two_is_refused() {
    let point = |chains, time: f64| Point { chains, passes: vec![time, 1.02 * time, 1.1 * time] };
    let curve = [point(1, 22.0), point(2, 52.0), point(4, 26.0), point(8, 13.0), point(16, 11.0)];
    assert_eq!(outstanding(&curve, 0.95, 6), None);
    let (first, last) = (point(1, 22.0), point(2, 22.5));
    assert!(outstanding(&[first, last], 0.95, 6).is_some());
}

proptest! {
    #[test]
    fn no_points_make_it_panic(
        points in prop::collection::vec(
            (0_u32..40, prop::collection::vec(any::<f64>(), 0..4)),
            0..12,
        ),
    ) {
        let points: Vec<Point> =
            points.into_iter().map(|(chains, passes)| Point { chains, passes }).collect();
        if let Some(found) = outstanding(&points, 0.95, 7) {
            prop_assert!(found.low <= found.value);
            prop_assert!(found.value >= 1.0);
        }
    }
}
