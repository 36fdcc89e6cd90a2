// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the data TLB levels from load latency as a function of the number of pages.
//!
//! A chase through one line of each of `n` pages needs `n` translations and `n` lines; a chase
//! through `n` adjacent lines needs the same number of lines in few pages. Both look the same to
//! the caches, so the difference between the two times is the cost of translation. It is flat while
//! a TLB level covers the pages, and rises beyond:
//!
//! ```text
//! difference = time of the spread chase - time of the packed one, least of the passes each
//! rising     = the nearest curve that never falls (medians of pooled neighbours)
//! plateaus   = stretches of it that are flat over an octave
//! a level    = a rise between two plateaus, or after the last
//! ```
//!
//! `tlb/edge.rs` models the edge of a rise. Intervals come from resampling the passes and the
//! points of the plateaus.
//!
//! SMT siblings take entries, and page coalescing frees some; the minimum over a few passes shows
//! neither effect. The edge is exactly that of the TLB only if `tlb/sharp.rs` can exclude such
//! effects. Otherwise the number of entries is left out, and the interval of the onset is widened
//! to include the half point, which is affected less.
//!
//! Left out: levels with less than an octave between them, which look like one; the reason for a
//! slow climb (page tables that leave the caches, random replacement).

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

/// Measurements at one number of pages.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Number of pages, with one line in each.
    pub pages: u64,
    /// Time per load of a chase through one line of each page, in the fastest window of each pass.
    pub spread: Vec<f64>,
    /// Time per load of a chase through an equal number of adjacent lines, in as few pages as
    /// possible: the cost of the caches alone. Passes need not pair up with those of `spread`.
    pub packed: Vec<f64>,
}

/// A TLB level.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Number of entries, if latency has a step that no other thread can have caused. If another
    /// thread can have caused the step, this is `None` although `is_step` is set; the interval of
    /// `onset` then contains the number of entries.
    pub entries: Option<Estimate>,
    /// Number of pages from which latency rises. If the onset and the half contradict each other,
    /// or the passes do, the interval contains all of them.
    pub onset: Estimate,
    /// Number of pages at half of the rise. The high end is infinite if the end of the rise was not
    /// seen.
    pub half: Estimate,
    /// Time added by a miss in this level, in the unit of the samples. The high end is infinite if
    /// the end of the rise was not seen. The low end is at least 0, since a miss takes time; if the
    /// interval is wider than the value, the value is NaN: unknown.
    pub cost: Estimate,
    /// Whether the rise is a step; otherwise, it is a slow climb.
    pub is_step: bool,
}

impl Level {
    /// Best estimate of the number of pages without misses: the number of entries or, for a step
    /// where that is unknown, the half of the rise, which other threads affect less than the onset.
    pub fn reach(&self) -> f64 {
        match (self.entries, self.is_step) {
            (Some(entries), _) => entries.value,
            (None, true) => self.half.value,
            (None, false) => self.onset.value,
        }
    }
}

/// Maximum number of levels: more are noise.
const MOST_LEVELS: usize = 3;
/// Maximum ratio of half to onset for a step. With LRU, sets of four or more ways reach half at 1 +
/// 1/8; random replacement over the whole TLB reaches it at 2 ln 2 = 1.386.
const STEEP: f64 = 1.33;

fn is_steep(half: Estimate, onset: Estimate) -> bool {
    half.value <= STEEP * onset.value
}

/// Returns the levels in `samples`, nearest first; at most three. Samples at the same number of
/// pages are combined; those without a time are ignored.
pub fn levels(samples: &[Sample], confidence: f64, seed: u64) -> Vec<Level> {
    let curve = Curve::from_samples(samples);
    let mut random = Rng::with_seed(seed);
    let rises = curve.rises().into_iter().take(MOST_LEVELS);
    rises.filter_map(|rise| curve.level(&rise, confidence, &mut random)).collect()
}

/// All measurements at one number of pages.
struct Point {
    pages: f64,
    spread: Vec<f64>,
    packed: Vec<f64>,
    /// Cost of translation.
    difference: f64,
    /// Standard deviation by which the difference scatters from point to point.
    error: f64,
}

/// Points by increasing number of pages.
struct Curve {
    points: Vec<Point>,
}

/// A rise in the difference.
struct Rise {
    /// The points of the plateau before the rise.
    before: Range<usize>,
    /// The points of the plateau after the rise; `None` if the curve ends in the rise.
    after: Option<Range<usize>>,
}

/// Minimum extent of a plateau: ratio of pages, and number of points.
const OCTAVE: f64 = 1.9;
const LEAST_POINTS: usize = 3;
/// Maximum rise within a plateau, as a share of the latency or in standard errors.
const FLAT: f64 = 0.03;
const FLAT_ERRORS: f64 = 4.0;
/// Minimum cost of a level, as a share of the latency with hits everywhere: half a cycle is not a
/// level.
const LEAST_COST: f64 = 0.1;
/// Minimum cost relative to the previous level: less is drift of a plateau.
const LEAST_OF_PREVIOUS: f64 = 0.25;
/// Minimum relative scatter of times from point to point.
const LEAST_ERROR: f64 = 0.003;
/// Number of passes after which a disturbance of the fastest pass is considered permanent.
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

    /// Scatter of a point around the line through its neighbours, as a standard deviation relative
    /// to its time.
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

    /// Stretches where `rising` is flat.
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

    /// Rises that count as levels. Empty if the first plateau does not begin at point 0, because a
    /// level then ends before the first point, and later levels cannot be named.
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

    /// Numbers of pages at which loads are clearly slower than at larger numbers, and which have
    /// few passes.
    fn disturbed(&self) -> impl Iterator<Item = u64> {
        let rising = isotonic(&self.differences());
        let above = |(point, rising): &(&Point, f64)| {
            let clearly = point.difference - rising > FLAT_ERRORS * point.error;
            clearly && point.spread.len() < ENOUGH_PASSES
        };
        self.points.iter().zip(rising).filter(above).map(|(point, _)| point.pages as u64)
    }

    /// The level at `rise`. `None` if its position cannot be determined.
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

    /// The level `found`, with intervals from `fits`.
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

    /// Uses the pass of a given rank at each point, rather than the fastest pass.
    fn as_ranked(&self, rise: &Rise, rank: fn(usize) -> usize) -> Drawn {
        let differences: Vec<f64> = self.points.iter().map(|point| point.ranked(rank)).collect();
        let before = self.mid(&differences, &rise.before);
        let after = rise.after.as_ref().map(|after| self.mid(&differences, after));
        Drawn::new(differences, before, after)
    }

    /// Draws the passes of each point, and the points of each plateau, with replacement.
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

    /// Fits an edge to the points `around` a rise, close to the previous edge `near` if there is
    /// one.
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

/// Number of candidates that resamples consider on either side of the edge.
const NEAR: usize = 6;

/// Number of points before a rise, and after its half, to which an edge is fitted.
const POINTS_BEFORE: usize = 12;
const POINTS_AFTER: usize = 4;

/// Differences, and the rise in them.
struct Drawn {
    differences: Vec<f64>,
    /// Height of the plateau before the rise.
    before: f64,
    /// Height of the following plateau, or of the end of the curve, above `before`.
    cost: f64,
}

impl Drawn {
    fn new(differences: Vec<f64>, before: f64, after: Option<f64>) -> Self {
        let end = &differences[differences.len().saturating_sub(2 * LEAST_POINTS)..];
        let after = after.or_else(|| isotonic(end).last().copied());
        let cost = after.unwrap_or(f64::NAN) - before;
        Self { differences, before, cost }
    }

    /// Position of `difference` between the two plateaus, from 0 to 1.
    fn share(&self, difference: f64) -> f64 {
        (difference - self.before) / self.cost
    }

    /// The points around the edge, within `part`.
    fn around(&self, part: Range<usize>) -> Option<Range<usize>> {
        let rising = isotonic(&self.differences[part.clone()]);
        let above = |share: f64| rising.iter().position(|&risen| self.share(risen) >= share);
        let (begun, half) = (above(edge::BEGINNING)?, above(0.5)?);
        let end = (part.start + half + POINTS_AFTER).min(part.end);
        Some(part.start + begun.saturating_sub(POINTS_BEFORE)..end)
    }
}

/// Shape of a rise.
struct Fit {
    cost: f64,
    edge: Edge,
    /// Number of pages at half of the rise, and the points on either side.
    half: f64,
    between: (f64, f64),
}

/// Number of pages at half of the rise, interpolated between two numbers of pages with these shares
/// of the rise.
fn crossing(pages: (f64, f64), shares: (f64, f64)) -> f64 {
    let step = shares.1 - shares.0;
    let part = if step > 0.0 { ((0.5 - shares.0) / step).clamp(0.0, 1.0) } else { 1.0 };
    pages.0 * (pages.1 / pages.0).powf(part)
}

/// Isotonic regression on absolute deviations: decreasing neighbours are pooled into their median.
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
