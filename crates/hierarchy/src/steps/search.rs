// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds how many steps a curve has, and where.
//!
//! ```text
//! fit of 0 steps: a constant
//! fit of K steps: the fit of K - 1 steps, plus one at the position on the whole curve that
//!                 improves the fit most;
//!                 then each step is refitted in turn until none moves:
//!                     first over the whole curve, with coarse shapes only;
//!                     then near the best position found, with all shapes
//! ```
//!
//! Every step is tried at all positions, so the result depends neither on a starting point nor on a
//! single step's local optima.

use super::model::{Bench, Fit, MOST, Step};
use super::points::Points;
use super::shape::{Policy, Spread, shapes};

/// Spacing of candidate steps, in ln(size).
const GRID: f64 = 0.12;

/// Minimum length of a climb in bytes: sets fill evenly only in steps of whole pages.
const PAGE_BYTES: f64 = 4096.0;

/// Distance in ln(size) above which climbs do not affect each other.
const APART: f64 = 3.0;

/// Relative difference below which sizes are treated as equal when choosing shapes.
const FINE: f64 = 0.015;

/// Size in bytes above which caches with up to 8 ways are rare.
const FEW_WAYS_END: f64 = 4e6;

/// Variance due to page placement: deterministic placement, and random placement with 64, 16 and 4
/// page colours.
const CHANCES: [f64; 4] = [0.0, 0.016, 0.06, 0.25];

/// Maximum number of sweeps over all steps to refine them.
const SWEEPS: usize = 3;

/// Returns the best fits with 0, 1, ... steps. From three steps on, stops after the first fit that
/// `more` does not accept as an improvement on the fit before it.
pub(crate) fn fits(points: &Points, more: impl Fn(&Fit, &Fit) -> bool) -> Vec<Fit> {
    let mut bench = Bench::new(points);
    let mut fits = vec![settle(&mut bench, Vec::new())];
    while fits.len() <= MOST.min(points.len().saturating_sub(2) / 2) {
        let steps = fits[fits.len() - 1].steps.clone();
        let fit = one_more(&mut bench, steps);
        let go_on = fits.len() < 3 || more(&fits[fits.len() - 1], &fit);
        fits.push(fit);
        if !go_on {
            break;
        }
    }
    fits
}

/// Computes the times for given steps.
pub(crate) fn settle(bench: &mut Bench, steps: Vec<Step>) -> Fit {
    bench.place(&steps, 0);
    let loss = bench.judge(&steps);
    Fit { times: bench.times[..=steps.len()].to_vec(), steps, loss }
}

fn one_more(bench: &mut Bench, steps: Vec<Step>) -> Fit {
    let mut candidates = vec![insert(bench, &steps)];
    candidates.extend((0..steps.len()).map(|k| split(bench, &steps, k)));
    let candidate = least(bench, candidates);
    let mut best = polish(bench, candidate);
    for _ in 0..SWEEPS {
        let mut candidates = Vec::new();
        for k in 0..best.steps.len() {
            let mut others = best.steps.clone();
            others.remove(k);
            candidates.push(insert(bench, &others));
        }
        for k in 1..best.steps.len() {
            if best.steps[k].at - best.steps[k - 1].at < APART {
                candidates.push(pair(bench, &best.steps, k));
            }
        }
        if candidates.is_empty() {
            break;
        }
        let candidate = least(bench, candidates);
        let other = polish(bench, candidate);
        if other.loss > best.loss * 0.99 - 1.0 {
            break;
        }
        best = other;
    }
    best
}

/// Returns the candidate with the smallest residual.
fn least(bench: &mut Bench, candidates: Vec<Vec<Step>>) -> Vec<Step> {
    let fits = candidates.into_iter().map(|steps| settle(bench, steps));
    let best = fits.min_by(|a, b| a.loss.total_cmp(&b.loss));
    best.map_or(Vec::new(), |fit| fit.steps)
}

/// Splits step `k` in two, in case its ramp is actually two ramps.
fn split(bench: &mut Bench, steps: &[Step], k: usize) -> Vec<Step> {
    let mut steps = steps.to_vec();
    steps.insert(k + 1, Step { at: steps[k].at + 0.4, victim: false, ..steps[k] });
    steps[k].at -= 0.4;
    pair(bench, &steps, k + 1)
}

/// Refits steps `k - 1` and `k` together. If the tail of one is mistaken for the ramp of the other,
/// neither can be moved alone.
fn pair(bench: &mut Bench, steps: &[Step], k: usize) -> Vec<Step> {
    let mut best = (f64::INFINITY, steps.to_vec());
    for nearer in coarse() {
        for further in coarse() {
            let mut tried = steps.to_vec();
            for (k, shape) in [(k - 1, nearer), (k, further)] {
                let at = tried[k].half() - shapes()[shape].half;
                tried[k] = Step { at, shape, victim: false, chance: usual_chance(k, shape) };
            }
            let loss = settle_pair(bench, &mut tried, k);
            if loss < best.0 {
                best = (loss, tried);
            }
        }
    }
    best.1
}

fn settle_pair(bench: &mut Bench, steps: &mut [Step], k: usize) -> f64 {
    let mut loss = f64::INFINITY;
    for reach in [0.6, 0.3] {
        for k in [k - 1, k] {
            if let Some((left, step)) = best_place(bench, steps, k, steps[k], reach, 0.04) {
                (loss, steps[k]) = (left, step);
            }
        }
    }
    loss
}

/// Inserts one more step, with the grid position and coarse shape that minimize the residual.
fn insert(bench: &mut Bench, steps: &[Step]) -> Vec<Step> {
    let (first, last) = match (bench.points.ln_bytes.first(), bench.points.ln_bytes.last()) {
        (Some(first), Some(last)) => (*first, *last),
        _ => return steps.to_vec(),
    };
    let mut best = (f64::INFINITY, steps.to_vec());
    let mut placed = None;
    for shape in coarse() {
        let half = shapes()[shape].half;
        for i in 0..=((last - first) / GRID) as usize {
            let at = first + GRID * i as f64 - half;
            let mut tried = steps.to_vec();
            let place = tried.partition_point(|step| step.at < at);
            tried.insert(
                place,
                Step { at, shape, victim: false, chance: usual_chance(place, shape) },
            );
            bench.place(&tried, if placed == Some(place) { place } else { 0 });
            placed = Some(place);
            let loss = bench.judge(&tried);
            if loss < best.0 {
                best = (loss, tried);
            }
        }
    }
    best.1
}

/// Returns the indices of one shape per width: an edge, a ramp, and a ramp with a tail.
fn coarse() -> impl Iterator<Item = usize> {
    let kinds = [
        (Spread::Even, Policy::Lru, 8),
        (Spread::Scattered, Policy::Lru, 12),
        (Spread::Scattered, Policy::Random, 8),
    ];
    kinds.into_iter().filter_map(number)
}

/// Returns the index of one shape per combination of policy and spread.
fn kinds() -> impl Iterator<Item = usize> {
    let policies = [Policy::Lru, Policy::Random];
    policies.into_iter().flat_map(|policy| {
        [Spread::Even, Spread::Scattered].into_iter().filter_map(move |s| number((s, policy, 8)))
    })
}

fn number((spread, policy, ways): (Spread, Policy, usize)) -> Option<usize> {
    shapes().iter().position(|s| s.spread == spread && s.policy == policy && s.ways == ways)
}

/// Optimizes the shape and position of each step in turn.
fn polish(bench: &mut Bench, steps: Vec<Step>) -> Fit {
    let mut best = settle(bench, steps);
    let mut fit = best.clone();
    for _ in 0..SWEEPS {
        let before = fit.loss;
        for k in 0..fit.steps.len() {
            fit.steps[k] = reshape(bench, &fit.steps, k);
        }
        fit = settle(bench, fit.steps);
        if fit.loss < best.loss {
            best = fit.clone();
        }
        if fit.loss > before * 0.99 - 1.0 {
            break;
        }
    }
    best
}

/// Finds the best shape and position for step `k`: first the kind of cache, then its ways, then
/// whether it is a victim cache, then the variance due to page placement.
fn reshape(bench: &mut Bench, steps: &[Step], k: usize) -> Step {
    let half = steps[k].half();
    let start = |shape: usize| Step {
        at: half - shapes()[shape].half,
        shape,
        victim: false,
        chance: usual_chance(k, shape),
    };
    let mut best = (f64::INFINITY, steps[k]);
    let mut take = |found: Option<(f64, Step)>| {
        best = found.filter(|found| found.0 < best.0).unwrap_or(best);
        best.1
    };
    take(best_place(bench, steps, k, steps[k], 0.12, FINE));
    for shape in kinds() {
        take(best_place(bench, steps, k, start(shape), 0.24, FINE));
    }
    let kind = &shapes()[take(None).shape];
    for (shape, same) in shapes().iter().enumerate() {
        if same.spread == kind.spread && same.policy == kind.policy && same.ways != 8 {
            take(best_place(bench, steps, k, start(shape), 0.24, FINE));
        }
    }
    if k > 0 {
        let other = take(None);
        take(best_place(bench, steps, k, Step { victim: !other.victim, ..other }, 0.24, FINE));
    }
    for chance in CHANCES {
        let other = take(None);
        if shapes()[other.shape].spread == Spread::Scattered {
            take(best_place(bench, steps, k, Step { chance, ..other }, 0.03, FINE));
        }
    }
    take(None)
}

/// Returns the best position for a step within `reach` of the current one; `None` if its shape is
/// impossible there.
pub(crate) fn best_place(
    bench: &mut Bench,
    steps: &[Step],
    k: usize,
    start: Step,
    reach: f64,
    finest: f64,
) -> Option<(f64, Step)> {
    bench.place(steps, 0);
    let mut steps = steps.to_vec();
    let lowest = steps[..k].last().map_or(f64::NEG_INFINITY, |step| step.at + 0.05);
    // Less than half of the climb was measured, so any height would fit.
    let last = bench.points.ln_bytes.last().copied().unwrap_or(f64::NEG_INFINITY);
    let seen = last - shapes()[start.shape].half;
    let highest = steps.get(k + 1).map_or(seen, |step| (step.at - 0.05).min(seen));
    let mut loss_at = |at: f64| {
        if !(lowest..=highest).contains(&at) || !possible(at, start.shape) {
            return f64::INFINITY;
        }
        steps[k] = Step { at, ..start };
        bench.place(&steps, k);
        bench.judge(&steps) + unusual(k, &steps[k])
    };
    let (mut at, mut loss) = (start.at, loss_at(start.at));
    let mut stride = reach / 2.0;
    while stride > finest {
        let tried = [at - 2.0 * stride, at - stride, at + stride, at + 2.0 * stride];
        let better = tried.map(|at| (loss_at(at), at));
        if let Some(best) = better.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)) {
            if best.0 < loss {
                (loss, at) = best;
            }
        }
        stride /= 2.5;
    }
    loss.is_finite().then_some((loss, Step { at, ..start }))
}

/// Returns the variance due to page placement with which a search starts: 0 for L1 and for evenly
/// filled sets.
fn usual_chance(k: usize, shape: usize) -> f64 {
    if k > 0 && shapes()[shape].spread == Spread::Scattered { CHANCES[1] } else { CHANCES[0] }
}

/// Returns the penalty for a shape: minus twice the log of its prior. The prior assumes that L1 is
/// indexed by virtual addresses, and later caches by randomly placed pages unless pages are huge;
/// that there are as many page colours as pages in a way; and that caches with very few or very
/// many ways are rare.
pub(crate) fn unusual(k: usize, step: &Step) -> f64 {
    let shape = &shapes()[step.shape];
    let index = match (k, shape.spread) {
        (0, Spread::Scattered) => 3.0,
        (0, Spread::Even) | (_, Spread::Scattered) => 0.0,
        (_, Spread::Even) => 8.0,
    };
    let ways = match (shape.spread, shape.ways) {
        (Spread::Scattered, 2) => 6.0,
        (Spread::Scattered, 4 | 6) => 2.0,
        (Spread::Scattered, 64) => 4.0,
        _ => 0.0,
    };
    let few = shape.ways <= 8 && step.at.exp() > FEW_WAYS_END;
    let ways = ways + if few { 5.0 } else { 0.0 };
    let colours = step.at.exp() / PAGE_BYTES / shape.ways as f64;
    index + ways + 2.0 * (step.chance * colours).max(1.0).ln()
}

fn possible(at: f64, shape: usize) -> bool {
    let shape = &shapes()[shape];
    shape.spread == Spread::Scattered || at.exp() * 1.02 >= PAGE_BYTES * shape.ways as f64
}

/// Moves the steps by up to `reach` for the best fit to the points of `bench`.
pub(crate) fn moved(bench: &mut Bench, steps: &[Step], reach: f64) -> Fit {
    let mut fit = settle(bench, steps.to_vec());
    for reach in [reach, reach / 3.0] {
        for k in 0..fit.steps.len() {
            let start = fit.steps[k];
            if let Some((_, step)) = best_place(bench, &fit.steps, k, start, reach, 0.004) {
                fit.steps[k] = step;
            }
        }
        fit = settle(bench, fit.steps);
    }
    fit
}
