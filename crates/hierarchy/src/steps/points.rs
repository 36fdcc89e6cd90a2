// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reduces the passes of a curve to one time per size, with its uncertainty.
//!
//! Neither the minimum nor the median is suitable: on a ramp, passes vary in both directions, since
//! their pages have different colours, and the minimum would shift every ramp to the right; other
//! disturbances lengthen times, often in more than one pass in five.

use super::Sample;
use linerate_record::stats::{median, quantile};

/// Minimum relative scatter of times around any model, even if all passes agree. It is mostly due
/// to TLB misses, one per page.
const FLOOR: f64 = 0.006;

/// Relative variation that is assumed if there is only one pass.
const ALONE: f64 = 0.03;

/// A preprocessed curve.
#[derive(Clone, Debug, Default)]
pub(crate) struct Points {
    /// Bytes, increasing.
    pub(crate) bytes: Vec<f64>,
    /// Their logarithms.
    pub(crate) ln_bytes: Vec<f64>,
    /// Load latency.
    pub(crate) time: Vec<f64>,
    /// Standard deviation, approximately.
    pub(crate) sd: Vec<f64>,
    /// Number of passes.
    pub(crate) passes: Vec<f64>,
}

impl Points {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Builds the points from samples as returned by [`usable`].
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

/// The mean of the lower half of the passes, including the middle one: disturbances lengthen times,
/// and affect a whole plateau if neighbours use the same cache. With five passes, a ramp that
/// scatters to both sides is shifted right by 0.55 standard deviations.
fn middle(passes: &[f64]) -> f64 {
    let mut sorted = passes.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let half = &sorted[..sorted.len().div_ceil(2)];
    half.iter().sum::<f64>() / half.len() as f64
}

/// The standard deviation of the middle of the passes, from their interquartile range. That range
/// is 1.35 standard deviations for a normal distribution and, by simulation, 1.35 / (1 + 1.8 / n)
/// for `n` samples from it.
fn of_middle(passes: &[f64], time: f64) -> f64 {
    let n = passes.len() as f64;
    match (quantile(passes, 0.25), quantile(passes, 0.75)) {
        (Some(low), Some(high)) if passes.len() > 1 => {
            (high - low) / 1.35 * (1.0 + 1.8 / n) / n.sqrt()
        }
        _ => ALONE * time,
    }
}

/// Standard deviations smoothed over neighbouring sizes: a handful of passes may agree by chance,
/// and one disturbed pass does not represent the others.
fn pooled(sd: &[f64], time: &[f64]) -> Vec<f64> {
    let one = |i: usize| {
        let around = &sd[i.saturating_sub(2)..(i + 3).min(sd.len())];
        median(around).unwrap_or(0.0).hypot(FLOOR * time[i])
    };
    (0..sd.len()).map(one).collect()
}

/// The samples by size, with repeated sizes merged and invalid times left out.
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
