// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with clocks, chains and distributions whose true values are known, and with two published
//! histograms.

use super::*;
use fastrand::Rng;
use proptest::prelude::*;

/// Returns differences between reads of a clock with this `step`. Reads are rounded down to whole
/// units and are `between` units apart on average.
fn reads(step: f64, between: f64, seed: u64) -> Vec<u64> {
    let mut random = Rng::with_seed(seed);
    let mut time = 0.0;
    let mut read = || {
        time += between * (0.9 + 0.2 * random.f64());
        ((time / step).floor() * step) as u64
    };
    let mut last = read();
    let mut differences: Vec<u64> = (0..5000)
        .map(|_| {
            let now = read();
            now - std::mem::replace(&mut last, now)
        })
        .collect();
    differences.extend([1_000_003, 77_777]);
    differences
}

#[test]
fn step_of_a_clock_is_found_whether_or_not_it_is_a_whole_number() {
    for (truth, between) in
        [(26.0, 20.0), (26.0, 60.0), (1.0, 24.0), (2.0, 31.0), (1000.0, 40.0), (10.0, 95.0)]
    {
        assert_eq!(step(&reads(truth, between, 1)), Some(truth), "{truth} {between}");
    }
    for (truth, between) in [(1000.0 / 24.0, 30.0), (1000.0 / 19.2, 130.0), (1000.0 / 54.0, 25.0)] {
        let found = step(&reads(truth, between, 2)).unwrap();
        assert!((found / truth - 1.0).abs() < 0.01, "{found} is not {truth}");
    }
}

#[test]
fn a_clock_that_never_moves_has_no_step() {
    assert_eq!(step(&[]), None);
    assert_eq!(step(&[0, 0, 0]), None);
    assert_eq!(step(&[0, 7]), Some(7.0));
}

/// Chains whose loads take `load` ns each, timed by a clock with this `step`. Each time includes
/// `bias`, and some are interrupted.
struct Timed {
    step: f64,
    bias: f64,
    load: fn(&mut Rng) -> f64,
    interrupted: f64,
}

impl Timed {
    fn one(&self, random: &mut Rng, loads: u32) -> f64 {
        let chain: f64 = (0..loads).map(|_| (self.load)(random)).sum();
        let pause = if random.f64() < self.interrupted { 5000.0 } else { 0.0 };
        let begin = random.f64() * self.step;
        ((begin + self.bias + chain + pause) / self.step).floor() * self.step
    }

    fn samples(&self, seed: u64, each: usize) -> Vec<(u32, f64)> {
        let mut random = Rng::with_seed(seed);
        let lengths = [0, 1, 2, 4, 8, 16, 32];
        let rounds = (0..each).flat_map(|_| lengths);
        rounds.map(|loads| (loads, self.one(&mut random, loads))).collect()
    }
}

/// Returns the percentage of experiments whose intervals contain the slope.
fn coverage(timed: &Timed, truth: f64) -> f64 {
    let experiments = 100;
    let holds = |seed: &u64| {
        let found = slope(&timed.samples(*seed, 400), 0.95, *seed).unwrap();
        found.low <= truth && truth <= found.high
    };
    (0..experiments).filter(holds).count() as f64 * 100.0 / experiments as f64
}

#[test]
fn slope_is_right_where_the_step_is_ten_loads_long() {
    let timed = Timed { step: 10.0, bias: 22.7, load: |_| 1.08, interrupted: 0.001 };
    let found = slope(&timed.samples(1, 20_000), 0.95, 1).unwrap();
    assert!((found.value / 1.08 - 1.0).abs() < 0.02, "{found:?}");
    assert!(found.high - found.low < 0.05, "{found:?}");
    assert_eq!(found.n, 140_000);
}

#[test]
fn intervals_of_the_slope_hold_the_truth() {
    let fixed = Timed { step: 10.0, bias: 22.7, load: |_| 1.08, interrupted: 0.001 };
    let spread = Timed { step: 10.0, bias: 22.7, load: |r| 8.0 + 8.0 * r.f64(), interrupted: 0.0 };
    let fine = Timed { step: 0.4, bias: 9.0, load: |_| 4.0, interrupted: 0.002 };
    for (timed, truth) in [(fixed, 1.08), (spread, 12.0), (fine, 4.0)] {
        let covered = coverage(&timed, truth);
        assert!(covered >= 90.0, "{covered} %");
    }
}

#[test]
fn a_slow_first_load_does_not_bend_the_slope() {
    let timed = Timed { step: 10.0, bias: 22.7, load: |_| 11.7, interrupted: 0.0 };
    let slow = |(loads, time)| (loads, if loads > 0 { time + 44.0 } else { time });
    let samples: Vec<(u32, f64)> = timed.samples(3, 5000).into_iter().map(slow).collect();
    let found = slope(&samples, 0.95, 3).unwrap();
    assert!((found.value / 11.7 - 1.0).abs() < 0.02, "{found:?}");
}

#[test]
fn one_length_has_no_slope() {
    assert_eq!(slope(&[], 0.95, 0), None);
    assert_eq!(slope(&[(4, 1.0), (4, 2.0)], 0.95, 0), None);
    assert_eq!(slope(&[(4, 1.0), (8, f64::NAN)], 0.95, 0), None);
    assert_eq!(slope(&[(0, 5.0), (1, 7.0)], 0.95, 0).unwrap().value, 2.0);
}

fn total(bins: &[Bin]) -> u64 {
    bins.iter().map(|bin| bin.count).sum()
}

#[test]
fn bins_hold_what_a_slow_clock_shows_in_their_middle() {
    let times = [20.0, 20.0, 30.0, 20.0, 30.0, 50.0];
    let bins = histogram(&times, 22.5, 10.0, 10);
    let rows: Vec<(f64, Option<f64>, u64)> =
        bins.iter().map(|bin| (bin.from_ns, bin.to_ns, bin.count)).collect();
    let expected = [
        (-7.5, Some(2.5), 3),
        (2.5, Some(12.5), 2),
        (12.5, Some(22.5), 0),
        (22.5, Some(32.5), 1),
        (32.5, None, 0),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn an_interruption_is_in_the_last_bin_and_does_not_widen_the_others() {
    let mut times: Vec<f64> = (0..1000).map(|i| f64::from(i % 10)).collect();
    times.push(4e6);
    let bins = histogram(&times, 0.0, 1.0, 40);
    assert_eq!(total(&bins), 1001);
    assert_eq!(bins.len(), 11);
    assert!(bins[..10].iter().all(|bin| bin.count == 100), "{bins:?}");
    assert_eq!((bins[10].to_ns, bins[10].count), (None, 1));
}

/// Returns one bin per value, as in the document's histograms.
fn rows(rows: &[(u32, u64)]) -> Vec<Bin> {
    let last = rows.iter().map(|row| row.0).max().unwrap();
    let count = |value| rows.iter().find(|row| row.0 == value).map_or(0, |row| row.1);
    let bin = |value: u32| Bin {
        from_ns: f64::from(value) - 0.5,
        to_ns: Some(f64::from(value) + 0.5),
        count: count(value),
    };
    (rows[0].0..=last).map(bin).collect()
}

#[test]
fn the_documents_histogram_inside_and_outside_the_cache() {
    let bins = rows(&[
        (9, 49),
        (17, 1),
        (61, 320),
        (62, 571),
        (63, 11),
        (64, 4),
        (65, 1),
        (69, 1),
        (70, 27),
    ]);
    let modes = modes(&bins);
    let at: Vec<f64> = modes.iter().map(|mode| mode.at.round()).collect();
    assert_eq!(at, [9.0, 62.0, 70.0]);
    let share: f64 = modes.iter().map(|mode| mode.share).sum();
    assert!((0.99..=1.0).contains(&share), "{modes:?}");
    assert!((modes[1].share - 908.0 / 985.0).abs() < 0.01, "{modes:?}");
}

#[test]
fn the_documents_slowest_histogram_has_more_than_one_mode() {
    let bins = rows(&[
        (113, 4),
        (116, 224),
        (117, 23),
        (118, 59),
        (119, 129),
        (120, 5),
        (121, 224),
        (122, 185),
        (125, 4),
        (130, 9),
        (132, 7),
        (133, 18),
        (135, 5),
    ]);
    let near = |at: f64| modes(&bins).iter().any(|mode| (mode.at - at).abs() < 0.6);
    assert!(near(116.0) && near(121.5), "{:?}", modes(&bins));
}

#[test]
fn two_peaks_keep_position_and_share_and_noise_is_not_a_peak() {
    let mut random = Rng::with_seed(5);
    let mut times: Vec<f64> = (0..2100).map(|_| 12.0 + normal(&mut random)).collect();
    times.extend((0..900).map(|_| 95.0 + 8.0 * normal(&mut random)));
    let found = modes(&histogram(&times, 0.0, 0.4, 80));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!((found[0].at - 12.0).abs() < 0.5 && (found[1].at - 95.0).abs() < 2.0, "{found:?}");
    assert!((found[0].share - 0.7).abs() < 0.02, "{found:?}");
}

#[test]
fn a_load_shorter_than_the_step_is_one_mode_in_its_place() {
    let timed = Timed { step: 10.0, bias: 22.7, load: |_| 1.08, interrupted: 0.0 };
    let mut random = Rng::with_seed(9);
    let times: Vec<f64> = (0..20_000).map(|_| timed.one(&mut random, 1)).collect();
    let found = modes(&histogram(&times, 22.7, 10.0, 40));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!((found[0].at - 1.08).abs() < 0.3, "{found:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn bins_rise_without_gaps_and_add_up(
        times in prop::collection::vec(any::<f64>(), 0..60),
        bias in any::<f64>(),
        step in any::<f64>(),
        most in 0_usize..50,
    ) {
        let bins = histogram(&times, bias, step, most);
        let finite = times.iter().filter(|&&time| (time - bias).is_finite()).count();
        prop_assert_eq!(total(&bins), finite as u64);
        prop_assert!(bins.len() <= most.max(2));
        prop_assert!(bins.windows(2).all(|pair| pair[0].to_ns == Some(pair[1].from_ns)));
        prop_assert_eq!(bins.last().is_none_or(|bin| bin.to_ns.is_none()), true);
        let found = modes(&bins);
        prop_assert!(found.iter().map(|mode| mode.share).sum::<f64>() <= 1.0 + 1e-9);
    }

    #[test]
    fn every_time_is_in_its_bin(
        times in prop::collection::vec(0.0..500.0, 1..60),
        step in 0.1..30.0,
        most in 2_usize..50,
    ) {
        let bins = histogram(&times, 10.0, step, most);
        for bin in &bins {
            let within = |time: &&f64| {
                let net = **time - 10.0;
                net >= bin.from_ns && bin.to_ns.is_none_or(|to| net < to)
            };
            prop_assert_eq!(times.iter().filter(within).count() as u64, bin.count);
        }
    }

    #[test]
    fn no_samples_make_it_panic(
        samples in prop::collection::vec((0_u32..16, any::<f64>()), 0..40),
        differences in prop::collection::vec(any::<u64>(), 0..40),
        confidence in 0.5..0.999,
    ) {
        if let Some(found) = slope(&samples, confidence, 1) {
            prop_assert!(found.low <= found.value || found.value.is_nan());
        }
        if let Some(step) = step(&differences) {
            prop_assert!(step > 0.0);
        }
    }
}
