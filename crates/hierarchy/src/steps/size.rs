// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimates the sizes of the detected steps, with intervals.
//!
//! A size has two independent sources of uncertainty:
//!
//! - the kind of cache. Every shape and position is weighted by its posterior probability, which
//!   follows from its fit and the prior of [`unusual`]; the size is the mean over them, and gaps
//!   between the curve's points widen the interval accordingly;
//! - the pages used in each pass. Passes are resampled with replacement, and the steps are moved to
//!   fit the resampled passes best. The spread from resampling n passes is too narrow by a factor
//!   of the square root of n / (n - 1), and by the ratio of Student's t quantile to the normal one;
//!   both are corrected.

use super::model::{Bench, Fit, Step};
use super::points::Points;
use super::search::{best_place, moved, unusual};
use super::shape::shapes;
use super::{Options, Sample};
use linerate_record::stats::{Estimate, quantile, student_quantile};

/// Spacing of candidate positions, in ln(size).
const GRID: f64 = 0.02;
/// Number of candidate positions on each side of the best one.
const PLACES: i32 = 14;

/// Excess residual above which a candidate shape is ruled out; corresponds to a likelihood ratio of
/// e^-6.
const NEGLIGIBLE: f64 = 12.0;

/// Estimates the size of each step.
pub(crate) fn sizes(
    samples: &[Sample],
    points: &Points,
    fit: &Fit,
    options: &Options,
) -> Vec<Estimate> {
    let drawn = drawn_again(samples, points, fit, options);
    let passes = samples.iter().map(|sample| sample.passes.len()).max().unwrap_or(0);
    let tail = (1.0 - options.confidence.clamp(0.5, 0.999)) / 2.0;
    let mut bench = Bench::new(points);
    let one = |k: usize| {
        let (at, below, above) = weighed(&mut bench, &fit.steps, k, tail);
        let places: Vec<f64> = drawn.iter().map(|steps| steps[k].at).collect();
        let scatter = half_width(&places, passes, tail);
        Estimate {
            value: at.exp(),
            low: (at - below.hypot(scatter)).exp(),
            high: (at + above.hypot(scatter)).exp(),
            confidence: options.confidence,
            n: passes as u64,
        }
    };
    (0..fit.steps.len()).map(one).collect()
}

/// Returns a step's weighted mean position over all shapes, and the ends of its interval.
fn weighed(bench: &mut Bench, steps: &[Step], k: usize, tail: f64) -> (f64, f64, f64) {
    let mut places = places(bench, steps, k);
    let least = places.iter().map(|(loss, _)| *loss).fold(f64::INFINITY, f64::min);
    for (loss, _) in &mut places {
        *loss = (-(*loss - least) / 2.0).exp();
    }
    let sum: f64 = places.iter().map(|(weight, _)| weight).sum();
    let mean = places.iter().map(|(weight, at)| weight * at).sum::<f64>() / sum;
    if !mean.is_finite() {
        return (steps[k].at, GRID, GRID);
    }
    places.sort_by(|a, b| a.1.total_cmp(&b.1));
    let reach = |share: f64| {
        let mut left = share * sum;
        let beyond = places.iter().find(|(weight, _)| {
            left -= weight;
            left <= 0.0
        });
        beyond.map_or(mean, |place| place.1)
    };
    // A grid position represents an interval of one grid spacing.
    let (low, high) = (reach(tail) - GRID / 2.0, reach(1.0 - tail) + GRID / 2.0);
    (mean, mean - low, high - mean)
}

/// Returns the candidate positions of step `k` for all shapes, with their residuals.
fn places(bench: &mut Bench, steps: &[Step], k: usize) -> Vec<(f64, f64)> {
    let half = steps[k].half();
    let own = best_place(bench, steps, k, steps[k], 0.02, 0.01).map_or(f64::INFINITY, |own| own.0);
    let mut places = Vec::new();
    for shape in 0..shapes().len() {
        let at = if shape == steps[k].shape { steps[k].at } else { half - shapes()[shape].half };
        let start = Step { at, shape, ..steps[k] };
        let Some((loss, best)) = best_place(bench, steps, k, start, 0.3, 0.04) else { continue };
        if loss > own + NEGLIGIBLE {
            continue;
        }
        let mut tried = steps.to_vec();
        bench.place(steps, 0);
        for place in -PLACES..=PLACES {
            tried[k] = Step { at: best.at + GRID * f64::from(place), ..best };
            bench.place(&tried, k);
            places.push((bench.judge(&tried) + unusual(k, &tried[k]), tried[k].at));
        }
    }
    places
}

/// Fits the steps to resampled passes.
fn drawn_again(
    samples: &[Sample],
    points: &Points,
    fit: &Fit,
    options: &Options,
) -> Vec<Vec<Step>> {
    let mut rng = fastrand::Rng::with_seed(options.seed);
    let passes = samples.iter().map(|sample| sample.passes.len()).max().unwrap_or(0);
    let mut drawn = Vec::with_capacity(options.replicates as usize);
    for _ in 0..options.replicates {
        let chosen: Vec<usize> = (0..passes).map(|_| rng.usize(0..passes)).collect();
        let again: Vec<Sample> = samples.iter().map(|sample| choose(sample, &chosen)).collect();
        let mut again = Points::new(&again);
        again.sd.clone_from(&points.sd);
        drawn.push(moved(&mut Bench::new(&again), &fit.steps, 0.1).steps);
    }
    drawn
}

fn choose(sample: &Sample, chosen: &[usize]) -> Sample {
    let passes: Vec<f64> = chosen.iter().filter_map(|i| sample.passes.get(*i)).copied().collect();
    let passes = if passes.is_empty() { sample.passes.clone() } else { passes };
    Sample { bytes: sample.bytes, passes }
}

/// Returns the half-width of the central interval of `drawn`.
fn half_width(drawn: &[f64], passes: usize, tail: f64) -> f64 {
    let (Some(low), Some(high)) = (quantile(drawn, 0.16), quantile(drawn, 0.84)) else {
        return 0.0;
    };
    let n = passes as f64;
    let narrow = if passes > 1 { (n / (n - 1.0)).sqrt() } else { 1.0 };
    (high - low) / 2.0 * narrow * student_quantile((passes.max(2) - 1) as f64, tail)
}
