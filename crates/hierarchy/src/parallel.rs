// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many loads are under way at once, from chains side by side.

use linerate_record::stats::Estimate;

/// So many chains side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Chains.
    pub chains: u32,
    /// Time per load, all chains counted: of each pass its fastest window.
    pub passes: Vec<f64>,
}

/// What `points` show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overlap {
    /// Loads under way at once when more chains make it no faster. The high end is infinite where
    /// the most chains were still faster than fewer.
    pub outstanding: Estimate,
    /// Time per load then, in the unit of the points. The low end is 0 where more chains might be
    /// faster.
    pub time: Estimate,
}

/// How loads overlap. `None` without a point of one chain and one of more.
pub fn overlap(_points: &[Point], _confidence: f64, _seed: u64) -> Option<Overlap> {
    None
}
