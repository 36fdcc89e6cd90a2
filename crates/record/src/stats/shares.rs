// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shares estimated from consecutive samples.

use super::{Estimate, NORMAL_QUANTILE, block_bootstrap_ratio};

/// Returns the share of samples that were hits: `hits` of `samples`, window by window, and a 95 %
/// interval for the underlying share of time.
///
/// Consecutive samples of a program are correlated, which [`block_bootstrap_ratio`] takes into
/// account. Resampling cannot show the uncertainty of hits that never occurred, however, and shows
/// too little of it for hits that are few. The sampling error of independent samples is that of
/// Wilson (1927). On each side, the result takes the end that is farther out: that of the bootstrap
/// or that of Wilson.
///
/// Without samples, the value is NaN and the interval is 0 to 1; the interval is also 0 to 1 with
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

    /// Simulates windows of a program that spends `share` of its time in a function, in phases of
    /// `length` samples on average, with 50 samples per window.
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
    fn intervals_hold_the_share_of_programs_with_and_without_phases() {
        for (share, length) in [(0.5, 1.0), (0.02, 1.0), (0.5, 25.0), (0.17, 25.0), (0.3, 200.0)] {
            let covered = covered(share, length);
            // Long phases leave few blocks, so that the coverage is only about 90 %, as documented
            // for the bootstrap.
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
