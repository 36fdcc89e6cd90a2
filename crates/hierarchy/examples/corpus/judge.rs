// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws synthetic machines, detects their levels, and judges whether these are correct.
//!
//! Criteria:
//!
//! - the **count**: the right number of levels, and no false report that levels are too close.
//!   Neighbours closer than the resolution must be reported as too close, with or without a
//!   separate level for each;
//! - a **size** within 10 %, except for pairs that are too close;
//! - a **latency** within 1 %. The TLB misses once per page in large chains, so the latency may be
//!   anywhere between a load with a TLB hit and a load in the level's largest chain. If noise
//!   affected all passes over all sizes of a level, its latency cannot be determined and is not
//!   scored;
//! - an **interval** that contains the true value;
//! - a report for any level that **moved**, i.e. changed between passes. Its size and latency are
//!   not scored.

use crate::claims::{Claims, claims};
use linerate_caches::{Index, LINE_BYTES, Machine, Noise, Point, Truth, analytic, trace};
use linerate_hierarchy::steps::{
    Cause, FoundLevels, Level, Options, RESOLUTION, Sample, detect, refine,
};
use linerate_record::stats::Estimate;

/// Number of passes over a curve, as in a default run.
const PASSES: usize = 5;
const PER_OCTAVE: f64 = 4.0;
const LEAST_BYTES: f64 = 4096.0;
const GRANULE_BYTES: u64 = 4096;

/// How the times of loads on a synthetic machine are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Computed analytically from miss probabilities.
    Analytic,
    /// Simulated load by load, on machines with up to this many bytes of cache.
    Trace(u64),
}

/// Error in the size of a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SizeError {
    /// Relative error: the measured size over the true size, minus 1.
    pub(crate) off: f64,
    /// Number of page colours if pages are placed at random, otherwise 1.
    pub(crate) colours: u64,
}

/// Scores for a single machine.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) seed: u64,
    pub(crate) machine: Machine,
    pub(crate) truth: Truth,
    pub(crate) found: FoundLevels,
    pub(crate) is_count_right: bool,
    /// Errors of the sizes that are scored.
    pub(crate) size_errors: Vec<SizeError>,
    /// Relative errors of the latencies that are scored.
    pub(crate) latency_errors: Vec<f64>,
    /// Number of latencies that noise kept from being determined.
    pub(crate) hidden: u32,
    /// How many intervals contain the true value, and out of how many.
    pub(crate) covered: (u32, u32),
    /// Whether the detector reported a level that moved; `None` if no level moved.
    pub(crate) is_move_reported: Option<bool>,
    /// Wrong claims about levels.
    pub(crate) claims: Claims,
}

impl SizeError {
    pub(crate) fn is_right(&self) -> bool {
        self.off.abs() <= 0.10
    }
}

impl Verdict {
    pub(crate) fn is_size_right(&self) -> bool {
        self.size_errors.iter().all(SizeError::is_right)
    }

    pub(crate) fn is_latency_right(&self) -> bool {
        self.latency_errors.iter().all(|error| error.abs() <= 0.01)
    }

    pub(crate) fn is_right(&self) -> bool {
        let is_move_right = self.is_move_reported.unwrap_or(true);
        self.is_count_right && self.is_size_right() && self.is_latency_right() && is_move_right
    }

    /// Formats the machine, its true levels, and the detected levels, in a few lines.
    pub(crate) fn print(&self) -> String {
        let size = |bytes: f64| format!("{:.0}K", bytes / 1024.0);
        let kind = |cache: &linerate_caches::Cache| {
            let linerate_caches::Cache { policy, index, inclusion, ways, .. } = cache;
            format!("{policy:?}/{index:?}/{inclusion:?}/{ways}")
        };
        let caches: Vec<String> = self.machine.caches.iter().map(kind).collect();
        let true_levels = self.truth.levels.iter().map(|level| {
            let bytes = level.size_bytes.map_or("-".into(), |bytes| size(bytes as f64));
            format!("{bytes} {:.2}", level.latency_ns)
        });
        let found = self.found.levels.iter().map(|level| {
            let bytes = level.size.map_or("-".into(), |bytes| size(bytes.value));
            let moved = if level.settled { "" } else { " moved" };
            format!("{bytes} {:.2}{moved}", level.latency.value)
        });
        let unresolved = self.found.unresolved.iter().map(|what| {
            format!("{:?} {}..{}", what.cause, size(what.from as f64), size(what.to as f64))
        });
        let off = self
            .size_errors
            .iter()
            .map(|size| format!("{:+.1} % on {} colours", size.off * 100.0, size.colours));
        format!(
            "{}: {}; {}K contiguous{}\n    true   {}\n    found  {}{}\n    sizes  {}\n",
            self.seed,
            caches.join(", "),
            self.machine.contiguous_bytes >> 10,
            self.machine.moves.as_ref().map_or(String::new(), |moves| format!(", {moves:?}")),
            true_levels.collect::<Vec<_>>().join(" | "),
            found.collect::<Vec<_>>().join(" | "),
            unresolved.map(|text| format!(" ! {text}")).collect::<String>(),
            off.collect::<Vec<_>>().join(" | "),
        )
    }
}

/// A machine, its measured curve, and the detector's answer.
pub(crate) struct Case {
    seed: u64,
    machine: Machine,
    truth: Truth,
    points: Vec<Point>,
    /// Size of the longest chain, in bytes.
    max_bytes: u64,
    pub(crate) found: FoundLevels,
}

impl Case {
    /// Draws a machine and measures it as in a default run.
    pub(crate) fn new(seed: u64, way: Way, noise: &Noise) -> Self {
        let (machine, max_bytes) = match way {
            Way::Analytic => {
                let machine = Machine::random(seed);
                let bytes = machine.enough_bytes();
                (machine, bytes)
            }
            Way::Trace(reach_bytes) => {
                let machine = Machine::random_within(seed, reach_bytes);
                let bytes = 4 * machine.reach_bytes(machine.caches.len() - 1);
                (machine, bytes)
            }
        };
        let points = measure(&machine, way, max_bytes, noise, seed);
        let options = Options { seed, ..Options::default() };
        let found = detect(&samples(&points, PASSES), &options);
        Self { seed, truth: machine.truth(max_bytes), machine, points, max_bytes, found }
    }

    /// Judges an answer from the detector or elsewhere.
    pub(crate) fn judge(&self, found: &FoundLevels) -> Verdict {
        let mut verdict = Verdict {
            seed: self.seed,
            machine: self.machine.clone(),
            is_count_right: is_count_right(&self.truth, found),
            truth: self.truth.clone(),
            found: found.clone(),
            size_errors: Vec::new(),
            latency_errors: Vec::new(),
            hidden: 0,
            covered: (0, 0),
            is_move_reported: is_move_reported(&self.truth, found),
            claims: claims(&self.truth, found, self.max_bytes, self.seed),
        };
        compare_levels(&mut verdict, &self.points);
        verdict
    }
}

/// Draws a machine, measures it, and judges the detector's answer.
pub(crate) fn judge(seed: u64, way: Way, noise: &Noise) -> Verdict {
    let case = Case::new(seed, way, noise);
    case.judge(&case.found)
}

/// Measures a grid of sizes, adding the sizes that the detector requests after each of the first
/// two passes.
fn measure(machine: &Machine, way: Way, max_bytes: u64, noise: &Noise, seed: u64) -> Vec<Point> {
    let times = |sizes: &[u64]| match way {
        Way::Analytic => analytic(machine, sizes, PASSES as u32, noise, seed),
        Way::Trace(_) => trace(machine, sizes, PASSES as u32, noise, seed),
    };
    let step = |step: i32| {
        let bytes = LEAST_BYTES * (f64::from(step) / PER_OCTAVE).exp2();
        (bytes / 1024.0).round() as u64 * 1024
    };
    let mut grid: Vec<u64> = (0..).map(step).take_while(|bytes| *bytes <= max_bytes).collect();
    grid.dedup();
    let mut points = times(&grid);
    let rough = Options { replicates: 0, seed, ..Options::default() };
    for passes in 1..3 {
        let curve = samples(&points, passes);
        let mut more = refine(&curve, &detect(&curve, &rough), GRANULE_BYTES);
        more.retain(|bytes| *bytes <= max_bytes);
        points.extend(times(&more));
        points.sort_unstable_by_key(|point| point.bytes);
    }
    points
}

fn samples(points: &[Point], passes: usize) -> Vec<Sample> {
    let sample =
        |point: &Point| Sample { bytes: point.bytes, passes: point.passes[..passes].to_vec() };
    points.iter().map(sample).collect()
}

fn overlaps(found: &FoundLevels, cause: Cause, from: f64, to: f64) -> bool {
    found
        .unresolved
        .iter()
        .any(|what| what.cause == cause && what.from as f64 <= to && from <= what.to as f64)
}

fn is_count_right(truth: &Truth, found: &FoundLevels) -> bool {
    let close = truth.too_close(RESOLUTION);
    let is_told = |(small, large): &(u64, u64)| {
        overlaps(found, Cause::TooClose, *small as f64 / 1.5, *large as f64 * 1.5)
    };
    let most = truth.levels.len();
    let least = most - close.len() - usize::from(is_hidden_by_move(truth, found));
    let is_any_told = found.unresolved.iter().any(|what| what.cause == Cause::TooClose);
    let is_told_right = close.iter().all(is_told) && is_any_told != close.is_empty();
    is_told_right && (least..=most).contains(&found.levels.len())
}

/// Returns whether the last-level cache moved and the detector reports the move instead of the
/// level.
fn is_hidden_by_move(truth: &Truth, found: &FoundLevels) -> bool {
    truth.levels.iter().any(|level| {
        let bytes = level.size_bytes.unwrap_or(0) as f64;
        level.moved && bytes > 0.0 && overlaps(found, Cause::Moved, bytes / 8.0, bytes * 1.5)
    })
}

fn is_move_reported(truth: &Truth, found: &FoundLevels) -> Option<bool> {
    let is_told = found.unresolved.iter().any(|what| what.cause == Cause::Moved)
        || found.levels.iter().any(|level| !level.settled);
    truth.levels.iter().any(|level| level.moved).then_some(is_told)
}

/// Compares levels in order. Does nothing if their number is wrong, because errors would then be
/// meaningless.
fn compare_levels(verdict: &mut Verdict, points: &[Point]) {
    if verdict.found.levels.len() != verdict.truth.levels.len() {
        return;
    }
    let close = verdict.truth.too_close(RESOLUTION);
    let is_close = |bytes: u64| close.iter().any(|pair| pair.0 == bytes || pair.1 == bytes);
    let found: Vec<Level> = verdict.found.levels.clone();
    for (level, (truth, found)) in verdict.truth.levels.clone().iter().zip(&found).enumerate() {
        let is_close = truth.size_bytes.is_some_and(is_close);
        if truth.moved || is_close {
            continue;
        }
        if let (Some(bytes), Some(size)) = (truth.size_bytes, found.size) {
            let colours = colours(&verdict.machine, level);
            verdict.size_errors.push(SizeError { off: size.value / bytes as f64 - 1.0, colours });
            verdict.count_interval(&size, (bytes as f64, bytes as f64));
        }
        let span = (truth.latency_ns, truth.latency_high_ns);
        if is_visible(points, span) {
            let nearest = found.latency.value.clamp(span.0, span.1);
            verdict.latency_errors.push(found.latency.value / nearest - 1.0);
            verdict.count_interval(&found.latency, span);
        } else {
            verdict.hidden += 1;
        }
    }
}

/// Returns a cache's number of page colours: for a physically indexed cache, how many contiguous
/// ranges of memory it takes to cover all of its sets once; otherwise 1.
fn colours(machine: &Machine, cache: usize) -> u64 {
    let cache = &machine.caches[cache];
    match cache.index {
        Index::Physical => (cache.sets() * LINE_BYTES).div_ceil(machine.contiguous_bytes),
        Index::Virtual | Index::Hashed => 1,
    }
}

impl Verdict {
    fn count_interval(&mut self, found: &Estimate, (low, high): (f64, f64)) {
        // Sizes and latencies are printed with four digits.
        let slack = 1e-4 * high;
        let holds = found.low <= high + slack && low <= found.high + slack;
        self.covered.0 += u32::from(holds);
        self.covered.1 += 1;
    }
}

/// Returns whether at least one pass over at least one size of a plateau was free of noise.
fn is_visible(points: &[Point], (low, high): (f64, f64)) -> bool {
    points.iter().any(|point| {
        let mut passes = point.passes.iter().zip(&point.quiet);
        passes.any(|(time, quiet)| {
            let is_plateau = (low * 0.995..=high * 1.005).contains(quiet);
            is_plateau && *time <= quiet * 1.005
        })
    })
}
