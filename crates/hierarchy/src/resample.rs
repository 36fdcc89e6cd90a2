// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resampling of passes, shared by the modules of this crate.

use fastrand::Rng;
use linerate_record::stats::{Estimate, median, quantile};

/// Number of resamplings. It determines the ends of a 95 % interval to within about 5 % of the
/// interval's width, which is less than the uncertainty from the small number of passes.
pub(crate) const REPLICATES: usize = 200;

/// Returns the time of the fastest pass; `None` if no pass has a valid time.
pub(crate) fn least(passes: &[f64]) -> Option<f64> {
    passes.iter().copied().filter(|&time| is_time(time)).min_by(f64::total_cmp)
}

/// Resamples the pass times with replacement and returns the shortest. `passes` must not be empty,
/// and its times must be valid.
pub(crate) fn redrawn_least(random: &mut Rng, passes: &[f64]) -> f64 {
    let draws = (0..passes.len()).map(|_| passes[random.usize(..passes.len())]);
    draws.fold(f64::INFINITY, f64::min)
}

/// Resamples the pass times with replacement and returns the median. `passes` must not be empty,
/// and its times must be valid.
pub(crate) fn redrawn_median(random: &mut Rng, passes: &[f64]) -> f64 {
    let draws = (0..passes.len()).map(|_| passes[random.usize(..passes.len())]);
    median(&draws.collect::<Vec<f64>>()).unwrap_or(f64::NAN)
}

/// Returns whether `time` is a possible load time: finite and positive.
pub(crate) fn is_time(time: f64) -> bool {
    time.is_finite() && time > 0.0
}

/// Returns a `confidence` interval for `value`: the union of the percentile interval of the
/// `replicates` and its reflection about the value. Infinite without replicates.
///
/// Minima need the reflection: the fastest pass is never faster than the true minimum, and the
/// fastest resampled pass is never faster than the fastest pass, so the percentiles alone are on
/// the wrong side of the value.
pub(crate) fn interval(value: f64, replicates: &[f64], confidence: f64, n: u64) -> Estimate {
    let tail = (1.0 - confidence) / 2.0;
    let below = quantile(replicates, tail).map_or(f64::INFINITY, |low| value - low);
    let above = quantile(replicates, 1.0 - tail).map_or(f64::INFINITY, |high| high - value);
    let half = below.max(above).max(0.0);
    Estimate { value, low: value - half, high: value + half, confidence, n }
}

/// Returns whether `estimate` is precise enough, i.e. its interval is no wider than its value. If
/// the high end is open, the value is a lower bound, and the low end may be up to half the value
/// away.
pub(crate) fn is_known(estimate: Estimate) -> bool {
    let below = estimate.value - estimate.low;
    let above = estimate.high - estimate.value;
    let width = below + if above == f64::INFINITY { below } else { above };
    estimate.value > 0.0 && estimate.value.is_finite() && width <= estimate.value
}

/// Returns the weighted median: the smallest value such that it and all smaller ones have at least
/// half of the total weight. `None` if the total weight is 0.
pub(crate) fn weighted_median(mut weighted: Vec<(f64, f64)>) -> Option<f64> {
    weighted.retain(|(value, weight)| value.is_finite() && *weight > 0.0);
    weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = weighted.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut sum = 0.0;
    weighted.into_iter().find_map(|(value, weight)| {
        sum += weight;
        (sum >= half).then_some(value)
    })
}

/// Draws from the standard normal distribution (Box and Muller, 1958).
pub(crate) fn normal(random: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}
