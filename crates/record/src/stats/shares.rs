// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shares estimated from consecutive samples.

use super::{Estimate, NORMAL_QUANTILE, block_bootstrap_ratio};

/// Returns the fraction of samples that were hits, and a 95 % interval for the underlying share of
/// time. `hits` and `samples` are per window.
///
/// Consecutive samples of a program are correlated, which [`block_bootstrap_ratio`] takes into
/// account. With few hits, however, resampling understates the uncertainty, and without hits it
/// shows no uncertainty. Wilson's interval (1927) handles these cases but assumes independent
/// samples. On each side, the result therefore uses the outer end of the two intervals.
///
/// Without samples, the value is NaN and the interval 0 to 1. The interval is also 0 to 1 with
/// fewer than 4 blocks of windows.
pub fn share_interval(hits: &[f64], samples: &[f64], seed: u64) -> Estimate {
    let all: f64 = samples.iter().sum();
    let bootstrap = block_bootstrap_ratio(hits, samples, super::CONFIDENCE, seed);
    let (low, high) = wilson(hits.iter().sum::<f64>() / all, all);
    Estimate {
        low: bootstrap.low.min(low).max(0.0),
        high: bootstrap.high.max(high).min(1.0),
        n: all as u64,
        ..bootstrap
    }
}

/// Returns the share of independent samples that were hits, with Wilson's 95 % interval (1927).
///
/// Use this for the share of time in a past window that was sampled throughout. Unlike the interval
/// of [`share_interval`], the result does not apply to other windows. Without samples, the value is
/// NaN and the interval 0 to 1.
pub fn sampled_share(hits: u64, samples: u64) -> Estimate {
    let n = samples as f64;
    let value = hits as f64 / n;
    let (low, high) = match samples {
        0 => (0.0, 1.0),
        _ => wilson(value, n),
    };
    Estimate { value, low, high, confidence: super::CONFIDENCE, n: samples }
}

/// Returns the 95 % Wilson score interval for a share observed in `n` independent samples.
fn wilson(share: f64, n: f64) -> (f64, f64) {
    let square = NORMAL_QUANTILE * NORMAL_QUANTILE;
    let middle = share + square / (2.0 * n);
    let spread = (share * (1.0 - share) / n + square / (4.0 * n * n)).sqrt() * NORMAL_QUANTILE;
    let whole = 1.0 + square / n;
    ((middle - spread) / whole, (middle + spread) / whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::stats::coverage::least_hits;

    /// Simulates windows of 50 samples each from a program that spends `share` of its time in a
    /// function, in phases of `length` samples on average.
    fn run(share: f64, length: f64, windows: usize, random: &mut Random) -> [Vec<f64>; 2] {
        let mut uniform = || random.below(1 << 30) as f64 / f64::from(1 << 30);
        let mut is_in = uniform() < share;
        let window = |_| {
            let sample = |_| {
                if uniform() < 1.0 / length {
                    is_in = uniform() < share;
                }
                f64::from(u8::from(is_in))
            };
            (0..50).map(sample).sum::<f64>()
        };
        [(0..windows).map(window).collect(), vec![50.0; windows]]
    }

    /// Returns how many of 300 simulated intervals contain the true share.
    fn covered(share: f64, length: f64) -> u64 {
        let mut random = Random::new(7);
        let holds = |seed: &u64| {
            let [hits, samples] = run(share, length, 100, &mut random);
            let found = share_interval(&hits, &samples, *seed);
            found.low <= share && share <= found.high
        };
        (0..300).filter(holds).count() as u64
    }

    #[test]
    fn shares_of_a_sampled_window_hold_its_share() {
        let mut random = Random::new(11);
        for share in [0.02, 0.3, 0.9] {
            let mut hits =
                |n: u64| (0..n).filter(|_| (random.below(1000) as f64) < share * 1000.0).count();
            let holds = |_: &u64| {
                let found = sampled_share(hits(400) as u64, 400);
                found.low <= share && share <= found.high
            };
            let covered = (0..400).filter(holds).count() as u64;
            assert!(covered >= least_hits(400, 0.95, 0.01), "{share}: {covered} of 400");
        }
        let none = sampled_share(0, 0);
        assert!(none.value.is_nan() && (none.low, none.high) == (0.0, 1.0));
        let all = sampled_share(50, 50);
        assert!(all.low > 0.9 && all.high > 0.999, "{all:?}");
    }

    #[test]
    fn intervals_hold_the_share_of_programs_with_and_without_phases() {
        for (share, length) in [(0.5, 1.0), (0.02, 1.0), (0.5, 25.0), (0.17, 25.0), (0.3, 200.0)] {
            let covered = covered(share, length);
            // Long phases leave few blocks, so coverage is only about 90 %, as documented for the
            // bootstrap.
            let stated = if length > 100.0 { 0.88 } else { 0.95 };
            assert!(covered >= least_hits(300, stated, 0.01), "{share} {length}: {covered} of 300");
        }
    }

    #[test]
    fn hits_that_were_not_seen_are_possible() {
        let found = share_interval(&[0.0; 20], &[50.0; 20], 1);
        assert!(found.low <= 0.0 && (0.003..0.005).contains(&found.high), "{found:?}");
        let few = share_interval(&[3.0, 1.0], &[5.0, 5.0], 1);
        assert_eq!((few.low, few.high), (0.0, 1.0));
        assert!(share_interval(&[], &[], 1).value.is_nan());
    }
}
