// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures how many outstanding misses a core supports, by walking more and more chains in
//! parallel until throughput stops rising.
//!
//! All chains share one page-local cycle, along which evenly spaced cursors follow each other. Each
//! load depends only on the previous load of the same cursor. For any number of cursors, a line's
//! reuse distance is the length of the cycle in loads.
//!
//! Stores are not measured. Cursors that do not fit in the core's registers are kept on the stack,
//! which adds a load and a store per step. That is negligible compared with a miss; in L1, where it
//! is not, at most `IN_REGISTERS` cursors are used.

use crate::arena::Arena;
use crate::chase::{Chain, Cursor, Layout};
use crate::curve::{LEAST_PASSES, middle, of_passes};
use crate::window::{Plan, Windows};
use linerate_hierarchy::parallel::{Point, outstanding};
use linerate_record::memory::{ChainsPoint, MemoryLevel, Order, Parallelism};
use linerate_record::stats::{CONFIDENCE, Estimate};
use linerate_record::{Figure, Tier};
use std::time::Instant;

/// Settings for measuring memory-level parallelism.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Line size in bytes.
    pub line: usize,
    /// Number of passes over all chain counts. If a count has no valid window, more passes are
    /// made.
    pub passes: u32,
    /// Seed for the random order of the lines and for the intervals.
    pub seed: u64,
    /// Deadline of the measurement.
    pub deadline: Instant,
}

/// Measured memory-level parallelism of a cache level.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Result in record format.
    pub record: Parallelism,
    /// Outstanding loads, for computing costs; `None` if undetermined.
    pub outstanding: Option<Estimate>,
}

/// Chain counts to measure, all divisors of [`PLACES`].
const CHAINS: [u32; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];

/// Maximum number of chains whose cursors fit in the x86-64 registers along with the rest of the
/// loop. Enough to cover a latency of four cycles at three loads per cycle, as in current L1
/// caches.
const IN_REGISTERS: u32 = 12;

const MOST_CHAINS: u32 = 32;

/// Number of evenly spaced places at which cursors can start.
const PLACES: usize = 96;

/// Longest cycle, in lines, that is walked to find evenly spaced places; the walk takes a few ms at
/// memory latency. In longer cycles, the nearest block boundary is always close enough.
const WALKED_LINES: usize = 1 << 16;

/// Window length in ns; enough for hundreds of loads from even the slowest memory.
const WINDOW_NS: f64 = 250_000.0;

/// Windows per chain count and pass.
const WINDOWS: u32 = 4;

/// Lines walked before timing: as many as the largest caches hold, so that no line is still cached
/// from building the chain.
const WARM_LINES: usize = 1 << 20;

/// Multiple of a level's latency above which a load was not served by that level.
const NOT_IN_LEVEL: f64 = 1.3;

/// Measures each of `levels` in order, using page-local chains in `arena`. Figures cut short by the
/// deadline or a stop request are absent with a reason.
pub fn measure(
    windows: &Windows<'_>,
    arena: &mut Arena,
    levels: &[MemoryLevel],
    request: &Request,
) -> Vec<Measured> {
    let sizes = working_sets(levels, arena.bytes(), far_beyond);
    let mut measured = Vec::with_capacity(levels.len());
    for (index, (level, bytes)) in levels.iter().zip(sizes).enumerate() {
        windows.progress(&format!("parallel loads, {}", level.name));
        let left = request.deadline.saturating_duration_since(Instant::now());
        let deadline = Instant::now() + left / (levels.len() - index) as u32;
        let alone_ns = level.latency_ns.as_number();
        let points = bytes.map(|bytes| {
            let walked = Walked {
                lines: bytes / request.line,
                is_memory: level.size_bytes.as_number().is_none(),
                most_chains: if index == 0 { IN_REGISTERS } else { u32::MAX },
                most_ns: NOT_IN_LEVEL * alone_ns.unwrap_or(f64::INFINITY),
            };
            points(windows, arena, &walked, &Request { deadline, ..*request })
        });
        let points = points.unwrap_or_default();
        measured.push(record(
            &level.name,
            bytes,
            &points,
            alone_ns,
            (request.seed, windows.more_time()),
        ));
    }
    measured
}

/// For each of `levels`, returns the size of a chain that fits this level but not the previous one,
/// in an arena of `most` bytes: the geometric mean of both level sizes, half the size for the
/// nearest level, or, for memory, `in_memory` of the cache size, but no more than the arena. `None`
/// if no size qualifies, because levels are too close together or too large.
///
/// A working set slightly larger than a level already misses: in a circular walk, LRU has evicted
/// each line by the time it is needed. A factor of two leaves room for other replacement policies.
pub(crate) fn working_sets(
    levels: &[MemoryLevel],
    most: usize,
    in_memory: fn(f64) -> f64,
) -> Vec<Option<usize>> {
    let mut before: Option<f64> = None;
    let set = |level: &MemoryLevel| {
        let size = level.size_bytes.as_number();
        let bytes = match (before, size) {
            (None, None) => Some(most as f64),
            (None, Some(size)) => Some(size / 2.0),
            (Some(before), Some(size)) if size < 1.96 * before => None,
            (Some(before), Some(size)) => Some(f64::sqrt(before * size)),
            (Some(before), None) => Some(in_memory(before).min(most as f64)),
        };
        let fits = bytes.filter(|&bytes| bytes <= most as f64);
        // A working set of less than twice the cache capacity does not count as memory.
        let fits = fits.filter(|&bytes| size.is_some() || before.is_none_or(|b| bytes >= 2.0 * b));
        before = size.or(before);
        fits.map(|bytes| bytes as usize & !(GRAIN - 1)).filter(|&bytes| bytes >= GRAIN)
    };
    levels.iter().map(set).collect()
}

/// Size of a chain in memory whose loads hardly ever find their lines in caches of `caches` bytes.
pub(crate) fn far_beyond(caches: f64) -> f64 {
    (16.0 * caches).max(64e6)
}

/// Working set granularity in bytes.
pub(crate) const GRAIN: usize = 4096;

/// Chain for measuring one level.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Walked {
    lines: usize,
    /// Whether the chain exceeds every cache.
    is_memory: bool,
    most_chains: u32,
    /// Maximum time per load, in ns, at which the lines were still in the level. Slow walks lose
    /// lines from a shared cache; fast walks do not.
    most_ns: f64,
}

/// Measures all chain counts on the same cycle of pointers. Each pass starts with the largest
/// count, which brings the lines into the cache level to be measured.
fn points(
    windows: &Windows<'_>,
    arena: &mut Arena,
    walked: &Walked,
    request: &Request,
) -> Vec<Point> {
    let layout = Layout::dense(Order::PageLocal, request.line);
    let mut chain = Chain::new(arena, layout, request.seed);
    let is_over = || windows.is_stopped() || Instant::now() >= request.deadline;
    if !chain.grow(walked.lines, || !is_over()) {
        return Vec::new();
    }
    let mut heads = Heads::new(&chain, walked.is_memory);
    heads.walk(MOST_CHAINS, |walk| {
        walk.on(&chain, walked.lines.min(WARM_LINES) as u64);
    });
    let plan = Plan { window_ns: WINDOW_NS, wanted: WINDOWS, deadline: request.deadline };
    let chains = CHAINS.into_iter().filter(|&chains| chains <= walked.most_chains);
    let mut points: Vec<Point> =
        chains.map(|chains| Point { chains, passes: Vec::new() }).collect();
    for pass in 0..2 * request.passes {
        // On a busy machine a pass may leave points without a valid window.
        let is_enough = pass >= request.passes && points.iter().all(|p| !p.passes.is_empty());
        if is_enough || is_over() {
            break;
        }
        for point in points.iter_mut().rev() {
            let best = heads
                .walk(point.chains, |walk| windows.best_of(&plan, |loads| walk.on(&chain, loads)));
            point.passes.extend(best.map(|best| best.ns).filter(|&ns| ns <= walked.most_ns));
        }
    }
    points.retain(|point| !point.passes.is_empty());
    points
}

/// Starting positions for cursors along a chain, [`PLACES`] in total.
///
/// In a cache, cursors always start at the same evenly spaced places. In memory, every load must
/// hit a line that has been untouched for as long as possible. Cursors therefore start at the
/// heads, that is, where earlier cursors stopped, the least advanced head first, so that no head
/// reaches another's starting point before the whole chain has been walked.
#[derive(Debug)]
struct Heads {
    is_memory: bool,
    /// Each head's position and the number of loads it has made.
    heads: Vec<(Cursor, u64)>,
}

impl Heads {
    fn new(chain: &Chain<'_>, is_memory: bool) -> Self {
        let heads = places(chain).into_iter().map(|place| (place, 0)).collect();
        Self { is_memory, heads }
    }

    /// Calls `work` with a walk that starts at `chains` of the heads.
    fn walk<T>(&mut self, chains: u32, work: impl FnOnce(&mut Walk) -> T) -> T {
        let chains = chains as usize;
        let chosen: Vec<usize> = if self.is_memory {
            let mut all: Vec<usize> = (0..PLACES).collect();
            all.sort_by_key(|&head| self.heads[head].1);
            all[..chains].to_vec()
        } else {
            (0..chains).map(|k| k * PLACES / chains).collect()
        };
        let cursors = chosen.iter().map(|&head| self.heads[head].0).collect();
        let mut walk = Walk { cursors, along_each: 0 };
        let result = work(&mut walk);
        if self.is_memory {
            for (head, cursor) in chosen.into_iter().zip(walk.cursors) {
                self.heads[head] = (cursor, self.heads[head].1 + walk.along_each);
            }
        }
        result
    }
}

/// Cursors that walk in parallel; their number is one of [`CHAINS`].
#[derive(Debug)]
struct Walk {
    cursors: Vec<Cursor>,
    /// Loads per cursor.
    along_each: u64,
}

impl Walk {
    /// Performs at least `loads` loads and returns the exact number.
    fn on(&mut self, chain: &Chain<'_>, loads: u64) -> u64 {
        match self.cursors.len() {
            1 => self.side_by_side::<1>(chain, loads),
            2 => self.side_by_side::<2>(chain, loads),
            3 => self.side_by_side::<3>(chain, loads),
            4 => self.side_by_side::<4>(chain, loads),
            6 => self.side_by_side::<6>(chain, loads),
            8 => self.side_by_side::<8>(chain, loads),
            12 => self.side_by_side::<12>(chain, loads),
            16 => self.side_by_side::<16>(chain, loads),
            24 => self.side_by_side::<24>(chain, loads),
            _ => self.side_by_side::<32>(chain, loads),
        }
    }

    fn side_by_side<const K: usize>(&mut self, chain: &Chain<'_>, loads: u64) -> u64 {
        let cursors = self.cursors.as_mut_slice().try_into();
        let cursors: &mut [Cursor; K] = cursors.expect("one cursor per chain");
        let along_each = chain.run_side_by_side(cursors, loads.div_ceil(K as u64));
        self.along_each += along_each;
        K as u64 * along_each
    }
}

/// Returns [`PLACES`] evenly spaced places along `chain`.
fn places(chain: &Chain<'_>) -> Vec<Cursor> {
    if chain.len() > WALKED_LINES {
        return chain.places(PLACES);
    }
    let mut cursor = Cursor::default();
    let mut walked = 0;
    let place = |k: usize| {
        while walked < k * chain.len() / PLACES {
            cursor = chain.next(cursor);
            walked += 1;
        }
        cursor
    };
    (0..PLACES).map(place).collect()
}

/// Converts the points to a record. `alone_ns` is the latency of a single chain, used if the points
/// do not include one. `more` is advice on how to allow more measuring time.
fn record(
    level: &str,
    bytes: Option<usize>,
    points: &[Point],
    alone_ns: Option<f64>,
    (seed, more): (u64, &str),
) -> Measured {
    let alone = alone_ns.filter(|_| points.first().is_some_and(|point| point.chains > 1));
    let method = match alone {
        Some(_) => "level latency divided by the time per load with many chains",
        None => "time per load with one chain divided by time per load with many",
    };
    let alone = alone.map(|ns| Point { chains: 1, passes: vec![ns] });
    let all: Vec<Point> = alone.into_iter().chain(points.iter().cloned()).collect();
    let outstanding = outstanding(&all, CONFIDENCE, seed);
    let absent = |reason: &str| Figure::absent("loads", Tier::Sw, method, reason);
    let passes = points.iter().map(|point| point.passes.len() as u64).max().unwrap_or(0);
    let figure = match (outstanding, bytes) {
        (Some(Estimate { value, n, .. }), _) if passes < LEAST_PASSES => {
            Figure { n, ..Figure::exact("loads", value, Tier::Sw, method) }
        }
        (Some(outstanding), _) => Figure::number("loads", outstanding, Tier::Sw, method),
        (None, None) => absent("no measured size falls clearly within this level"),
        (None, Some(_)) if all.len() > 1 && all[0].chains == 1 => absent(
            "a load took longer with several chains than with one, so other work interfered; \
             measure again",
        ),
        (None, Some(_)) => absent(&format!(
            "the time limit was reached, or the thread was preempted in every window; {more}"
        )),
    };
    let record = Parallelism {
        level: level.to_owned(),
        bytes: bytes.unwrap_or(0) as u64,
        points: points.iter().map(chains_point).collect(),
        outstanding: figure,
    };
    Measured { record, outstanding }
}

fn chains_point(point: &Point) -> ChainsPoint {
    let method = "parallel chains: fastest window of each pass, median over passes";
    let ns_per_load = of_passes("ns/load", middle(&point.passes), method);
    ChainsPoint { chains: point.chains, ns_per_load }
}

#[cfg(test)]
pub(crate) mod tests;
