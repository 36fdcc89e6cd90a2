// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distinguishes a step caused by the TLB itself from one caused by other users of the TLB.
//!
//! Other users, such as an SMT sibling hidden by the hypervisor, occupy entries for a while. Only
//! some passes then fit in the TLB: the more pages, the fewer passes. While the other users are
//! idle, all passes fit up to the last entry, and none beyond it. Hits are therefore counted: a
//! pass counts as a hit if its translations cost next to nothing. With `E` entries, the hits depend
//! on the number of pages as follows:
//!
//! ```text
//! E - 3, ..., E       about equally many hit: those during which other users are idle
//! E + 1               none hit
//! ```
//!
//! If other users caused an edge at `n` pages, they would sometimes occupy one entry fewer. Hits
//! decline from `n - 3` to `n` by some factor per page, which predicts the number of hits among the
//! passes over `n + 1`. If 5 hits are predicted, the chance of seeing none is one in e^5 = 148; the
//! same holds for seeing only one if 7 are predicted (Poisson). A few passes may still hit because
//! page coalescing frees entries.
//!
//! `E` must also be consistent with two further facts. First, on all processors whose number of
//! entries is known, TLBs with more than 16 entries have a multiple of four entries, and smaller
//! ones an even number. Second, the midpoint of the rise must be consistent with `E`: with `E`
//! entries in `s` sets, where `s` is a power of two that divides `E`, the miss ratio is `r (n - E)
//! (E + s) / (s n)` (see `tlb/edge.rs`), where `r` is 1 with LRU and less with approximations of
//! it. It is one half at
//!
//! ```text
//! n = E / (1 - s / (2 r (E + s)))
//! ```
//!
//! For example, if other users occupy up to 18 of 96 entries, the edge is that of a TLB with 78
//! entries, but the midpoint of the rise is at 97. With 78 entries in one or two sets, it would be
//! at 80 or below.

use super::{Curve, Drawn, Fit, Level, Point};
use crate::resample::least;
use linerate_record::stats::{Estimate, quantile};

/// Minimum number of predicted hits beyond an edge for their absence to be significant. Each
/// observed hit requires two more predicted ones.
const MIN_PREDICTED: f64 = 5.0;
/// Maximum fraction of the predicted hits that may still occur because of page coalescing.
const JOINED: f64 = 0.2;
/// Number of pages over which the decline of hits is estimated.
const REACH: f64 = 3.0;
/// Maximum number of pages by which the edge may exceed both the onset and the midpoint.
const AROUND: f64 = 3.0;
/// A pass counts as a hit if it shows less than this fraction of the usual rise at the next point.
const HIT: f64 = 0.5;
/// Minimum height of the step in standard errors of a point; below it, hits cannot be recognized.
const LEAST_ERRORS: f64 = 2.0;
/// Maximum error of the midpoint, in pages or as a fraction of the entries, whichever is larger.
const NEAR: (f64, f64) = (2.0, 0.02);
/// Minimum miss ratio in a set that has one page too many, with pseudo-LRU.
const LEAST_MISSED: f64 = 0.75;

impl Point {
    /// Sorts the passes by time, and returns the translation cost of the one that `rank` picks:
    /// `rank` maps the number of passes to an index. See [`USUAL`] and [`SLOW`].
    pub(super) fn ranked(&self, rank: fn(usize) -> usize) -> f64 {
        let mut sorted = self.spread.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let time = sorted.get(rank(sorted.len())).copied();
        time.unwrap_or(f64::NAN) - least(&self.packed).unwrap_or(f64::NAN)
    }

    /// Returns how many passes have a translation cost of at most `share` of the rise.
    fn hits(&self, drawn: &Drawn, share: f64) -> f64 {
        let packed = least(&self.packed).unwrap_or(f64::NAN);
        let hit = |time: &&f64| drawn.share(**time - packed) <= share;
        self.spread.iter().filter(hit).count() as f64
    }

    fn passes(&self) -> f64 {
        self.spread.len() as f64
    }
}

/// Rank of the usual pass: the lower median, because interference usually adds time.
pub(super) const USUAL: fn(usize) -> usize = |n| n.saturating_sub(1) / 2;
/// Rank of a slow pass, at the third quartile, which includes effects that a few lucky passes hide.
pub(super) const SLOW: fn(usize) -> usize = |n| (3 * n.saturating_sub(1)).div_ceil(4);

impl Curve {
    /// Returns the number of pages after which most hits disappear, for `level` with rise `drawn`,
    /// and whether other users can be ruled out as the cause.
    pub(super) fn last_hits(&self, drawn: &Drawn, level: &Level) -> Option<(Estimate, bool)> {
        let high = level.onset.high.max(level.half.high) + AROUND;
        let places = 1..self.points.partition_point(|point| point.pages <= high);
        let edges = places.filter_map(|place| Some((place, self.hits_about(drawn, place)?)));
        let (place, hits) = edges.max_by(|a, b| a.1.gone().total_cmp(&b.1.gone()))?;
        let value = self.points[place].pages;
        let is_it = hits.end() && is_possible(value) && is_half_near(value, level.half);
        Some((Estimate { value, low: value, high: value, n: hits.passes, ..level.onset }, is_it))
    }

    /// Returns the hits at `place`, which must not be the first point, and at its neighbours;
    /// `None` if hits cannot be recognized there, or if no point follows.
    fn hits_about(&self, drawn: &Drawn, place: usize) -> Option<Hits> {
        let (edge, next) = (&self.points[place], self.points.get(place + 1)?);
        let share = HIT * drawn.share(next.ranked(USUAL)).min(1.0);
        let can_tell = share * drawn.cost >= LEAST_ERRORS * edge.error;
        let rate = |point: &Point| point.hits(drawn, share) / point.passes();
        let near = |point: &Point| point.pages >= edge.pages - REACH;
        let before = self.points[..place].iter().find(|point| near(point));
        let before = before.unwrap_or(&self.points[place - 1]);
        let decline = (rate(edge) / rate(before)).min(1.0);
        let rate_next = rate(edge) * decline.powf(1.0 / (edge.pages - before.pages));
        let predicted = rate_next * next.passes().min(edge.passes());
        let seen = next.hits(drawn, share);
        let is_close = near(before) && next.pages == edge.pages + 1.0;
        let is_told = can_tell && predicted.is_finite();
        is_told.then_some(Hits { predicted, seen, is_close, passes: edge.spread.len() as u64 })
    }
}

/// Predicted and observed hits just beyond a candidate for the last entry.
struct Hits {
    predicted: f64,
    seen: f64,
    /// Whether the next point is exactly one page further, and an earlier point is near enough to
    /// predict its hits.
    is_close: bool,
    /// Number of passes at the candidate for the last entry.
    passes: u64,
}

impl Hits {
    fn gone(&self) -> f64 {
        self.predicted - self.seen
    }

    /// Returns whether there were too few hits beyond the candidate for the TLB to have another
    /// entry.
    fn end(&self) -> bool {
        let are_gone =
            self.gone() >= MIN_PREDICTED + self.seen && self.seen <= JOINED * self.predicted;
        self.is_close && are_gone
    }
}

/// Returns whether TLBs with this number of entries exist.
fn is_possible(entries: f64) -> bool {
    entries % if entries > 16.0 { 4.0 } else { 2.0 } == 0.0
}

/// Returns whether the midpoint `half` is consistent with `entries` entries.
fn is_half_near(entries: f64, half: Estimate) -> bool {
    most_half(entries) + NEAR.0.max(NEAR.1 * entries) >= half.low
}

/// Returns the maximum number of pages at which a TLB with `entries` entries reaches a miss ratio
/// of one half.
fn most_half(entries: f64) -> f64 {
    let mut sets = 1.0;
    while (entries / (2.0 * sets)).fract() == 0.0 && 4.0 * sets <= entries {
        sets *= 2.0;
    }
    entries / (1.0 - sets / (2.0 * LEAST_MISSED * (entries + sets)))
}

/// Returns `onset`, widened to contain the edges and midpoints of `fits`, and `hits`, the last
/// number of pages with hits.
pub(super) fn widened<'a>(
    onset: Estimate,
    fits: impl Iterator<Item = &'a Fit>,
    hits: Option<f64>,
) -> Estimate {
    let ends = fits.flat_map(|fit| [fit.edge.low, fit.edge.high, fit.between.0, fit.between.1]);
    let ends: Vec<f64> = ends.chain(hits).collect();
    let low = quantile(&ends, 0.0).map_or(onset.low, |low| low.min(onset.low));
    let high = quantile(&ends, 1.0).map_or(onset.high, |high| high.max(onset.high));
    Estimate { low, high, ..onset }
}
