// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with synthetic observations whose loss is known.

use super::*;
use fastrand::Rng;
use proptest::prelude::*;

fn exponential(random: &mut Rng, mean: f64) -> f64 {
    -mean * (1.0 - random.f64()).ln()
}

/// Returns random gaps that average `mean_ns`, at `rate` per second.
fn watch(seconds: f64, rate: f64, mean_ns: f64, random: &mut Rng) -> Vec<Gap> {
    let mut at_ns = 0.0;
    let mut gaps = Vec::new();
    loop {
        // The time to the next gap is counted from the end of this one.
        at_ns += exponential(random, 1e9 / rate - mean_ns);
        let ns = exponential(random, mean_ns);
        if at_ns >= seconds * 1e9 {
            return gaps;
        }
        gaps.push(Gap { at_ns, ns });
        at_ns += ns;
    }
}

#[test]
fn loss_of_a_watch_by_hand() {
    let gaps = [(1e6, 2000.0), (5e6, 30_000.0), (9e6, 150.0), (9.5e6, 1e9)];
    let gaps = gaps.map(|(at_ns, ns)| Gap { at_ns, ns });
    let loss = loss(&gaps, 0.01, 0.95, 1).unwrap();
    // The last gap is truncated at the end of the observation, after 0.5 ms.
    assert!((loss.share.value - 532_150.0 / 1e7).abs() < 1e-9, "{loss:?}");
    assert_eq!(loss.per_second.value, 400.0);
    assert_eq!(loss.longest_ns, 5e5);
    // Garwood's limits for 4 are 1.09 and 10.24.
    assert!((loss.per_second.low - 109.0).abs() < 0.5, "{loss:?}");
    assert!((loss.per_second.high - 1024.0).abs() < 0.5, "{loss:?}");
    let counts: Vec<(f64, u64)> =
        loss.bins.iter().filter(|b| b.count > 0).map(|b| (b.from_ns, b.count)).collect();
    assert_eq!(counts, [(100.0, 1), (2000.0, 1), (20_000.0, 1), (500_000.0, 1)]);
    assert_eq!(loss.bins.last().unwrap().to_ns, None);
}

#[test]
fn a_watch_without_gaps_lost_nothing_and_bounds_their_rate() {
    let loss = loss(&[], 0.5, 0.95, 1).unwrap();
    assert_eq!((loss.share.value, loss.longest_ns, loss.bins.len()), (0.0, 0.0, 0));
    // With 3.69 expected gaps, the probability of seeing none is 2.5 %.
    assert!((loss.per_second.high - 3.689 / 0.5).abs() < 0.01, "{loss:?}");
    assert_eq!(loss.per_second.low, 0.0);
}

#[test]
fn a_time_that_is_none_has_no_loss() {
    for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(loss(&[], seconds, 0.95, 0), None);
    }
}

/// Returns the percentage of observations whose intervals contain the true fraction and rate.
fn coverage(seconds: f64, rate: f64, mean_ns: f64) -> (f64, f64) {
    let mut random = Rng::with_seed(11);
    let experiments = 80;
    let (mut shares, mut rates) = (0, 0);
    for seed in 0..experiments {
        let loss = loss(&watch(seconds, rate, mean_ns, &mut random), seconds, 0.95, seed).unwrap();
        let holds = |e: Estimate, truth: f64| u64::from(e.low <= truth && truth <= e.high);
        shares += holds(loss.share, rate * mean_ns / 1e9);
        rates += holds(loss.per_second, rate);
    }
    let percentage = |hits: u64| hits as f64 * 100.0 / experiments as f64;
    (percentage(shares), percentage(rates))
}

#[test]
fn intervals_hold_the_truth() {
    // With three gaps or none, as in the last case, the fraction of time lost cannot be bounded as
    // reliably as in the other cases.
    for (rate, mean_ns, least) in
        [(250.0, 3000.0, 88.0), (1000.0, 200_000.0, 88.0), (6.0, 2e6, 80.0)]
    {
        let (shares, rates) = coverage(0.5, rate, mean_ns);
        assert!(shares >= least, "{rate}/s of {mean_ns} ns: {shares} %");
        assert!(rates >= 88.0, "{rate}/s of {mean_ns} ns: {rates} %");
    }
}

proptest! {
    #[test]
    fn gaps_of_any_kind_add_up(
        gaps in prop::collection::vec((any::<f64>(), any::<f64>()), 0..40),
        more in prop::collection::vec((0.0..1e9, 0.0..1e8), 0..40),
        seconds in 0.001..2.0,
    ) {
        let gaps = gaps.into_iter().chain(more).map(|(at_ns, ns)| Gap { at_ns, ns });
        let gaps: Vec<Gap> = gaps.collect();
        let loss = loss(&gaps, seconds, 0.95, 3).unwrap();
        let valid = gaps.iter().filter(|g| g.ns > 0.0 && g.at_ns >= 0.0 && g.at_ns < seconds * 1e9);
        prop_assert_eq!(loss.bins.iter().map(|bin| bin.count).sum::<u64>(), valid.count() as u64);
        prop_assert!(loss.bins.windows(2).all(|pair| pair[0].to_ns == Some(pair[1].from_ns)));
        prop_assert!(loss.share.low <= loss.share.high && loss.longest_ns <= seconds * 1e9);
    }
}
