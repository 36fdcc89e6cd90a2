// SPDX-License-Identifier: MIT OR Apache-2.0
//! Single loads, timed by a clock that may tick more slowly than a load takes.

use linerate_record::memory::Bin;
use linerate_record::stats::Estimate;

/// A line through the times of chains of loads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Time of one load more, in the unit of the samples.
    pub slope: Estimate,
    /// Time of no load at all: what the timing itself adds.
    pub intercept: Estimate,
}

/// A place where times pile up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mode {
    /// Where, in the unit of the bins.
    pub at: f64,
    /// The share of all samples that belong to it, 0 to 1.
    pub share: f64,
}

/// The step of a clock, from the differences between reads that follow each other closely, in the
/// clock's unit. `None` where none of them differs from 0.
pub fn step(_differences: &[u64]) -> Option<f64> {
    None
}

/// Time of a load and of the timing itself, from `samples` of (loads in a chain, time of it), many
/// of each length. `None` with fewer than two lengths.
pub fn slope(_samples: &[(u32, f64)], _confidence: f64, _seed: u64) -> Option<Line> {
    None
}

/// Bins of the `times` less `bias`, in ns; the clock makes steps of `step`. At most `most` bins.
/// They add up to the number of the times that are finite.
pub fn histogram(_times: &[f64], _bias: f64, _step: f64, _most: usize) -> Vec<Bin> {
    Vec::new()
}

/// Where the samples of `bins` pile up, rising.
pub fn modes(_bins: &[Bin]) -> Vec<Mode> {
    Vec::new()
}
