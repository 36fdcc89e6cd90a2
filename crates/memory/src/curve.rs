// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time per load as a function of chain size.
//!
//! ```text
//! sizes = a grid, evenly spaced in log size; those up to 8 MiB are cheap, the others costly
//! until all passes are done:
//!     choose the cheap or the costly group, so that the cheap one gets two thirds of the time:
//!         the next size of its pass; each pass has a different order and different pages:
//!             build the chain; walk it until the caches are in their steady state; take the
//!             fastest of some windows, and the core clock
//! after the first passes: add sizes that refine the steps
//! ```
//!
//! There are two groups because on a shared CPU the time may allow several passes over the cheap
//! sizes but not even one over the costly sizes.
//!
//! Walking a chain much larger than the caches takes longer than all windows together. Several
//! cursors therefore divide it into stretches. They warm the caches in parallel, with one
//! outstanding load per cursor, and are timed one after another with dependent loads, each along
//! part of its stretch. Because the stretches have equal length, the reuse distance of every line
//! is about the number of lines in the chain, as for a single cursor. In a short stretch, a cursor
//! would follow lines that the next one touched a moment ago, and find them in the cache.
//!
//! The curve is interpreted by `linerate_hierarchy::levels`.

use crate::arena::Arena;
use crate::chase::{Chain, Cursor, Layout, STRETCH};
use crate::window::{Best, Plan, Windows, core_ghz};
use fastrand::Rng;
use linerate_hierarchy::steps::{Options, Sample, detect, refine};
use linerate_machine::core_clock;
use linerate_record::memory::{Curve, CurvePoint, Order, PageKind};
use linerate_record::stats::{CONFIDENCE, Estimate, median, minimum_interval};
use linerate_record::{Figure, Tier};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// Settings for measuring a latency curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Walk order.
    pub order: Order,
    /// Line size in bytes.
    pub line: usize,
    /// Number of passes over all sizes, each in a new order and on different pages.
    pub passes: u32,
    /// Number of sizes per doubling of the size.
    pub per_octave: u32,
    /// Number of passes that add sizes where the curve bends; each takes 40 to 200 ms.
    pub refine: u32,
    /// Random seed for the orders.
    pub seed: u64,
    /// Deadline of the measurement.
    pub deadline: Instant,
}

/// Smallest chain in bytes.
const LEAST_BYTES: u64 = 4 << 10;

/// Number of refining passes over the cheap sizes per refining pass over the costly sizes.
const OFTEN: u32 = 3;

/// Range that contains most L1 sizes. The step at the end of L1 is so sharp that only closely
/// spaced sizes resolve it.
const FIRST_LEVELS: RangeInclusive<u64> = 24 << 10..=160 << 10;

/// Size in bytes above which building and warming the chain take most of the time. If sampled as
/// densely as the others, larger chains would take as long as all others together.
const COSTLY_BYTES: u64 = 64 << 20;

/// Largest chain walked by one cursor. Longer chains are walked by [`FEW`] cursors, and chains of
/// [`MANY_BYTES`] or more by [`MANY`] cursors. Stretches end at 128 KiB block boundaries; with at
/// least eight blocks each, their lengths differ by at most an eighth. A window of 0.5 ms, shared
/// by the cursors, is too short to walk all of a chain that does not fit its cache.
const SERIAL_BYTES: u64 = 8 << 20;
const MANY_BYTES: u64 = 32 << 20;

/// Cursor counts, none above the number of outstanding misses that cores support: 10 or more since
/// Nehalem, 16 or more in recent cores.
const FEW: usize = 8;
const MANY: usize = 16;

/// Window lengths in ns for chains of up to 1 MiB, for chains of up to [`SERIAL_BYTES`], and for
/// longer chains. The same number of loads takes more time in a longer chain.
const WINDOW_NS: [f64; 3] = [100_000.0, 300_000.0, 500_000.0];
const SHORT_BYTES: u64 = 1 << 20;

/// Chain start alignment in bytes: the huge page size on most machines, or a block of small pages.
const HUGE_BYTES: usize = 2 << 20;
const BOX_BYTES: usize = 128 << 10;

/// Method recorded with the figures for each size.
const METHOD: &str = "chase: fastest window of each pass, minimum over passes";

/// Windows per size and pass.
const WINDOWS: u32 = 5;

/// Measures a curve up to the size of `arena`. Passes cut short by the deadline or a stop request
/// leave fewer samples; sizes without samples are omitted.
pub fn measure(windows: &Windows<'_>, arena: &mut Arena, request: &Request) -> Curve {
    let kind = arena.kind();
    let mut random = Rng::with_seed(request.seed);
    let most = arena.bytes() as u64;
    let (cheap, costly): (Vec<u64>, Vec<u64>) =
        grid(most, request.per_octave).into_iter().partition(|&bytes| bytes <= SERIAL_BYTES);
    let mut bench = Bench { windows, places: Places::in_arena(arena), arena, request };
    // The costly sizes are refined once, time permitting.
    let mut groups =
        [Group::new(&cheap, request.refine, 1), Group::new(&costly, request.refine / OFTEN, 2)];
    let is_over = || windows.is_stopped() || Instant::now() >= request.deadline;
    while let Some(turn) = next(&groups, request.passes) {
        if is_over() {
            break;
        }
        let start = Instant::now();
        groups[turn].visit_next(&mut bench, &mut random);
        groups[turn].spent += start.elapsed();
        if groups[turn].is_to_be_refined() {
            groups[turn].is_refined = true;
            add_sizes(&mut groups, request, most);
        }
        groups[turn].end_pass();
    }
    let points = groups.into_iter().flat_map(|group| group.points);
    let mut points: Vec<Point> = points.filter(|point| !point.ns.is_empty()).collect();
    points.sort_unstable_by_key(|point| point.bytes);
    let points = points.into_iter().map(|point| point.record(request.line)).collect();
    Curve { order: request.order, pages: kind, points }
}

/// State of a curve measurement.
struct Bench<'a> {
    windows: &'a Windows<'a>,
    arena: &'a mut Arena,
    places: Places,
    request: &'a Request,
}

/// Sizes that share a pass.
struct Group {
    points: Vec<Point>,
    /// Indices of the sizes left in this pass; the last one is measured next.
    left: Vec<usize>,
    /// Completed passes.
    passes: u32,
    /// How many passes, counted from the first, add sizes.
    refined: u32,
    /// Whether this pass has already added sizes.
    is_refined: bool,
    /// Factor applied to the group's elapsed time when choosing the next group.
    weight: u32,
    spent: Duration,
}

impl Group {
    fn new(sizes: &[u64], refined: u32, weight: u32) -> Self {
        let points = sizes.iter().copied().map(Point::new).collect();
        let (left, spent) = (Vec::new(), Duration::ZERO);
        Self { points, left, passes: 0, refined, is_refined: false, weight, spent }
    }

    /// Measures the latency at the next size of the current pass.
    fn visit_next(&mut self, bench: &mut Bench<'_>, random: &mut Rng) {
        if self.left.is_empty() {
            self.left = order_of(self.points.len(), random);
            self.left.reverse();
        }
        if let Some(index) = self.left.pop() {
            bench.visit(&mut self.points[index], random);
        }
    }

    fn is_to_be_refined(&self) -> bool {
        self.left.is_empty() && !self.is_refined && self.passes < self.refined
    }

    /// Counts the pass as completed if it has no sizes left.
    fn end_pass(&mut self) {
        if self.left.is_empty() {
            self.passes += 1;
            self.is_refined = false;
        }
    }
}

/// Returns the group that has used the least weighted time among those with passes left.
fn next(groups: &[Group], passes: u32) -> Option<usize> {
    let has_more = |turn: &usize| groups[*turn].passes < passes && !groups[*turn].points.is_empty();
    let spent = |turn: &usize| groups[*turn].spent * groups[*turn].weight;
    (0..groups.len()).filter(has_more).min_by_key(spent)
}

/// Samples for one size.
#[derive(Clone, Debug, Default)]
struct Point {
    bytes: u64,
    /// Time per load in ns in each pass's fastest window.
    ns: Vec<f64>,
    /// Core clock in GHz in each pass's fastest window; empty if it cannot be measured.
    ghz: Vec<f64>,
    loads: u64,
    total_ns: f64,
    windows: u64,
    dropped: u64,
}

impl Point {
    fn sample(&self) -> Sample {
        Sample { bytes: self.bytes, passes: self.ns.clone() }
    }

    fn new(bytes: u64) -> Self {
        Self { bytes, ..Self::default() }
    }

    fn add(&mut self, best: &Best, ghz: Option<f64>) {
        self.ns.push(best.ns);
        self.ghz.extend(ghz);
        self.loads += best.work;
        self.total_ns += best.total_ns;
        self.windows += u64::from(best.windows);
        self.dropped += u64::from(best.dropped);
    }

    /// Converts the samples to a record. Requires at least one pass.
    fn record(self, line: usize) -> CurvePoint {
        let latency = least(&self.ns);
        let fastest = self.ns.iter().position(|ns| *ns == latency.value);
        let cycles = match fastest.and_then(|pass| self.ghz.get(pass)) {
            Some(ghz) => of_passes("cycles", latency.scale(*ghz), METHOD),
            None => {
                let reason = "the core clock cannot be measured here";
                Figure::absent("cycles", Tier::Sw, METHOD, reason)
            }
        };
        CurvePoint {
            bytes: self.bytes,
            lines: self.bytes / line as u64,
            loads: self.loads,
            elapsed_s: self.total_ns / 1e9,
            latency_ns: of_passes("ns", latency, METHOD),
            cycles,
            passes_ns: self.ns,
            passes_ghz: self.ghz,
            windows: self.windows,
            windows_dropped: self.dropped,
        }
    }
}

/// Returns the minimum of `passes` (at least one), which are times, with its interval.
pub(crate) fn least(passes: &[f64]) -> Estimate {
    minimum_interval(passes, CONFIDENCE).at_least_zero()
}

/// Returns the median of `passes` (at least one), with their minimum and maximum as its interval.
/// The population median is beyond each end with probability 2^-n.
pub(crate) fn middle(passes: &[f64]) -> Estimate {
    let n = passes.len();
    let least = passes.iter().copied().fold(f64::INFINITY, f64::min);
    Estimate {
        value: median(passes).unwrap_or(least),
        low: least,
        high: passes.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        confidence: 1.0 - 0.5_f64.powi(n as i32 - 1),
        n: n as u64,
    }
}

/// Builds a figure, without an interval if there are too few passes.
pub(crate) fn of_passes(unit: &str, estimate: Estimate, method: &str) -> Figure {
    match estimate.n {
        ..LEAST_PASSES => {
            Figure { n: estimate.n, ..Figure::exact(unit, estimate.value, Tier::Sw, method) }
        }
        _ => Figure::number(unit, estimate, Tier::Sw, method),
    }
}

/// Minimum number of passes for an interval; two passes would give only a 50 % interval.
pub(crate) const LEAST_PASSES: u64 = 3;

/// Returns sizes from [`LEAST_BYTES`] to `most` in whole KiB: `per_octave` sizes per doubling up to
/// [`COSTLY_BYTES`], half as many above it, and twice as many within [`FIRST_LEVELS`].
fn grid(most: u64, per_octave: u32) -> Vec<u64> {
    let size = |half_step: u32| {
        let octaves = f64::from(half_step) / f64::from(2 * per_octave);
        (LEAST_BYTES as f64 * octaves.exp2() / 1024.0).round() as u64 * 1024
    };
    let is_wanted = |half_step: &u32| match size(*half_step) {
        bytes if FIRST_LEVELS.contains(&bytes) => true,
        bytes if bytes > COSTLY_BYTES && per_octave > 1 => half_step % 4 == 0,
        _ => half_step % 2 == 0,
    };
    let sizes = (0..).filter(is_wanted).map(size);
    let mut sizes: Vec<u64> = sizes.take_while(|&bytes| bytes <= most).collect();
    sizes.dedup();
    sizes
}

/// Returns the numbers below `n`. The last comes first, so that the end of the curve is always
/// measured; the others follow in random order, even numbers before odd ones. A truncated pass thus
/// covers the whole curve at half the resolution rather than only part of it.
fn order_of(n: usize, random: &mut Rng) -> Vec<usize> {
    let others = 0..n.saturating_sub(1);
    let (mut even, mut odd): (Vec<usize>, Vec<usize>) = others.partition(|index| index % 2 == 0);
    random.shuffle(&mut even);
    random.shuffle(&mut odd);
    n.checked_sub(1).into_iter().chain(even).chain(odd).collect()
}

/// Adds sizes between those in `groups` and schedules them to be measured next.
fn add_sizes(groups: &mut [Group; 2], request: &Request, most: u64) {
    let known = groups.iter().flat_map(|group| &group.points);
    let mut curve: Vec<Sample> = known.map(Point::sample).collect();
    let is_known: BTreeSet<u64> = curve.iter().map(|sample| sample.bytes).collect();
    curve.retain(|sample| !sample.passes.is_empty());
    curve.sort_unstable_by_key(|sample| sample.bytes);
    let options = Options { replicates: 0, seed: request.seed, ..Options::default() };
    let sizes = refine(&curve, &detect(&curve, &options), linerate_linux::page_bytes() as u64);
    for bytes in sizes.into_iter().filter(|bytes| *bytes <= most && !is_known.contains(bytes)) {
        let group = &mut groups[usize::from(bytes > SERIAL_BYTES)];
        group.left.push(group.points.len());
        group.points.push(Point::new(bytes));
    }
}

/// Possible chain starts: huge page boundaries if huge pages are requested, otherwise multiples of
/// [`BOX_BYTES`].
#[derive(Clone, Copy)]
struct Places {
    unit: usize,
    count: usize,
}

impl Places {
    fn in_arena(arena: &Arena) -> Self {
        let unit = match arena.kind() {
            PageKind::Huge => HUGE_BYTES,
            PageKind::Base => BOX_BYTES,
        };
        Self { unit, count: (arena.bytes() / unit).max(1) }
    }

    /// Returns a random start as a byte offset in the arena.
    fn any(&self, random: &mut Rng) -> usize {
        self.unit * random.usize(0..self.count)
    }
}

impl Bench<'_> {
    /// Measures one size again, on a new chain.
    fn visit(&mut self, point: &mut Point, random: &mut Rng) {
        let Request { order, line, deadline, .. } = *self.request;
        let layout = Layout { start: self.places.any(random), ..Layout::dense(order, line) };
        let mut chain = Chain::new(self.arena, layout, random.u64(..));
        let goes_on = || !self.windows.is_stopped() && Instant::now() < deadline;
        if !chain.grow((point.bytes / line as u64) as usize, goes_on) {
            return;
        }
        if let Some((best, ghz)) = load_time(self.windows, &chain, point.bytes, deadline) {
            point.add(&best, ghz);
        }
    }
}

/// Core clock during a measurement, in GHz: the maximum of several samples, because an interrupt
/// lowers a clock sample just as it raises a load time.
#[derive(Default)]
struct Clock {
    cycles_per_tick: f64,
}

impl Clock {
    fn look(&mut self) {
        self.cycles_per_tick = self.cycles_per_tick.max(core_clock::glimpse().unwrap_or(0.0));
    }

    /// Returns the core clock in GHz; `None` if it cannot be measured.
    fn ghz(&self) -> Option<f64> {
        core_ghz(self.cycles_per_tick)
    }
}

/// Warms the caches, then measures the time per load and the core clock in GHz.
fn load_time(
    windows: &Windows<'_>,
    chain: &Chain<'_>,
    bytes: u64,
    deadline: Instant,
) -> Option<(Best, Option<f64>)> {
    let longer = usize::from(bytes > SHORT_BYTES) + usize::from(bytes > SERIAL_BYTES);
    let window_ns = WINDOW_NS[longer];
    let plan = Plan { window_ns, wanted: WINDOWS, deadline };
    match bytes {
        0..=SERIAL_BYTES => walk_alone(windows, chain, &plan),
        _ if bytes < MANY_BYTES => walk_in_turns::<FEW>(windows, chain, &plan),
        _ => walk_in_turns::<MANY>(windows, chain, &plan),
    }
}

/// Times a single-cursor walk. Several cursors warm the cache first because they fill it faster.
fn walk_alone(
    windows: &Windows<'_>,
    chain: &Chain<'_>,
    plan: &Plan,
) -> Option<(Best, Option<f64>)> {
    let mut cursors = cursors::<FEW>(chain);
    chain.run_side_by_side(&mut cursors, (chain.len() / FEW) as u64);
    let (mut cursor, mut clock) = (cursors[0], Clock::default());
    chain.run(&mut cursor, chain.len() as u64);
    let best = windows.best_with(plan, |loads| chain.run(&mut cursor, loads), || clock.look())?;
    Some((best, clock.ghz()))
}

/// Times a walk by `N` cursors, each along its own stretch.
fn walk_in_turns<const N: usize>(
    windows: &Windows<'_>,
    chain: &Chain<'_>,
    plan: &Plan,
) -> Option<(Best, Option<f64>)> {
    let (mut cursors, mut clock) = (cursors::<N>(chain), Clock::default());
    let stretch = chain.len().div_ceil(N) as u64;
    warm(windows, chain, &mut cursors, stretch, plan.deadline);
    let walk = |loads: u64| {
        let each = (loads / N as u64).min(stretch / 2);
        cursors.iter_mut().map(|cursor| chain.run(cursor, each)).sum()
    };
    let best = windows.best_with(plan, walk, || clock.look())?;
    Some((best, clock.ghz()))
}

/// Warms the caches with `loads` loads per cursor, or fewer if time runs out.
fn warm<const N: usize>(
    windows: &Windows<'_>,
    chain: &Chain<'_>,
    cursors: &mut [Cursor; N],
    loads: u64,
    deadline: Instant,
) {
    let mut left = loads;
    while left > 0 && !windows.is_stopped() && Instant::now() < deadline {
        let some = left.min((STRETCH / N) as u64);
        chain.run_side_by_side(cursors, some);
        left -= some;
    }
}

/// Returns the start positions of `N` stretches of the chain.
fn cursors<const N: usize>(chain: &Chain<'_>) -> [Cursor; N] {
    let places = chain.places(N);
    std::array::from_fn(|k| places[k])
}

#[cfg(test)]
mod tests;
