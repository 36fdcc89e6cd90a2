// SPDX-License-Identifier: MIT OR Apache-2.0
//! Number of outstanding misses that a core supports: walks parallel chains until adding more does
//! not help.
//!
//! All chains share one page-local cycle, along which evenly spaced cursors follow each other. Each
//! load depends on the previous load of the same cursor, and not on the other cursors. For any
//! number of cursors, the reuse distance of a line is the length of the cycle in loads.
//!
//! Not measured: stores. Cursors that do not fit a core's registers are on the stack, which costs a
//! load and a store per step: negligible compared with a miss. In L1, where this is not negligible,
//! at most `IN_REGISTERS` cursors are used.

use crate::arena::Arena;
use crate::chase::{Chain, Cursor, Layout};
use crate::curve::{LEAST_PASSES, middle, of_passes};
use crate::window::{Plan, Windows};
use linerate_hierarchy::parallel::{Overlap, Point, overlap};
use linerate_record::memory::{ChainsPoint, MemoryLevel, Order, Parallelism};
use linerate_record::stats::{CONFIDENCE, Estimate};
use linerate_record::{Figure, Tier};
use std::time::Instant;

/// Settings for the measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Line size in bytes.
    pub line: usize,
    /// Number of passes over all chain counts; more are made if a count had no valid window.
    pub passes: u32,
    /// Seed for the orders.
    pub seed: u64,
    /// Deadline of the measurement.
    pub deadline: Instant,
}

/// Results for a level.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// For the record.
    pub record: Parallelism,
    /// Outstanding loads, used to compute costs; `None` if undetermined.
    pub outstanding: Option<Estimate>,
}

/// Chain counts, all of them divisors of [`PLACES`].
const CHAINS: [u32; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];

/// Number of chains whose cursors fit the x86-64 registers together with the rest of the loop. It
/// is enough for a latency of four cycles at three loads per cycle, as in current L1 caches.
const IN_REGISTERS: u32 = 12;

const MOST_CHAINS: u32 = 32;

/// Number of places that divide the cycle evenly.
const PLACES: usize = 96;

/// Maximum number of lines in a cycle whose evenly spaced places are found by walking it, which
/// takes a few ms at memory latency. Longer cycles have enough boxes that the nearest one is always
/// close.
const WALKED_LINES: usize = 1 << 16;

/// Window length: enough for hundreds of loads even from the slowest memory.
const WINDOW_NS: f64 = 250_000.0;

/// Windows per chain count in a pass.
const WINDOWS: u32 = 4;

/// Number of lines walked before anything is timed: as many as the largest caches hold, so that
/// nothing remains cached from building the chain.
const WARM_LINES: usize = 1 << 20;

/// If a load takes longer than this multiple of a level's latency, that level did not serve it.
const NOT_IN_LEVEL: f64 = 1.3;

/// Measures each of `levels` in order, using page-local chains in `arena`. A figure cut short by
/// the deadline or a stop request is absent with a reason.
pub fn measure(
    windows: &Windows<'_>,
    arena: &mut Arena,
    levels: &[MemoryLevel],
    request: &Request,
) -> Vec<Measured> {
    let sizes = working_sets(levels, arena.bytes());
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
/// in an arena of `most` bytes. It is the geometric mean of the sizes of the two levels; for the
/// nearest level, half its size; for memory, several times the size of the caches. `None` if the
/// levels are so close together, or so large, that no size qualifies.
///
/// A working set slightly larger than a level already misses: in a circular walk, least recently
/// used lines have been evicted by the time they are needed. A factor of two leaves room for other
/// replacement policies.
pub(crate) fn working_sets(levels: &[MemoryLevel], most: usize) -> Vec<Option<usize>> {
    let mut before: Option<f64> = None;
    let set = |level: &MemoryLevel| {
        let size = level.size_bytes.as_number();
        let bytes = match (before, size) {
            (None, None) => Some(most as f64),
            (None, Some(size)) => Some(size / 2.0),
            (Some(before), Some(size)) if size < 1.96 * before => None,
            (Some(before), Some(size)) => Some(f64::sqrt(before * size)),
            (Some(before), None) => Some((16.0_f64 * before).max(64e6).min(most as f64)),
        };
        let fits = bytes.filter(|&bytes| bytes <= most as f64);
        // A working set of less than twice the cache capacity does not count as memory.
        let fits = fits.filter(|&bytes| size.is_some() || before.is_none_or(|b| bytes >= 2.0 * b));
        before = size.or(before);
        fits.map(|bytes| bytes as usize & !(GRAIN - 1)).filter(|&bytes| bytes >= GRAIN)
    };
    levels.iter().map(set).collect()
}

/// Granularity of working sets.
pub(crate) const GRAIN: usize = 4096;

/// The chain for measuring a level.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Walked {
    lines: usize,
    /// Whether no cache holds the whole chain.
    is_memory: bool,
    most_chains: u32,
    /// Limit on the time per load in ns, for a single chain. Above it, the lines were not in the
    /// level. Slow walks lose lines from a shared cache; fast walks do not.
    most_ns: f64,
}

/// Measures the times for all chain counts on one cycle. Each pass starts with the largest count,
/// which brings the lines into their level.
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

/// Starting positions of cursors along a chain: [`PLACES`] places.
///
/// In a cache, cursors always start at the same evenly spaced places. In memory, every load must
/// touch a line that has been untouched for as long as possible: heads continue from where they
/// stopped, and those that have advanced least walk first, so that no head reaches the starting
/// point of another before the whole chain has been walked.
#[derive(Debug)]
struct Heads {
    is_memory: bool,
    /// Position of each head, and the number of loads that it has made.
    heads: Vec<(Cursor, u64)>,
}

impl Heads {
    fn new(chain: &Chain<'_>, is_memory: bool) -> Self {
        let heads = places(chain).into_iter().map(|place| (place, 0)).collect();
        Self { is_memory, heads }
    }

    /// Has `work` walk from `chains` of the heads.
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

/// Cursors that walk in parallel. Their number is one of [`CHAINS`].
#[derive(Debug)]
struct Walk {
    cursors: Vec<Cursor>,
    /// Loads along each cursor.
    along_each: u64,
}

impl Walk {
    /// Performs about `loads` loads, and returns their number.
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
        let cursors: &mut [Cursor; K] = cursors.expect("as many as one of CHAINS");
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

/// Converts the points to the record's form. `alone_ns` is the latency of a single chain, for
/// levels without a valid measurement of it. `more` advises the user how to get more time.
fn record(
    level: &str,
    bytes: Option<usize>,
    points: &[Point],
    alone_ns: Option<f64>,
    (seed, more): (u64, &str),
) -> Measured {
    let alone = alone_ns.filter(|_| points.first().is_some_and(|point| point.chains > 1));
    let method = match alone {
        Some(_) => "latency of the level over the time per load with many chains",
        None => "time per load with one chain over time per load with many",
    };
    let alone = alone.map(|ns| Point { chains: 1, passes: vec![ns] });
    let all: Vec<Point> = alone.into_iter().chain(points.iter().cloned()).collect();
    let overlap = overlap(&all, CONFIDENCE, seed);
    let outstanding = overlap.map(|Overlap { outstanding, .. }| outstanding);
    let absent = |reason: &str| Figure::absent("loads", Tier::Sw, method, reason);
    let passes = points.iter().map(|point| point.passes.len() as u64).max().unwrap_or(0);
    let figure = match (outstanding, bytes) {
        (Some(Estimate { value, n, .. }), _) if passes < LEAST_PASSES => {
            Figure { n, ..Figure::exact("loads", value, Tier::Sw, method) }
        }
        (Some(outstanding), _) => Figure::number("loads", outstanding, Tier::Sw, method),
        (None, None) => absent("no measured size is clearly within this level alone"),
        (None, Some(_)) if all.len() > 1 && all[0].chains == 1 => absent(
            "a load took longer with several chains than with one, so the measurement was \
                    disturbed; run it again",
        ),
        (None, Some(_)) => absent(&format!(
            "no time was left, or every window was disturbed; \
                                            {more}"
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
