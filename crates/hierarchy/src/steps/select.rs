// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selects a curve's number of levels: as many as improve the prediction of a held-out pass
//! (cross-validation).
//!
//! The sizes in one pass are correlated because they share pages: a ramp that is off at one size is
//! off at the next, and an apparent small step is often due to the pages that these few passes
//! happened to use. Criteria that assume independent sizes, such as BIC, find far too many levels.
//! Passes are independent, so an additional step is fitted to all passes but one and must improve
//! the prediction for the pass left out, with each pass left out once.

use super::model::{Bench, Fit, Step, loss};
use super::points::Points;
use super::search::{fits, moved};
use super::shape::shapes;
use super::{Cause, RESOLUTION, Sample, Unresolved};

/// Minimum ratio between the latencies of distinct levels.
const DISTINCT: f64 = 1.2;

/// Maximum ratio of an extrapolated latency to the largest measured one: a climb that is only half
/// visible does not end far above the measured part.
const EXTRAPOLATED: f64 = 1.25;

/// Minimum improvement in cross-validated loss, summed over all passes, for accepting more steps.
const WORTH: f64 = 12.0;

/// Minimum improvement for accepting two steps that are too close to be distinguished, because a
/// single ramp of unknown shape looks like two.
const WORTH_CLOSE: f64 = 400.0;

/// A cache size has moved if the sizes found in different passes differ by more than this factor.
const MOVED: f64 = 1.3;

/// Tolerance on [`RESOLUTION`]: neighbouring sizes whose ratio falls short of it by no more than a
/// size's error still count as distinguished.
const TOLERATED: f64 = 0.92;

/// Steps of the final fit, and the ranges of sizes in which no level could be determined.
pub(crate) struct Selected {
    pub(crate) fit: Fit,
    pub(crate) unresolved: Vec<Unresolved>,
}

/// Selects the fit with the most steps that improve the prediction.
pub(crate) fn select(samples: &[Sample], points: &Points) -> Selected {
    let fits = fits(points, |fewer, more| fewer.loss - more.loss > WORTH);
    let mut fits = fits.into_iter();
    let mut fit = fits.next().unwrap_or(Fit { steps: Vec::new(), times: Vec::new(), loss: 0.0 });
    let mut losses = predicted(samples, points, &fit);
    let mut unresolved = Vec::new();
    for more in fits {
        let of_more = predicted(samples, points, &more);
        let close = too_close(&more);
        let worth = if close.is_empty() { WORTH } else { WORTH_CLOSE };
        let ok = distinct(&more)
            && is_within_measured(&more, points)
            && better(&losses, &of_more, worth)
            && stands_out(samples, &more);
        if !ok {
            continue;
        }
        if close.is_empty() {
            (fit, losses) = (more, of_more);
            unresolved.clear();
        } else {
            unresolved = close;
        }
    }
    Selected { fit, unresolved }
}

/// Returns the pairs of steps that are closer together than the resolution.
fn too_close(fit: &Fit) -> Vec<Unresolved> {
    let close = fit
        .steps
        .windows(2)
        .filter(|pair| (pair[1].at - pair[0].at).exp() < RESOLUTION * TOLERATED);
    let report = |pair: &[Step]| Unresolved {
        from: pair[0].at.exp() as u64,
        to: pair[1].at.exp() as u64,
        cause: Cause::TooClose,
    };
    close.map(report).collect()
}

/// Returns, for each step, the second smallest and the second largest of the sizes found in single
/// passes; `None` if page placement and noise explain the difference between them.
pub(crate) fn moved_sizes(
    samples: &[Sample],
    points: &Points,
    fit: &Fit,
) -> Vec<Option<(u64, u64)>> {
    let passes = samples.iter().map(|sample| sample.passes.len()).min().unwrap_or(0);
    let mut places = vec![Vec::new(); fit.steps.len()];
    for pass in 0..passes {
        let of_pass =
            |sample: &Sample| Sample { bytes: sample.bytes, passes: vec![sample.passes[pass]] };
        let alone: Vec<Sample> = samples.iter().map(of_pass).collect();
        let mut alone = Points::new(&alone);
        alone.sd.clone_from(&points.sd);
        let own = moved(&mut Bench::new(&alone), &fit.steps, 0.8);
        for (places, step) in places.iter_mut().zip(&own.steps) {
            places.push(step.at);
        }
    }
    places.into_iter().zip(&fit.steps).map(|(places, step)| apart(places, step)).collect()
}

/// Returns the second smallest and the second largest size in bytes if the step moved, that is, if
/// at least two passes differ from two others.
fn apart(mut places: Vec<f64>, step: &Step) -> Option<(u64, u64)> {
    if places.len() < 4 {
        return None;
    }
    places.sort_unstable_by(f64::total_cmp);
    let (low, high) = (places[1], places[places.len() - 2]);
    // Page placement alone scatters the single-pass sizes by about this much.
    let by_chance = 3.0 * step.chance.sqrt() / (shapes()[step.shape].ways as f64).sqrt();
    let moved = high - low > MOVED.ln() + by_chance;
    moved.then(|| (low.exp() as u64, high.exp() as u64))
}

/// Returns a fit's cross-validated loss in each held-out pass.
fn predicted(samples: &[Sample], points: &Points, fit: &Fit) -> Vec<f64> {
    let passes = samples.iter().map(|sample| sample.passes.len()).max().unwrap_or(0);
    let mut losses = Vec::with_capacity(passes);
    for left_out in 0..passes {
        let others: Vec<Sample> = samples.iter().map(|sample| without(sample, left_out)).collect();
        let mut others = Points::new(&others);
        others.sd.clone_from(&points.sd);
        let mut bench = Bench::new(&others);
        moved(&mut bench, &fit.steps, 0.1);
        let of_pass = samples.iter().enumerate().filter_map(|(i, sample)| {
            let time = sample.passes.get(left_out)?;
            let noise = points.sd[i].powi(2) * sample.passes.len() as f64;
            let widened = 1.0 + bench.chance(i, &fit.steps) / noise;
            let off = (time - bench.predicted(i, fit.steps.len())) / (noise * widened).sqrt();
            Some(loss(off) + widened.ln())
        });
        losses.push(of_pass.sum());
    }
    losses
}

/// Returns the sample without one pass, unless it has only one.
fn without(sample: &Sample, pass: usize) -> Sample {
    let mut sample = sample.clone();
    if sample.passes.len() > 1 && pass < sample.passes.len() {
        sample.passes.remove(pass);
    }
    sample
}

/// Returns whether every step of a fit leads to a slower level.
fn distinct(fit: &Fit) -> bool {
    fit.times().windows(2).all(|pair| pair[1] >= DISTINCT * pair[0])
}

/// Returns whether no level's latency is extrapolated too far beyond the measured times.
fn is_within_measured(fit: &Fit, points: &Points) -> bool {
    let longest = points.time.iter().copied().fold(0.0, f64::max);
    fit.times().iter().all(|time| *time <= EXTRAPOLATED * longest)
}

/// Minimum number of standard deviations by which the times above a step exceed those below it, by
/// ranks (Mann-Whitney). The search tries some thousand pairs of positions: in 600 curves of pure
/// noise (3, 5 and 8 passes; uniform, log-uniform and heavy-tailed), it reached at most 3.5. Steps
/// of curves recorded on busy machines have 4.8 and more.
const STANDS_OUT: f64 = 4.2;

/// With few times on one side, even a complete separation reaches less than [`STANDS_OUT`]; this
/// fraction of what it reaches is then enough.
const NEARLY: f64 = 0.95;

/// Returns whether the times on both sides of every step differ by more than chance. The held-out
/// pass does not show this by itself: the positions were found with it, too.
fn stands_out(samples: &[Sample], fit: &Fit) -> bool {
    let ends: Vec<f64> = fit.steps.iter().map(Step::half).chain([f64::INFINITY]).collect();
    let times = |from: f64, to: f64| -> Vec<f64> {
        let within = |sample: &&Sample| (from..to).contains(&(sample.bytes as f64).ln());
        samples.iter().filter(within).flat_map(|sample| sample.passes.iter().copied()).collect()
    };
    let mut from = f64::NEG_INFINITY;
    ends.windows(2).all(|pair| {
        let (below, above) = (times(from, pair[0]), times(pair[0], pair[1]));
        let is_inner = if below.is_empty() { from.is_finite() } else { pair[1].is_finite() };
        from = pair[0];
        // Close steps may have no size between them, and have a higher threshold of their own. A
        // step beyond the ends of the curve has no evidence.
        if below.is_empty() || above.is_empty() {
            return is_inner;
        }
        let (n, m) = (below.len() as f64, above.len() as f64);
        let most = (3.0 * n * m / (n + m + 1.0)).sqrt();
        excess(&below, &above) >= STANDS_OUT.min(NEARLY * most)
    })
}

/// Returns by how many standard deviations `above` exceeds `below` in the Mann-Whitney test, whose
/// statistic is the number of pairs in which the one from `above` is larger.
fn excess(below: &[f64], above: &[f64]) -> f64 {
    let of_one = |x: f64| below.iter().map(|y| f64::from(x > *y) + f64::from(x >= *y)).sum::<f64>();
    let pairs = above.iter().map(|x| of_one(*x) / 2.0).sum::<f64>();
    let (n, m) = (below.len() as f64, above.len() as f64);
    let sd = (n * m * (n + m + 1.0) / 12.0).sqrt();
    if sd > 0.0 { (pairs - n * m / 2.0) / sd } else { 0.0 }
}

/// Returns whether the second fit predicts better than the first, in total and for most passes.
fn better(fewer: &[f64], more: &[f64], worth: f64) -> bool {
    let gains: Vec<f64> = fewer.iter().zip(more).map(|(fewer, more)| fewer - more).collect();
    let gained = gains.iter().filter(|gain| **gain > 0.0).count();
    gains.iter().sum::<f64>() > worth && gained * 2 > gains.len()
}
