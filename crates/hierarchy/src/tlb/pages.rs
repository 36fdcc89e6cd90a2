// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selects which numbers of pages to measure next.

use super::{Curve, Level, Sample, is_steep};
use linerate_record::stats::Estimate;
use std::collections::BTreeSet;

/// Number of parts into which a refinement divides the range of an edge.
const PARTS: u64 = 4;
/// Number of page counts on either side of a step that are measured one by one.
const MARGIN: u64 = 3;
/// Maximum ratio between neighbours on a well-measured climb.
const NEIGHBOURS: f64 = 1.06;

/// Returns the initial numbers of pages, up to `most`: four per octave.
pub fn start(most: u64) -> Vec<u64> {
    let pages = (4..).map(|quarter| 2_f64.powf(f64::from(quarter) / 4.0) as u64);
    let mut pages: Vec<u64> = pages.take_while(|&pages| pages <= most).collect();
    pages.dedup();
    pages
}

/// Returns the numbers of pages to measure next, in ascending order; empty if more would not help.
///
/// For a step, the range of the edge is narrowed down to a single number of pages and its
/// neighbours. For a climb, the onset and the midpoint are bracketed by close neighbours. Points
/// slower than those with more pages are measured again, up to 12 passes, because another thread on
/// the core or in the system must have evicted entries.
pub fn refine(samples: &[Sample], levels: &[Level]) -> Vec<u64> {
    let measured: BTreeSet<u64> = samples.iter().map(|sample| sample.pages).collect();
    let mut wanted = BTreeSet::new();
    for level in levels {
        if is_steep(level.half, level.onset) {
            wanted.extend(near_onset(level.onset, &measured));
        } else {
            for at in [level.onset.value, level.half.value] {
                wanted.extend(between_neighbours(at, &measured));
            }
        }
    }
    let mut wanted: BTreeSet<u64> = wanted.difference(&measured).copied().collect();
    wanted.extend(Curve::from_samples(samples).disturbed());
    wanted.into_iter().collect()
}

/// Returns the page counts to measure next to locate the edge at `onset`.
fn near_onset(onset: Estimate, measured: &BTreeSet<u64>) -> Vec<u64> {
    let page = |pages: f64| pages.clamp(1.0, MOST_PAGES) as u64;
    let (low, high) = (page(onset.low), page(onset.high.max(onset.value)) + 1);
    let parts = |of: u64| (0..=of).map(move |part| low + (high - low) * part / of);
    let is_new = |pages: &u64| !measured.contains(pages);
    if high - low > 2 * MARGIN + PARTS {
        // If passes contradict each other, the interval does not shrink and is divided into smaller
        // parts instead.
        let fine = [PARTS, 2 * PARTS].into_iter().find(|&of| parts(of).any(|page| is_new(&page)));
        return fine.map_or_else(Vec::new, |of| parts(of).filter(is_new).collect());
    }
    let near = low.saturating_sub(MARGIN).max(1)..=high + MARGIN;
    near.filter(|pages| !measured.contains(pages)).collect()
}

/// Returns the numbers of pages, in ascending order, that reveal the last entry of `level`: all
/// candidates for its edge and some neighbours, limited to about 30.
pub fn around_edge(level: &Level) -> Vec<u64> {
    let page = |pages: f64| pages.clamp(1.0, MOST_PAGES) as u64;
    let low = page(level.onset.low).saturating_sub(MARGIN).max(1);
    let high = page(level.onset.high.max(level.onset.value)) + MARGIN;
    let every = (high - low).div_ceil(MOST_AT_ONCE).max(1);
    // Other threads occupy entries more often than coalescing frees any, so the last entry is near
    // the high end.
    let last = high.saturating_sub(2 * MARGIN + 1).max(low);
    (low..last).step_by(every as usize).chain(last..=high).collect()
}

/// Approximate maximum number of points per refinement.
const MOST_AT_ONCE: u64 = 24;

/// Upper limit on TLB entries; also keeps page numbers exact as `f64`.
const MOST_PAGES: f64 = 1e9;

/// Returns a number of pages between the neighbours of `at`, if these are far apart.
fn between_neighbours(at: f64, measured: &BTreeSet<u64>) -> Option<u64> {
    let pages = at.clamp(1.0, MOST_PAGES) as u64;
    let below = *measured.range(..=pages).next_back()?;
    let above = *measured.range(pages + 1..).next()?;
    let middle = (below as f64 * above as f64).sqrt() as u64;
    (above as f64 / below as f64 > NEIGHBOURS && middle > below).then_some(middle)
}
