// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the levels of the hierarchy in load latency as a function of chain size.

mod model;
mod more;
mod plateau;
mod points;
mod search;
mod select;
mod shape;
mod size;

use linerate_record::stats::{CONFIDENCE, Estimate};

/// Ratio of two cache sizes below which the detector cannot distinguish them.
pub const RESOLUTION: f64 = 2.0;

/// Measurements at one size of a page-local curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Chain size in bytes.
    pub bytes: u64,
    /// Time per load in each pass's fastest window: positive, in any unit. Samples may differ in
    /// the number of passes.
    pub passes: Vec<f64>,
}

/// A level of the memory hierarchy.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Size in bytes; `None` for the last level, whose end was not observed.
    pub size: Option<Estimate>,
    /// Latency, in the unit of the samples.
    pub latency: Estimate,
    /// Whether the level's plateau was the same in all passes.
    pub settled: bool,
}

/// Reason why no level could be determined in a range of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The plateau of a level was different in different passes.
    Moved,
    /// Two steps are closer than [`RESOLUTION`].
    TooClose,
    /// The passes differ by more than a step might, which may hide one.
    TooNoisy,
}

/// A range of sizes in which no level could be determined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unresolved {
    /// Start of the range, in bytes.
    pub from: u64,
    /// End of the range, in bytes.
    pub to: u64,
    /// Why no level could be determined in this range.
    pub cause: Cause,
}

/// What a curve shows about the levels of the hierarchy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundLevels {
    /// Levels, nearest first; empty without samples.
    pub levels: Vec<Level>,
    /// Ranges of sizes in which no level could be determined.
    pub unresolved: Vec<Unresolved>,
}

/// How a curve is analysed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Nominal coverage of the intervals, above 0 and below 1.
    pub confidence: f64,
    /// Random seed. The same seed and samples give the same levels.
    pub seed: u64,
    /// Number of resamplings from which the intervals are computed.
    pub replicates: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { confidence: CONFIDENCE, seed: 0, replicates: 200 }
    }
}

/// Finds the levels in a page-local curve.
pub fn detect(curve: &[Sample], options: &Options) -> FoundLevels {
    let samples = points::usable(curve);
    let points = points::Points::new(&samples);
    if points.len() == 0 {
        return FoundLevels::default();
    }
    let found = select::select(&samples, &points);
    let sizes = size::sizes(&samples, &points, &found.fit, options);
    let plateaus = plateau::plateaus(&samples, &points, &found.fit, options);
    let mut unresolved = found.unresolved;
    let moved = select::moved_sizes(&samples, &points, &found.fit);
    let mut levels = Vec::with_capacity(plateaus.len());
    for (k, plateau) in plateaus.into_iter().enumerate() {
        let size = sizes.get(k).copied();
        let stays = moved.get(k).is_none_or(Option::is_none);
        if let (false, Some((from, to))) = (plateau.settled, plateau.extent) {
            unresolved.push(Unresolved { from, to, cause: Cause::Moved });
        }
        if let Some(Some((from, to))) = moved.get(k) {
            unresolved.push(Unresolved { from: *from, to: *to, cause: Cause::Moved });
        }
        if let Some(size) = size.filter(|size| stays && size.high > RESOLUTION * size.low) {
            let (from, to) = (size.low as u64, size.high as u64);
            unresolved.push(Unresolved { from, to, cause: Cause::TooNoisy });
        }
        levels.push(Level { size, latency: plateau.latency, settled: plateau.settled && stays });
    }
    FoundLevels { levels, unresolved }
}

/// Returns the sizes to measure next: increasing multiples of `granule` bytes that are not yet in
/// `curve`; empty if more sizes would not help.
pub fn refine(curve: &[Sample], levels: &FoundLevels, granule: u64) -> Vec<u64> {
    more::refine(curve, levels, granule)
}

#[cfg(test)]
mod tests;
