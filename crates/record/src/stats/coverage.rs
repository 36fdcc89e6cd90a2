// SPDX-License-Identifier: MIT OR Apache-2.0
//! Binomial limits for the accuracy suite: sampling error of a stated share, and the shortfall that
//! a given number of trials can detect.
//!
//! An observed share of `n` trials is a binomial draw, so checking `seen >= stated` would fail half
//! the time for software that exactly meets its stated share. The limit is therefore the largest
//! number of hits that such software fails to reach with a probability of at most `miss`.

use super::binomial_weights;

/// Returns the probability of fewer than `hits` successes in `trials` independent trials with
/// success probability `share`.
pub fn chance_below(hits: u64, trials: u64, share: f64) -> f64 {
    if hits == 0 || share >= 1.0 {
        return if hits > trials { 1.0 } else { 0.0 };
    }
    if share <= 0.0 || hits > trials {
        return 1.0;
    }
    let weights = binomial_weights(trials as usize, share);
    weights[..hits as usize].iter().sum::<f64>() / weights.iter().sum::<f64>()
}

/// Returns the minimum number of hits in `trials` trials to pass a check of `share`: the largest
/// number that software with this true share fails to reach with a probability of at most `miss`.
pub fn least_hits(trials: u64, share: f64, miss: f64) -> u64 {
    if share >= 1.0 {
        return trials;
    }
    if share <= 0.0 {
        return 0;
    }
    let weights = binomial_weights(trials as usize, share);
    let tail = miss * weights.iter().sum::<f64>();
    let mut sum = 0.0;
    let rare = weights.iter().take_while(|weight| {
        sum += **weight;
        sum <= tail
    });
    rare.count() as u64
}

/// Returns the smallest shortfall below `share` that a check against [`least_hits`] detects with
/// probability `power`. `None` if there are too few trials to detect any shortfall.
pub fn loss_noticed(trials: u64, share: f64, miss: f64, power: f64) -> Option<f64> {
    let limit = least_hits(trials, share, miss);
    let noticed = |loss: f64| chance_below(limit, trials, share - loss) >= power;
    if !noticed(share) {
        return None;
    }
    let (mut small, mut large) = (0.0, share);
    for _ in 0..40 {
        let middle = f64::midpoint(small, large);
        (small, large) = if noticed(middle) { (small, middle) } else { (middle, large) };
    }
    Some(large)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slow reference for `chance_below` that sums the probabilities of all outcomes of `trials`
    /// trials with fewer than `hits` hits.
    fn slowly(hits: u64, trials: u32, share: f64) -> f64 {
        let chance = |outcome: u32| {
            let held = outcome.count_ones();
            share.powi(held as i32) * (1.0 - share).powi((trials - held) as i32)
        };
        let below = (0..1_u32 << trials).filter(|outcome| u64::from(outcome.count_ones()) < hits);
        below.map(chance).sum()
    }

    #[test]
    fn tails_are_those_of_a_sum_over_all_outcomes() {
        for trials in 1..=10 {
            for share in [0.1, 0.5, 0.93] {
                for hits in 0..=u64::from(trials) + 1 {
                    let (fast, slow) =
                        (chance_below(hits, trials.into(), share), slowly(hits, trials, share));
                    assert!((fast - slow).abs() < 1e-12, "{hits} {trials} {share}: {fast} {slow}");
                }
            }
        }
    }

    #[test]
    fn the_limit_is_the_last_that_is_rare() {
        for (trials, share) in [(20, 0.9), (60, 0.855), (200, 0.445), (1300, 0.617)] {
            for miss in [0.05, 0.01] {
                let limit = least_hits(trials, share, miss);
                assert!(chance_below(limit, trials, share) <= miss, "{trials} {share}");
                assert!(chance_below(limit + 1, trials, share) > miss, "{trials} {share}");
            }
        }
        // No hit at all has a probability of 0.9^20 = 12 % with 20 trials and of 0.9^44 = 0.97 %
        // with 44. With 20 trials, even that is not rare enough for a limit above 0.
        assert_eq!((least_hits(20, 0.1, 0.01), least_hits(44, 0.1, 0.01)), (0, 1));
    }

    #[test]
    fn certain_and_impossible_shares_have_limits() {
        assert_eq!((least_hits(9, 1.0, 0.01), least_hits(9, 0.0, 0.01)), (9, 0));
        assert_eq!((chance_below(9, 9, 1.0), chance_below(1, 9, 0.0)), (0.0, 1.0));
        assert_eq!((chance_below(0, 9, 0.0), chance_below(10, 9, 1.0)), (0.0, 1.0));
    }

    /// Normal approximation: a shortfall d from a share p is detected with 90 % power at a 1 %
    /// false-alarm rate if d sqrt(n) = 2.326 sqrt(p (1 - p)) + 1.282 sqrt((p - d) (1 - p + d)).
    #[test]
    fn the_loss_that_is_noticed_shrinks_with_the_root_of_the_trials() {
        for (trials, share) in [(60, 0.855), (300, 0.617), (1300, 0.617)] {
            let loss = loss_noticed(trials, share, 0.01, 0.9).expect("there are enough");
            let spread = |share: f64| (share * (1.0 - share)).sqrt();
            let needed = 2.326 * spread(share) + 1.282 * spread(share - loss);
            let normal = needed / (trials as f64).sqrt();
            assert!((loss / normal - 1.0).abs() < 0.1, "{trials} {share}: {loss} {normal}");
        }
        assert!(loss_noticed(1300, 0.617, 0.01, 0.9).is_some_and(|loss| loss < 0.05));
        assert_eq!(loss_noticed(3, 0.5, 0.01, 0.9), None);
    }
}
