// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derives the latency of each level, and whether it was stable.
//!
//! Interference can only make loads slower, so a level's latency is the shortest time on its
//! plateau. The plateau consists of the sizes that are too large for the nearer caches but fit this
//! one.

use super::model::{Bench, Fit};
use super::points::Points;
use super::{Options, Sample};
use linerate_record::stats::{Estimate, median, quantile};

/// Limits below which a size belongs to the plateau. They apply both to the fraction of its time
/// that other levels contribute and to its random variation. If fewer than [`ENOUGH`] sizes are
/// below a limit, the next larger limit applies.
const FOREIGN: [f64; 4] = [0.001, 0.003, 0.01, 0.03];

/// Minimum number of sizes from which a plateau's latency is derived.
const ENOUGH: usize = 3;

/// Relative difference between passes above which a level's latency counts as changed, if the
/// difference also exceeds the spread within a pass by a factor of [`BEYOND_SPREAD`].
const MOVED: f64 = 0.08;
/// Ratio of the difference between passes to the spread within a pass above which a level's latency
/// counts as changed. See [`MOVED`].
const BEYOND_SPREAD: f64 = 4.0;

/// At least a quarter of a plateau's times must be within this factor of the shortest. Otherwise,
/// the shortest may be due to a nearer level that temporarily had more room.
const AGREE: f64 = 1.25;

/// Minimum distance of either end of the interval from the latency, as a fraction of the latency.
const CLAIMED: f64 = 0.003;

/// Quantile of the times on a plateau that is the upper end of the latency's interval: interference
/// rarely lengthens all times.
const USUAL: f64 = 0.25;

/// Relative error assumed for the latency of a level without a plateau, which is derived from the
/// ramps alone.
const UNSEEN: f64 = 0.05;

/// The estimated latency of a level, and where it comes from.
pub(crate) struct Plateau {
    pub(crate) latency: Estimate,
    /// Whether the latency was the same in all passes and at most sizes.
    pub(crate) settled: bool,
    /// Range of sizes, in bytes, that the latency is derived from; `None` if no size belongs to
    /// this level alone.
    pub(crate) extent: Option<(u64, u64)>,
}

/// Estimates each level's latency.
pub(crate) fn plateaus(
    samples: &[Sample],
    points: &Points,
    fit: &Fit,
    options: &Options,
) -> Vec<Plateau> {
    let mut bench = Bench::new(points);
    bench.place(&fit.steps, 0);
    bench.judge(&fit.steps);
    let times = fit.times();
    let one = |level: usize| {
        let own = |foreign: f64| -> Vec<usize> {
            let own = |i: &usize| {
                let moves = bench.chance(*i, &fit.steps).sqrt() / points.time[*i];
                bench.foreign(*i, level, fit.steps.len()).max(moves) < foreign
            };
            (0..points.len()).filter(own).collect()
        };
        let plateaus = FOREIGN.map(own);
        let enough = plateaus.iter().find(|sizes| sizes.len() >= ENOUGH);
        let sizes = enough.or(plateaus.last()).cloned().unwrap_or_default();
        let typical = times[level];
        // Removes the small contribution of other levels from a time.
        let pure = |i: usize, time: f64| time * typical / bench.predicted(i, fit.steps.len());
        plateau(samples, &sizes, typical, options.confidence, pure)
    };
    (0..times.len()).map(one).collect()
}

fn plateau(
    samples: &[Sample],
    sizes: &[usize],
    typical: f64,
    confidence: f64,
    pure: impl Fn(usize, f64) -> f64,
) -> Plateau {
    let times: Vec<f64> = sizes
        .iter()
        .flat_map(|&i| samples[i].passes.iter().map(move |&t| (i, t)))
        .map(|(i, t)| pure(i, t))
        .collect();
    let Some(value) = quantile(&times, 0.0) else {
        let (low, high) = (typical * (1.0 - UNSEEN), typical * (1.0 + UNSEEN));
        let latency = Estimate { value: typical, low, high, confidence, n: 0 };
        return Plateau { latency, settled: true, extent: None };
    };
    let high = quantile(&times, USUAL).unwrap_or(value).max(value * (1.0 + CLAIMED));
    let low = value * (1.0 - CLAIMED);
    let latency = Estimate { value, low, high, confidence, n: times.len() as u64 };
    let extent =
        sizes.first().zip(sizes.last()).map(|(a, b)| (samples[*a].bytes, samples[*b].bytes));
    let agree = high <= value * AGREE;
    Plateau { latency, settled: agree && settled(samples, sizes, &pure), extent }
}

/// Returns whether the spread of times within a pass explains the differences between passes.
fn settled(samples: &[Sample], sizes: &[usize], pure: impl Fn(usize, f64) -> f64) -> bool {
    let passes = sizes.iter().map(|i| samples[*i].passes.len()).max().unwrap_or(0);
    let (mut middles, mut spreads) = (Vec::new(), Vec::new());
    for pass in 0..passes {
        let times = sizes.iter().filter_map(|&i| Some(pure(i, *samples[i].passes.get(pass)?)));
        let times: Vec<f64> = times.collect();
        let Some(middle) = median(&times) else { continue };
        let off: Vec<f64> = times.iter().map(|time| (time / middle).ln().abs()).collect();
        middles.push(middle);
        spreads.push(1.48 * median(&off).unwrap_or(0.0) / (times.len() as f64).sqrt());
    }
    if middles.len() < 2 || sizes.len() < 3 {
        return true;
    }
    // Interference may affect one pass as a whole, so two must differ from the fastest.
    middles.sort_unstable_by(f64::total_cmp);
    let apart = (middles[middles.len() - 2] / middles[0]).ln();
    let within = median(&spreads).unwrap_or(0.0);
    apart < MOVED || apart < BEYOND_SPREAD * within
}
