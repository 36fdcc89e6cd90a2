// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the data TLB levels in load latency as a function of the number of pages.
//!
//! A chase through one line in each of `n` pages needs `n` translations and `n` lines; a chase
//! through `n` adjacent lines needs as many lines in few pages. Both are equivalent for the caches,
//! so the difference in time is the cost of translation. This cost is flat while a TLB level covers
//! the pages, and rises beyond:
//!
//! ```text
//! difference = time of the spread chase - time of the packed one, each the minimum of its passes
//! rising     = the nearest curve that never falls (medians of pooled neighbours)
//! plateaus   = stretches of it that are flat over an octave
//! a level    = a rise between two plateaus, or after the last
//! ```
//!
//! `tlb/edge.rs` models the edge of a rise. Intervals come from resampling the passes and the
//! points of the plateaus.
//!
//! SMT siblings occupy entries and page coalescing frees some; a minimum over few passes may hide
//! either effect. The edge is exactly that of the TLB only if `tlb/sharp.rs` rules out both.
//! Otherwise the number of entries is omitted, and the interval of the onset is widened to include
//! the midpoint of the rise, which is affected less.
//!
//! Levels less than an octave apart look like one. The reason for a slow climb (page tables that
//! leave the caches, or random replacement) is not determined.

mod edge;
mod huge;
mod pages;
mod sharp;

use crate::resample::{REPLICATES, interval, is_known, is_time, least, redrawn_least};
use edge::{Edge, Risen};
use fastrand::Rng;
pub use huge::{HugePages, huge_pages};
use linerate_record::stats::{Estimate, median, quantile};
use std::collections::BTreeMap;
use std::ops::Range;

pub use pages::{around_edge, refine, start};

/// Measurements at a given number of pages.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Number of pages, with one line in each.
    pub pages: u64,
    /// Time per load of a chase through one line of each page, in each pass's fastest window.
    pub spread: Vec<f64>,
    /// Time per load of a chase through as many adjacent lines in as few pages as possible, which
    /// is the cost of the caches alone. Passes need not pair up with those of `spread`.
    pub packed: Vec<f64>,
}

/// A measured TLB level.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Number of entries, if latency has a step that no other thread could have caused. If another
    /// thread may have caused the step, this is `None` although `is_step` is set; the interval of
    /// `onset` then contains the number of entries.
    pub entries: Option<Estimate>,
    /// Number of pages at which latency starts to rise. If the onset contradicts the midpoint, or
    /// the passes contradict each other, the interval contains all of these values.
    pub onset: Estimate,
    /// Number of pages at the midpoint of the rise. The high end is infinite if the end of the rise
    /// was not observed.
    pub half: Estimate,
    /// Time added by a miss in this level, in the unit of the samples. The high end is infinite if
    /// the end of the rise was not observed. The low end is at least 0 because a miss takes time.
    /// NaN (unknown) if the interval is wider than the value.
    pub cost: Estimate,
    /// Whether the rise is a sharp step; otherwise, it is a slow climb.
    pub is_step: bool,
}

impl Level {
    /// Returns the best estimate of how many pages can be accessed without misses: the number of
    /// entries or, for a step whose number of entries is unknown, the midpoint of the rise, which
    /// other threads affect less than the onset.
    pub fn reach(&self) -> f64 {
        match (self.entries, self.is_step) {
            (Some(entries), _) => entries.value,
            (None, true) => self.half.value,
            (None, false) => self.onset.value,
        }
    }
}

/// Maximum number of levels; any more would be noise.
const MOST_LEVELS: usize = 3;
/// Maximum ratio of the midpoint to the onset for a rise that counts as a step. With LRU, sets of
/// four or more ways reach the midpoint at 1 + 1/8; random replacement over the whole TLB reaches
/// it at 2 ln 2 = 1.386.
const STEEP: f64 = 1.33;

fn is_steep(half: Estimate, onset: Estimate) -> bool {
    half.value <= STEEP * onset.value
}

/// Finds at most three levels in `samples`, nearest first. Samples with the same number of pages
/// are combined; samples without a time are ignored.
pub fn levels(samples: &[Sample], confidence: f64, seed: u64) -> Vec<Level> {
    let curve = Curve::from_samples(samples);
    let mut random = Rng::with_seed(seed);
    let rises = curve.rises().into_iter().take(MOST_LEVELS);
    rises.filter_map(|rise| curve.level(&rise, confidence, &mut random)).collect()
}

/// All measurements at a given number of pages.
struct Point {
    pages: f64,
    spread: Vec<f64>,
    packed: Vec<f64>,
    /// Cost of translation: time of the spread chase minus time of the packed one.
    difference: f64,
    /// Point-to-point standard deviation of the difference.
    error: f64,
}

/// Points, in ascending order of pages.
struct Curve {
    points: Vec<Point>,
}

/// A rise in the translation cost.
struct Rise {
    /// Points of the plateau before the rise.
    before: Range<usize>,
    /// Points of the plateau after the rise; `None` if the curve ends in the rise.
    after: Option<Range<usize>>,
}

/// Minimum extent of a plateau, as the ratio of the page counts at its ends.
const OCTAVE: f64 = 1.9;
/// Minimum number of points on a plateau.
const LEAST_POINTS: usize = 3;
/// Maximum rise within a plateau, as a fraction of latency.
const FLAT: f64 = 0.03;
/// Maximum rise within a plateau, in standard errors.
const FLAT_ERRORS: f64 = 4.0;
/// Minimum cost of a level, as a fraction of the latency without TLB misses: a rise by half a cycle
/// is not a level.
const LEAST_COST: f64 = 0.1;
/// Minimum cost of a level relative to the previous level's; a smaller rise is a drift of the
/// plateau.
const LEAST_OF_PREVIOUS: f64 = 0.25;
/// Minimum relative point-to-point scatter of times.
const LEAST_ERROR: f64 = 0.003;
/// Number of passes after which interference with the fastest pass is considered permanent.
const ENOUGH_PASSES: usize = 12;

impl Curve {
    fn from_samples(samples: &[Sample]) -> Self {
        let mut passes = BTreeMap::<u64, (Vec<f64>, Vec<f64>)>::new();
        for sample in samples {
            let (spread, packed) = passes.entry(sample.pages).or_default();
            spread.extend(sample.spread.iter().copied().filter(|&time| is_time(time)));
            packed.extend(sample.packed.iter().copied().filter(|&time| is_time(time)));
        }
        let point = |(pages, (spread, packed)): (u64, (Vec<f64>, Vec<f64>))| {
            let difference = least(&spread)? - least(&packed)?;
            Some(Point { pages: pages as f64, spread, packed, difference, error: 0.0 })
        };
        let mut curve = Self { points: passes.into_iter().filter_map(point).collect() };
        let scatter = curve.scatter().max(LEAST_ERROR);
        for point in &mut curve.points {
            point.error = scatter * least(&point.spread).unwrap_or(f64::NAN);
        }
        curve
    }

    /// Returns a point's scatter around the line through its neighbours, as a standard deviation
    /// relative to its time.
    fn scatter(&self) -> f64 {
        let off = |three: &[Point]| {
            let [left, middle, right] = three else { return f64::NAN };
            let share = (middle.pages / left.pages).ln() / (right.pages / left.pages).ln();
            let line = left.difference * (1.0 - share) + right.difference * share;
            let variance = 1.0 + share.powi(2) + (1.0 - share).powi(2);
            let time = least(&middle.spread).unwrap_or(f64::NAN);
            (middle.difference - line).abs() / variance.sqrt() / time
        };
        let off: Vec<f64> = self.points.windows(3).map(off).filter(|off| off.is_finite()).collect();
        // The median of the absolute value of a standard normal variable is 0.6745.
        median(&off).map_or(0.0, |off| off / 0.6745)
    }

    fn differences(&self) -> Vec<f64> {
        self.points.iter().map(|point| point.difference).collect()
    }

    /// Returns the stretches where `rising` is flat.
    fn plateaus(&self, rising: &[f64]) -> Vec<Range<usize>> {
        let mut plateaus = Vec::new();
        let mut from = 0;
        while from < self.points.len() {
            let is_flat = |&to: &usize| {
                let point = &self.points[to];
                let time = least(&point.packed).unwrap_or(0.0) + rising[to];
                rising[to] - rising[from] <= (FLAT * time).max(FLAT_ERRORS * point.error)
            };
            let to = (from..self.points.len()).take_while(is_flat).count() + from;
            let ratio = self.points[to - 1].pages / self.points[from].pages;
            if to - from >= LEAST_POINTS && ratio >= OCTAVE {
                plateaus.push(from..to);
                from = to;
            } else {
                from += 1;
            }
        }
        plateaus
    }

    /// Returns the rises that count as levels. Empty if the first plateau does not begin at point
    /// 0: a level then ends before the first point, and later levels cannot be named.
    fn rises(&self) -> Vec<Rise> {
        let rising = isotonic(&self.differences());
        let mut plateaus = self.plateaus(&rising).into_iter().peekable();
        let Some(mut before) = plateaus.next_if(|first| first.start == 0) else {
            return Vec::new();
        };
        let hit = least(&self.points[0].spread).unwrap_or(f64::NAN);
        let mut least_rise = LEAST_COST * hit;
        let mut rises = Vec::new();
        for after in plateaus {
            let rise = self.mid(&rising, &after) - self.mid(&rising, &before);
            if rise < least_rise {
                before.end = after.end;
                continue;
            }
            least_rise = least_rise.max(LEAST_OF_PREVIOUS * rise);
            rises.push(Rise {
                before: std::mem::replace(&mut before, after.clone()),
                after: Some(after),
            });
        }
        if let (Some(last), Some(top)) = (self.points.last(), rising.last()) {
            let rise = top - self.mid(&rising, &before);
            if before.end < self.points.len() && rise > least_rise.max(5.0 * last.error) {
                rises.push(Rise { before, after: None });
            }
        }
        rises
    }

    fn mid(&self, values: &[f64], stretch: &Range<usize>) -> f64 {
        median(&values[stretch.clone()]).unwrap_or(f64::NAN)
    }

    /// Returns the page counts that were measured in few passes and are clearly slower than larger
    /// page counts.
    fn disturbed(&self) -> impl Iterator<Item = u64> {
        let rising = isotonic(&self.differences());
        let above = |(point, rising): &(&Point, f64)| {
            let clearly = point.difference - rising > FLAT_ERRORS * point.error;
            clearly && point.spread.len() < ENOUGH_PASSES
        };
        self.points.iter().zip(rising).filter(above).map(|(point, _)| point.pages as u64)
    }

    /// Returns the level at `rise`; `None` if its position cannot be determined.
    fn level(&self, rise: &Rise, confidence: f64, random: &mut Rng) -> Option<Level> {
        let end = rise.after.as_ref().map_or(self.points.len(), |after| after.end);
        let measured = self.as_measured(rise);
        let around = measured.around(rise.before.start.midpoint(rise.before.end - 1)..end)?;
        let found = self.fit(&measured, around.clone(), None)?;
        let fits: Vec<Fit> = (0..REPLICATES)
            .map(|_| self.redrawn(rise, random))
            .filter_map(|drawn| self.fit(&drawn, around.clone(), Some(found.edge)))
            .collect();
        let mut level = self.level_of(&found, &fits, rise.after.is_some(), confidence);
        if rise.after.is_some() {
            let ranked = |rank| self.fit(&self.as_ranked(rise, rank), around.clone(), None);
            let (usual, slow) = (ranked(sharp::USUAL), ranked(sharp::SLOW));
            match self.last_hits(&measured, &level) {
                Some((entries, true)) if is_steep(level.half, entries) => {
                    (level.onset, level.entries, level.is_step) = (entries, Some(entries), true);
                }
                hits => {
                    let fits = [Some(found), usual, slow];
                    let last = hits.map(|(edge, _)| edge.value);
                    level.onset = sharp::widened(level.onset, fits.iter().flatten(), last);
                }
            }
        }
        Some(level)
    }

    /// Returns the level with the values of `found` and intervals from `fits`.
    fn level_of(&self, found: &Fit, fits: &[Fit], has_end: bool, confidence: f64) -> Level {
        let n = self.points.iter().map(|point| point.spread.len() as u64).sum();
        let tail = (1.0 - confidence) / 2.0;
        let within = |value: f64, low: fn(&Fit) -> f64, high: fn(&Fit) -> f64| {
            let end =
                |of: fn(&Fit) -> f64, q| quantile(&fits.iter().map(of).collect::<Vec<f64>>(), q);
            let low = end(low, tail).unwrap_or(f64::NEG_INFINITY).min(value);
            let high = end(high, 1.0 - tail).unwrap_or(f64::INFINITY).max(value);
            Estimate { value, low, high, confidence, n }
        };
        let middle = f64::midpoint(found.edge.low, found.edge.high).floor();
        let onset = within(middle, |fit| fit.edge.low, |fit| fit.edge.high);
        let mut half = within(found.half, |fit| fit.between.0, |fit| fit.between.1);
        let costs: Vec<f64> = fits.iter().map(|fit| fit.cost).collect();
        let mut cost = interval(found.cost, &costs, confidence, n);
        if !has_end {
            half.high = f64::INFINITY;
            cost.high = f64::INFINITY;
        }
        cost.low = cost.low.max(0.0);
        if !is_known(cost) {
            cost.value = f64::NAN;
        }
        let is_step = has_end && is_steep(half, onset);
        Level { entries: None, onset, half, cost, is_step }
    }

    fn as_measured(&self, rise: &Rise) -> Drawn {
        let differences = self.differences();
        let before = self.mid(&differences, &rise.before);
        let after = rise.after.as_ref().map(|after| self.mid(&differences, after));
        Drawn::new(differences, before, after)
    }

    /// Returns the rise with the pass of a given rank at each point, instead of the fastest pass.
    fn as_ranked(&self, rise: &Rise, rank: fn(usize) -> usize) -> Drawn {
        let differences: Vec<f64> = self.points.iter().map(|point| point.ranked(rank)).collect();
        let before = self.mid(&differences, &rise.before);
        let after = rise.after.as_ref().map(|after| self.mid(&differences, after));
        Drawn::new(differences, before, after)
    }

    /// Resamples the passes at each point, and the points of each plateau, with replacement.
    fn redrawn(&self, rise: &Rise, random: &mut Rng) -> Drawn {
        let mut difference = |point: &Point| {
            redrawn_least(random, &point.spread) - redrawn_least(random, &point.packed)
        };
        let differences: Vec<f64> = self.points.iter().map(&mut difference).collect();
        let mut mid = |stretch: &Range<usize>| {
            let any = |_| differences[random.usize(stretch.clone())];
            median(&stretch.clone().map(any).collect::<Vec<f64>>()).unwrap_or(f64::NAN)
        };
        let before = mid(&rise.before);
        let after = rise.after.as_ref().map(mid);
        Drawn::new(differences, before, after)
    }

    /// Fits an edge to the points `around` a rise, close to the previous edge `near`, if any.
    fn fit(&self, drawn: &Drawn, around: Range<usize>, near: Option<Edge>) -> Option<Fit> {
        if drawn.cost <= 0.0 {
            return None;
        }
        let pages = |i: usize| self.points[around.start + i].pages;
        let shares: Vec<f64> =
            drawn.differences[around.clone()].iter().map(|&d| drawn.share(d)).collect();
        let rising = isotonic(&shares);
        let first_above = |share: f64| rising.iter().position(|&risen| risen >= share);
        let (begun, upper) = (first_above(edge::BEGINNING)?, first_above(0.5)?);
        let error = |i: usize| self.points[around.start + i].error / drawn.cost;
        let risen = |(i, &share): (usize, &f64)| Risen { pages: pages(i), share, error: error(i) };
        let curve: Vec<Risen> = shares.iter().enumerate().map(risen).collect();
        let mut candidates = edge::candidates(pages(0), pages(begun) - 1.0, &curve);
        if let Some(near) = near {
            let from = candidates.partition_point(|&pages| pages < near.low).saturating_sub(NEAR);
            let to = candidates.partition_point(|&pages| pages <= near.high) + NEAR;
            let to = to.min(candidates.len());
            candidates = candidates[from.min(to)..to].to_vec();
        }
        let edge = edge::fit(&curve, &candidates)?;
        let below = upper.saturating_sub(1);
        let between = (pages(below), pages(upper));
        let half = crossing(between, (rising[below], rising[upper]));
        Some(Fit { cost: drawn.cost, edge, half, between })
    }
}

/// Number of candidates before and after the edge that are tried on each resample.
const NEAR: usize = 6;

/// An edge is fitted to this many points before the rise and after its midpoint.
const POINTS_BEFORE: usize = 12;
const POINTS_AFTER: usize = 4;

/// Translation costs used for one fit, as measured or resampled, and the size of their rise.
struct Drawn {
    differences: Vec<f64>,
    /// Height of the plateau before the rise.
    before: f64,
    /// Height of the following plateau, or of the end of the curve, relative to `before`.
    cost: f64,
}

impl Drawn {
    fn new(differences: Vec<f64>, before: f64, after: Option<f64>) -> Self {
        let end = &differences[differences.len().saturating_sub(2 * LEAST_POINTS)..];
        let after = after.or_else(|| isotonic(end).last().copied());
        let cost = after.unwrap_or(f64::NAN) - before;
        Self { differences, before, cost }
    }

    /// Returns the relative position of `difference` between the two plateaus: 0 is the lower one.
    fn share(&self, difference: f64) -> f64 {
        (difference - self.before) / self.cost
    }

    /// Returns the range of points around the edge, within `part`.
    fn around(&self, part: Range<usize>) -> Option<Range<usize>> {
        let rising = isotonic(&self.differences[part.clone()]);
        let above = |share: f64| rising.iter().position(|&risen| self.share(risen) >= share);
        let (begun, half) = (above(edge::BEGINNING)?, above(0.5)?);
        let end = (part.start + half + POINTS_AFTER).min(part.end);
        Some(part.start + begun.saturating_sub(POINTS_BEFORE)..end)
    }
}

/// An edge fitted to a rise in translation cost.
struct Fit {
    cost: f64,
    edge: Edge,
    /// Number of pages at which the cost has risen by half.
    half: f64,
    /// Measured numbers of pages on either side of the midpoint.
    between: (f64, f64),
}

/// Returns the number of pages at the midpoint of the rise, interpolated between two numbers of
/// pages whose relative heights are `shares`.
fn crossing(pages: (f64, f64), shares: (f64, f64)) -> f64 {
    let step = shares.1 - shares.0;
    let part = if step > 0.0 { ((0.5 - shares.0) / step).clamp(0.0, 1.0) } else { 1.0 };
    pages.0 * (pages.1 / pages.0).powf(part)
}

/// Performs isotonic regression with absolute deviations: decreasing neighbours are pooled into
/// their median.
fn isotonic(values: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, Range<usize>)> = Vec::with_capacity(values.len());
    for (i, &value) in values.iter().enumerate() {
        let mut pool = (value, i..i + 1);
        while pools.last().is_some_and(|last| last.0 > pool.0) {
            let start = pools.pop().map_or(0, |(_, range)| range.start);
            let range = start..pool.1.end;
            pool = (median(&values[range.clone()]).unwrap_or(f64::NAN), range);
        }
        pools.push(pool);
    }
    pools.into_iter().flat_map(|(level, range)| range.map(move |_| level)).collect()
}

#[cfg(test)]
mod tests;
