// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the edge of a step is that of the buffer, or of what others left of it.
//!
//! What others take in a window is another number in each. So a step is that of the buffer if
//!
//! ```text
//! its edge is known to a page or two,
//! the usual passes have the half where the fastest have it,
//! from the edge to the half, passes agree on all numbers of pages but few, enough of them,
//! and the half is where a buffer with that edge has it
//! ```
//!
//! The last: of `E` entries in `s` sets, which number is a power of two that divides `E`, the share
//! of misses is `r (n - E) (E + s) / (s n)` (see `tlb/edge.rs`), where `r` is 1 with LRU and less
//! with what approximates it. It is a half at
//!
//! ```text
//! n = E / (1 - s / (2 r (E + s)))
//! ```
//!
//! 96 entries of which up to 18 are taken look like 78, but the half is at 97: of 78 in one set or
//! two it is at 80 at most.

use super::{Curve, Fit, Level, Point};
use crate::resample::least;
use linerate_record::stats::{Estimate, quantile};

/// Fewer passes agree by chance.
const LEAST_PASSES: usize = 3;
/// Passes agree where the usual one is so much of the rise above the fastest, at most.
const AGREE: f64 = 0.15;
/// One in so many points may be disturbed in most of its passes: what takes entries is seen at all.
const MAY_DIFFER: usize = 6;
/// The edge is known where the interval is so wide, in pages, or as a share of it.
const WIDTH: (f64, f64) = (2.0, 0.02);
/// Edges that are tried in a wide interval; one in so many has all sets that matter.
const MOST_EDGES: f64 = 64.0;
/// The least share of the accesses to an overfull set that miss, with what approximates LRU.
const LEAST_MISSED: f64 = 0.75;

impl Point {
    /// What translations cost in the pass of this rank, of `n` passes: see [`USUAL`] and [`SLOW`].
    pub(super) fn ranked(&self, rank: fn(usize) -> usize) -> f64 {
        let mut sorted = self.spread.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let time = sorted.get(rank(sorted.len())).copied();
        time.unwrap_or(f64::NAN) - least(&self.packed).unwrap_or(f64::NAN)
    }
}

/// The rank of the usual pass: the lower of the middle ones, since what disturbs adds more often
/// than it takes off.
pub(super) const USUAL: fn(usize) -> usize = |n| n.saturating_sub(1) / 2;
/// That of a slow pass, at the third quartile: what a few lucky passes hide is in it.
pub(super) const SLOW: fn(usize) -> usize = |n| (3 * n.saturating_sub(1)).div_ceil(4);

impl Curve {
    /// Whether `level`, a step, is that of the buffer, where the usual passes make `usual` of it.
    pub(super) fn is_sharp(&self, level: &Level, usual: Option<&Fit>) -> bool {
        let (onset, half) = (level.onset, level.half);
        let near = WIDTH.0.max(WIDTH.1 * onset.value);
        let usual_is_near = usual.is_some_and(|usual| (usual.half - half.value).abs() <= near);
        let is_narrow = onset.high - onset.low <= near;
        let edges =
            (0..=near.min(MOST_EDGES) as u32).map(|pages| onset.low.ceil() + f64::from(pages));
        let halves = edges.take_while(|edge| *edge <= onset.high).map(most_half);
        let is_there = halves.fold(0.0, f64::max) + near >= half.low;
        is_narrow && usual_is_near && is_there && self.agree(level)
    }

    /// Whether passes agree beside the edge of `level`, and from there to its half.
    fn agree(&self, level: &Level) -> bool {
        let (from, to) = (level.onset.low, level.half.high.max(level.onset.high + 1.0));
        let beside = self.points.iter().filter(|point| (from..=to).contains(&point.pages));
        let agree = |point: &&Point| {
            point.spread.len() >= LEAST_PASSES
                && point.ranked(USUAL) - point.difference <= AGREE * level.cost.value
        };
        let count = beside.clone().count();
        count >= 2 && beside.filter(|point| !agree(point)).count() <= count / MAY_DIFFER
    }
}

/// The most pages at which the misses of a buffer of `entries` are a half.
fn most_half(entries: f64) -> f64 {
    let mut sets = 1.0;
    while (entries / (2.0 * sets)).fract() == 0.0 && 4.0 * sets <= entries {
        sets *= 2.0;
    }
    entries / (1.0 - sets / (2.0 * LEAST_MISSED * (entries + sets)))
}

/// `onset`, so wide that it holds the edges and halves of `fits`.
pub(super) fn widened<'a>(onset: Estimate, fits: impl Iterator<Item = &'a Fit>) -> Estimate {
    let ends = fits.flat_map(|fit| [fit.edge.low, fit.edge.high, fit.between.0, fit.between.1]);
    let ends: Vec<f64> = ends.collect();
    let low = quantile(&ends, 0.0).map_or(onset.low, |low| low.min(onset.low));
    let high = quantile(&ends, 1.0).map_or(onset.high, |high| high.max(onset.high));
    Estimate { low, high, ..onset }
}
