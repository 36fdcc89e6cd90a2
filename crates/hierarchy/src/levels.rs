// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts detected levels to a record, adding names, latencies in cycles, and notes on ranges of
//! sizes in which no level could be determined.

use crate::os_view;
use crate::reconcile::{MEMORY, Reconciled, reconcile};
use crate::steps::{self, Cause, FoundLevels, Options, Sample};
use linerate_record::memory::{Curve, MemoryLevel, Unresolved};
use linerate_record::stats::{Estimate, median};
use linerate_record::{Figure, Tier};

/// The detected levels of a curve and their description in a record, nearest level first.
#[derive(Clone, Debug)]
pub struct Levels {
    /// Detected levels, with latencies in ns.
    pub found: FoundLevels,
    /// Core clock in GHz while the chains of each level were chased; `None` if unknown.
    pub ghz: Vec<Option<f64>>,
    /// The levels in the form in which records hold them.
    pub levels: Vec<MemoryLevel>,
    /// The undetermined ranges of sizes in the form in which records hold them.
    pub unresolved: Vec<Unresolved>,
}

const METHOD: &str = "steps in the page-local curve, bootstrapped over passes";

impl Levels {
    /// Finds the cache levels in a page-local curve and compares them with the caches that the OS
    /// reports. `last_level` is the size in bytes of the largest reported cache, or a guess if none
    /// is reported; intervals come from `replicates` bootstrap resamples.
    pub fn find(
        curve: &Curve,
        (stated, last_level): (&Result<Vec<os_view::Level>, String>, u64),
        seed: u64,
        replicates: u32,
    ) -> Self {
        let options = Options { seed, replicates, ..Options::default() };
        let found = steps::detect(&samples(curve), &options);
        let longest = curve.points.last().map_or(0, |point| point.bytes);
        let reconciled = reconcile(found, stated, longest, last_level);
        Self::new(reconciled, curve, longest, last_level)
    }

    /// Converts reconciled levels to record format. `longest` is the size of the longest chain, and
    /// `last_level` the size of the last-level cache, as reported by the OS or guessed; both are in
    /// bytes.
    fn new(reconciled: Reconciled, curve: &Curve, longest: u64, last_level: u64) -> Self {
        let Reconciled { found, names, doubts } = reconciled;
        let ends =
            found.levels.iter().map(|level| level.size.map_or(f64::INFINITY, |size| size.value));
        let ends: Vec<f64> = std::iter::once(0.0).chain(ends).collect();
        let of_level = ends.windows(2).zip(&found.levels);
        let ghz: Vec<Option<f64>> =
            of_level.map(|(ends, level)| clock(curve, ends, level)).collect();
        let is_memory = longest >= 2 * last_level;
        let level = |((level, ghz), name): ((&steps::Level, &Option<f64>), String)| {
            record(level, *ghz, name, longest, is_memory)
        };
        let levels = found.levels.iter().zip(&ghz).zip(names).map(level).collect();
        let mut unresolved: Vec<Unresolved> =
            found.unresolved.iter().map(describe_unresolved).collect();
        unresolved.extend(doubts);
        if !is_memory && !found.levels.is_empty() {
            unresolved.push(beyond(longest, last_level));
        }
        Self { found, ghz, levels, unresolved }
    }
}

/// Converts the points of a curve to samples for the detectors.
pub(crate) fn samples(curve: &Curve) -> Vec<Sample> {
    let sample = |point: &linerate_record::memory::CurvePoint| Sample {
        bytes: point.bytes,
        passes: point.passes_ns.clone(),
    };
    curve.points.iter().map(sample).collect()
}

/// Maximum relative deviation from a level's latency for a size to be on the level's plateau.
const PLATEAU: f64 = 0.05;

/// Returns the core cycles per ns for loads in `level`, whose chains are `ends[0]` to `ends[1]`
/// bytes long. Because the clock may vary, cycles are taken from the fastest passes, like the
/// level's latency: the result is the median cycle count over the sizes on the level's plateau,
/// divided by that latency. If no size is on the plateau, it is the median clock over the sizes in
/// the level.
fn clock(curve: &Curve, ends: &[f64], level: &steps::Level) -> Option<f64> {
    let is_within = |bytes: u64| (ends[0]..=ends[1]).contains(&(bytes as f64));
    let points = curve.points.iter().filter(|point| is_within(point.bytes));
    let points = points.filter_map(|p| Some((p.latency_ns.as_number()?, p.cycles.as_number()?)));
    let points: Vec<(f64, f64)> = points.collect();
    let latency = level.latency.value;
    let is_on_plateau = |ns: f64| (ns / latency - 1.0).abs() <= PLATEAU;
    let plateau = points.iter().filter(|point| is_on_plateau(point.0));
    let cycles: Vec<f64> = plateau.map(|point| point.1).collect();
    let clocks: Vec<f64> = points.iter().map(|point| point.1 / point.0).collect();
    median(&cycles).map(|cycles| cycles / latency).or_else(|| median(&clocks))
}

fn record(
    level: &steps::Level,
    ghz: Option<f64>,
    name: String,
    longest: u64,
    is_memory: bool,
) -> MemoryLevel {
    let size_bytes = match level.size {
        Some(size) => Figure::number("B", size, Tier::Sw, METHOD),
        None => {
            let reason = format!("chains of up to {longest} B do not exceed this level's capacity");
            Figure::absent("B", Tier::Sw, METHOD, &reason)
        }
    };
    let note = match (level.settled, level.size, is_memory) {
        (false, ..) => Some("its latency varied between passes: other programs use this cache too"),
        (true, None, true) if name == MEMORY => None,
        (true, None, _) if name.contains(MEMORY) => Some(
            "cannot tell whether this is a cache or memory: no step matches the size of the \
             last-level cache that the OS reports",
        ),
        (true, None, _) => Some("the level extends beyond the longest chain"),
        _ => None,
    };
    MemoryLevel {
        name,
        size_bytes,
        latency_ns: Figure::number("ns", level.latency, Tier::Sw, METHOD),
        latency_cycles: cycles(level.latency, ghz, METHOD),
        settled: level.settled,
        note: note.map(str::to_owned),
    }
}

/// Converts a time in ns to core cycles at `ghz`.
pub(crate) fn cycles(ns: Estimate, ghz: Option<f64>, method: &str) -> Figure {
    match ghz {
        Some(ghz) => Figure::number("cycles", ns.scale(ghz), Tier::Sw, method),
        None => {
            let reason = "the core clock cannot be measured here";
            Figure::absent("cycles", Tier::Sw, method, reason)
        }
    }
}

fn describe_unresolved(unresolved: &steps::Unresolved) -> Unresolved {
    let (cause, sentence) = match unresolved.cause {
        Cause::Moved => (
            "moved",
            "latency at these sizes varied between passes: other programs use this cache too; \
             measure again on an idle machine",
        ),
        Cause::TooClose => (
            "too_close",
            "two steps are close enough to be a single one; more passes would resolve them",
        ),
        Cause::TooNoisy => (
            "too_noisy",
            "latency varies more between passes than at a step; measure again on an idle \
                           machine",
        ),
    };
    Unresolved {
        from_bytes: unresolved.from,
        to_bytes: unresolved.to,
        cause: cause.to_owned(),
        sentence: sentence.to_owned(),
    }
}

fn beyond(longest: u64, last_level: u64) -> Unresolved {
    Unresolved {
        from_bytes: longest,
        to_bytes: 2 * last_level,
        cause: "too_small".to_owned(),
        sentence: "the longest chain is less than twice as large as the last-level cache; allow \
                   more memory"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests;
