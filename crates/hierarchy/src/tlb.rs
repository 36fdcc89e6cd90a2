// SPDX-License-Identifier: MIT OR Apache-2.0
//! The translation buffers for data, from the time of a load over the number of pages.

use linerate_record::memory::PagesVerdict;
use linerate_record::stats::Estimate;

/// One number of pages.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Pages, one line of each.
    pub pages: u64,
    /// Time per load of a chase through one line of each page, of each pass its fastest window.
    pub spread: Vec<f64>,
    /// The same through as many lines side by side in as few pages as hold them: what the caches
    /// make of it. Passes need not pair up with those of `spread`.
    pub packed: Vec<f64>,
}

/// A level of the buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Pages it holds: only where the time makes a step.
    pub entries: Option<Estimate>,
    /// Pages from which on the time rises.
    pub onset: Estimate,
    /// Pages at which it has risen by half. The high end is infinite where the end of the rise was
    /// not seen.
    pub half: Estimate,
    /// What a miss here adds to a load, in the unit of the samples. The high end is infinite where
    /// the end of the rise was not seen.
    pub cost: Estimate,
    /// Whether it is a step; otherwise a slow climb.
    pub is_step: bool,
}

/// What huge pages do.
#[derive(Clone, Debug, PartialEq)]
pub struct HugePages {
    /// `Work`, `Splintered` or `Unknown`; whether they were granted is for the caller to find out.
    pub verdict: PagesVerdict,
    /// The share of the cost of a first-level miss that is paid with huge pages too: 0 where they
    /// work, 1 where they are splintered. `None` where no first level was seen.
    pub share: Option<Estimate>,
    /// Time of a load with huge pages over that with small ones, at the most pages that both were
    /// measured with. `None` where that is within the first level.
    pub time_ratio: Option<Estimate>,
}

/// The levels that `samples` show, nearest first; at most three.
pub fn levels(_samples: &[Sample], _confidence: f64, _seed: u64) -> Vec<Level> {
    Vec::new()
}

/// Numbers of pages worth measuring next, rising; empty when more would tell nothing.
pub fn refine(_samples: &[Sample], _levels: &[Level]) -> Vec<u64> {
    Vec::new()
}

/// Whether one entry translates a huge page: `small` is measured on small pages, `huge` with the
/// same stride inside huge pages that were granted.
pub fn huge_pages(_small: &[Sample], _huge: &[Sample], _confidence: f64, _seed: u64) -> HugePages {
    HugePages { verdict: PagesVerdict::Unknown, share: None, time_ratio: None }
}
