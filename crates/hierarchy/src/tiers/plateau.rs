// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times of the tiers, and whether they stayed what they were.
//!
//! What disturbs a load makes it longer, so the time of a tier is near the shortest seen on its
//! plateau: the sizes that the caches before are too small for and that this one holds. Not the very
//! shortest: that depends on how often one looked.

use super::model::{Bench, Fit};
use super::points::Points;
use super::{Options, Sample};
use linerate_record::stats::{Estimate, median, quantile, quantile_interval};

/// A size is of the plateau if so small a share of its time is that of other tiers.
const FOREIGN: f64 = 0.01;

/// The quantile of the times on a plateau that is taken for its time.
const QUIET: f64 = 0.0;

/// Times that differ by this share between passes have moved, ...
const MOVED: f64 = 0.08;
/// ... if that is as many times what they stray within a pass.
const BEYOND_SPREAD: f64 = 4.0;

/// Finest difference that a time is claimed to be good for.
const CLAIMED: f64 = 0.003;

/// What is known of the time of a tier.
pub(crate) struct Plateau {
    pub(crate) latency: Estimate,
    /// Whether it was the same in all passes.
    pub(crate) settled: bool,
    /// Octets of the sizes it rests on; `None` where no size is of this tier alone.
    pub(crate) extent: Option<(u64, u64)>,
}

/// One per tier.
pub(crate) fn plateaus(
    samples: &[Sample],
    points: &Points,
    fit: &Fit,
    options: &Options,
) -> Vec<Plateau> {
    let mut bench = Bench::new(points);
    bench.place(&fit.steps, 0);
    bench.judge(&fit.steps);
    let levels = fit.levels();
    let one = |tier: usize| {
        let own = |i: &usize| bench.foreign(*i, tier, fit.steps.len()) < FOREIGN;
        let sizes: Vec<usize> = (0..points.len()).filter(own).collect();
        let level = levels[tier];
        // Times as they would be without the little that other tiers add.
        let pure = |i: usize, time: f64| time * level / bench.predicted(i, fit.steps.len());
        plateau(samples, &sizes, level, options.confidence, pure)
    };
    (0..levels.len()).map(one).collect()
}

fn plateau(
    samples: &[Sample],
    sizes: &[usize],
    level: f64,
    confidence: f64,
    pure: impl Fn(usize, f64) -> f64,
) -> Plateau {
    let times: Vec<f64> = sizes
        .iter()
        .flat_map(|&i| samples[i].passes.iter().map(move |&t| (i, t)))
        .map(|(i, t)| pure(i, t))
        .collect();
    let Some(value) = quantile(&times, QUIET) else {
        let (low, high) = (level * (1.0 - 0.05), level * (1.0 + 0.05));
        let latency = Estimate { value: level, low, high, confidence, n: 0 };
        return Plateau { latency, settled: true, extent: None };
    };
    let interval = quantile_interval(&times, QUIET, confidence);
    let shortest = times.iter().copied().fold(f64::INFINITY, f64::min);
    let longest = quantile(&times, 0.25).unwrap_or(value);
    let latency = Estimate {
        low: if interval.low.is_finite() { interval.low } else { shortest }
            .min(value * (1.0 - CLAIMED)),
        high: if interval.high.is_finite() { interval.high } else { longest }
            .max(value * (1.0 + CLAIMED)),
        value,
        confidence,
        n: times.len() as u64,
    };
    let extent =
        sizes.first().zip(sizes.last()).map(|(a, b)| (samples[*a].bytes, samples[*b].bytes));
    Plateau { latency, settled: settled(samples, sizes, &pure), extent }
}

/// Whether the passes agree, compared with how the sizes of a pass do.
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
    // One pass may be disturbed as a whole: two must stand apart from the least.
    middles.sort_unstable_by(f64::total_cmp);
    let apart = (middles[middles.len() - 2] / middles[0]).ln();
    let within = median(&spreads).unwrap_or(0.0);
    apart < MOVED || apart < BEYOND_SPREAD * within
}
