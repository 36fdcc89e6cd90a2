// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distinguishes a step caused by the TLB itself from one caused by other users of the TLB.
//!
//! Other users, such as an SMT sibling hidden by the hypervisor, take entries for a while. Few
//! passes then fit in the TLB, and the more pages, the fewer passes. While the other users are
//! idle, all passes fit up to the last entry, and none beyond it. Hits are therefore counted: at
//! each number of pages, the passes in which translations cost next to nothing. With `E` entries,
//! of the passes over
//!
//! ```text
//! E - 3, ..., E       about as many hit: those while others rest, and all entries are there
//! E + 1               none does
//! ```
//!
//! If other threads caused the edge at `n`, they would sometimes take one entry fewer. Hits decline
//! from `n - 3` to `n` by some factor per page, from which the number of hits among the passes over
//! `n + 1` is predicted. If 5 hits are predicted, none is seen by chance once in e^5 = 148 times;
//! the same holds for seeing only one if 7 are predicted (Poisson). A few passes may still hit,
//! since page coalescing frees entries.
//!
//! Two more facts must not contradict `E`. First, on all processors whose number of entries we
//! know, TLBs with more than 16 entries have a multiple of four entries, and smaller ones an even
//! number. Second, the half of the rise is where a TLB with `E` entries has it: with `E` entries in
//! `s` sets, where `s` is a power of two that divides `E`, the miss ratio is `r (n - E) (E + s) /
//! (s n)` (see `tlb/edge.rs`), where `r` is 1 with LRU and less with approximations of it. It is
//! one half at
//!
//! ```text
//! n = E / (1 - s / (2 r (E + s)))
//! ```
//!
//! If up to 18 of 96 entries are taken, the TLB looks like one with 78 entries, but the half of the
//! rise is at 97. With 78 entries in one or two sets, it would be at 80 at most.

use super::{Curve, Drawn, Fit, Level, Point};
use crate::resample::least;
use linerate_record::stats::{Estimate, quantile};

/// Minimum number of predicted hits beyond an edge for their absence to be significant. Each hit
/// seen requires two more.
const MIN_PREDICTED: f64 = 5.0;
/// Maximum share of the predicted hits that may occur, due to coalesced pages.
const JOINED: f64 = 0.2;
/// Number of pages over which the decline of hits is estimated.
const REACH: f64 = 3.0;
/// Maximum number of pages by which the edge may be beyond both the onset and the half.
const AROUND: f64 = 3.0;
/// Share of the usual rise at the next page, below which a pass counts as a hit.
const HIT: f64 = 0.5;
/// Minimum height of the step in standard errors of a point: otherwise hits cannot be recognized.
const LEAST_ERRORS: f64 = 2.0;
/// Maximum error of the half, in pages or as a share of the entries, whichever is larger.
const NEAR: (f64, f64) = (2.0, 0.02);
/// Minimum miss ratio in an overfull set with pseudo-LRU.
const LEAST_MISSED: f64 = 0.75;

impl Point {
    /// Translation cost in the pass of this rank among `n` passes: see [`USUAL`] and [`SLOW`].
    pub(super) fn ranked(&self, rank: fn(usize) -> usize) -> f64 {
        let mut sorted = self.spread.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let time = sorted.get(rank(sorted.len())).copied();
        time.unwrap_or(f64::NAN) - least(&self.packed).unwrap_or(f64::NAN)
    }

    /// Number of passes in which translation costs at most `share` of the rise.
    fn hits(&self, drawn: &Drawn, share: f64) -> f64 {
        let packed = least(&self.packed).unwrap_or(f64::NAN);
        let hit = |time: &&f64| drawn.share(**time - packed) <= share;
        self.spread.iter().filter(hit).count() as f64
    }

    fn passes(&self) -> f64 {
        self.spread.len() as f64
    }
}

/// The rank of the usual pass: the lower median, since disturbances usually add time.
pub(super) const USUAL: fn(usize) -> usize = |n| n.saturating_sub(1) / 2;
/// The rank of a slow pass, at the third quartile: includes effects that a few lucky passes hide.
pub(super) const SLOW: fn(usize) -> usize = |n| (3 * n.saturating_sub(1)).div_ceil(4);

impl Curve {
    /// For `level`, whose rise is `drawn`: the number of pages after which most hits are gone, and
    /// whether other users can be excluded as the cause.
    pub(super) fn last_hits(&self, drawn: &Drawn, level: &Level) -> Option<(Estimate, bool)> {
        let high = level.onset.high.max(level.half.high) + AROUND;
        let places = 1..self.points.partition_point(|point| point.pages <= high);
        let edges = places.filter_map(|place| Some((place, self.hits_about(drawn, place)?)));
        let (place, hits) = edges.max_by(|a, b| a.1.gone().total_cmp(&b.1.gone()))?;
        let value = self.points[place].pages;
        let is_it = hits.end() && is_possible(value) && is_half_near(value, level.half);
        Some((Estimate { value, low: value, high: value, n: hits.passes, ..level.onset }, is_it))
    }

    /// Hits at `place`, which is not the first point, and at its neighbours. `None` if hits cannot
    /// be recognized there, or if no point follows.
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

/// Hits after a candidate for the last entry.
struct Hits {
    predicted: f64,
    seen: f64,
    /// Whether the next point is one page further, and the points before are close enough for a
    /// prediction.
    is_close: bool,
    /// Number of passes at the last entry.
    passes: u64,
}

impl Hits {
    fn gone(&self) -> f64 {
        self.predicted - self.seen
    }

    /// Whether there were too few hits beyond the candidate for the TLB to have another entry.
    fn end(&self) -> bool {
        let are_gone =
            self.gone() >= MIN_PREDICTED + self.seen && self.seen <= JOINED * self.predicted;
        self.is_close && are_gone
    }
}

/// Whether TLBs with this number of entries exist.
fn is_possible(entries: f64) -> bool {
    entries % if entries > 16.0 { 4.0 } else { 2.0 } == 0.0
}

/// Whether `half` of the rise is consistent with `entries` entries.
fn is_half_near(entries: f64, half: Estimate) -> bool {
    most_half(entries) + NEAR.0.max(NEAR.1 * entries) >= half.low
}

/// Maximum number of pages at which a TLB with `entries` entries misses half of the time.
fn most_half(entries: f64) -> f64 {
    let mut sets = 1.0;
    while (entries / (2.0 * sets)).fract() == 0.0 && 4.0 * sets <= entries {
        sets *= 2.0;
    }
    entries / (1.0 - sets / (2.0 * LEAST_MISSED * (entries + sets)))
}

/// `onset`, widened to contain the edges and halves of `fits`, and `hits`, the last number of pages
/// with hits.
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
