// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reduces a curve's passes to one time per size, with its uncertainty.
//!
//! Neither the minimum nor the median of the passes is suitable. On a ramp, passes vary in both
//! directions because their pages have different colours, and the minimum would shift every ramp to
//! the right. Interference lengthens times, often in more than one pass in five, which would bias
//! the median.

use super::Sample;
use linerate_record::stats::{median, quantile};

/// Minimum relative scatter of times around any model, assumed even if all passes agree. It is
/// mostly due to TLB misses, one per page.
const FLOOR: f64 = 0.006;

/// Relative standard deviation assumed for a size that was measured in a single pass.
const ALONE: f64 = 0.03;

/// A latency curve, prepared for fitting.
#[derive(Clone, Debug, Default)]
pub(crate) struct Points {
    /// Chain sizes in bytes, increasing.
    pub(crate) bytes: Vec<f64>,
    /// Natural logarithms of the sizes.
    pub(crate) ln_bytes: Vec<f64>,
    /// Load latency at each size.
    pub(crate) time: Vec<f64>,
    /// Approximate standard deviation of each time.
    pub(crate) sd: Vec<f64>,
    /// Number of passes at each size.
    pub(crate) passes: Vec<f64>,
}

impl Points {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Builds the points from samples prepared by [`usable`].
    pub(crate) fn new(samples: &[Sample]) -> Points {
        let mut points = Points::default();
        let mut sd = Vec::with_capacity(samples.len());
        for sample in samples {
            let time = middle(&sample.passes);
            points.bytes.push(sample.bytes as f64);
            points.ln_bytes.push((sample.bytes as f64).ln());
            points.time.push(time);
            points.passes.push(sample.passes.len() as f64);
            sd.push(of_middle(&sample.passes, time));
        }
        points.sd = pooled(&sd, &points.time);
        points
    }
}

/// Returns the mean of the lower half of the passes, including the middle one. The slower passes
/// are left out because interference lengthens times, over a whole plateau if neighbours use the
/// same cache. This causes a bias: with five passes, a ramp that scatters to both sides is shifted
/// right by 0.55 standard deviations.
fn middle(passes: &[f64]) -> f64 {
    let mut sorted = passes.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let half = &sorted[..sorted.len().div_ceil(2)];
    half.iter().sum::<f64>() / half.len() as f64
}

/// Returns the standard deviation of the [`middle`] of the passes, from their interquartile range,
/// which is 1.35 standard deviations for a normal distribution and, by simulation, 1.35 / (1 + 1.8
/// / n) for `n` samples from it.
fn of_middle(passes: &[f64], time: f64) -> f64 {
    let n = passes.len() as f64;
    match (quantile(passes, 0.25), quantile(passes, 0.75)) {
        (Some(low), Some(high)) if passes.len() > 1 => {
            (high - low) / 1.35 * (1.0 + 1.8 / n) / n.sqrt()
        }
        _ => ALONE * time,
    }
}

/// Smooths standard deviations over neighbouring sizes: a handful of passes may agree by chance,
/// and a single outlier does not represent the others.
fn pooled(sd: &[f64], time: &[f64]) -> Vec<f64> {
    let one = |i: usize| {
        let around = &sd[i.saturating_sub(2)..(i + 3).min(sd.len())];
        median(around).unwrap_or(0.0).hypot(FLOOR * time[i])
    };
    (0..sd.len()).map(one).collect()
}

/// Sorts the samples by size, merges repeated sizes and drops invalid times.
pub(crate) fn usable(curve: &[Sample]) -> Vec<Sample> {
    let mut samples: Vec<Sample> = Vec::with_capacity(curve.len());
    for sample in curve {
        let passes = sample.passes.iter().copied().filter(|t| t.is_normal() && *t > 0.0);
        samples.push(Sample { bytes: sample.bytes, passes: passes.collect() });
    }
    samples.sort_by_key(|sample| sample.bytes);
    samples.dedup_by(|later, first| {
        let same = later.bytes == first.bytes;
        if same {
            first.passes.append(&mut later.passes);
        }
        same
    });
    samples.retain(|sample| sample.bytes > 0 && !sample.passes.is_empty());
    samples
}
