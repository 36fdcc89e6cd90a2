// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time per load as a function of chain size.
//!
//! ```text
//! sizes = a grid, even in log size; those up to 8 MiB are cheap, the others costly
//! until all passes are done:
//!     two thirds of the time are for the cheap ones, so one kind or the other has the next turn:
//!         the next size of its pass, in another order and on other pages in each pass:
//!             build the chain; walk it, so that the caches hold what they hold when it is walked
//!             for ever; then the fastest of some windows, and the core clock
//! after the first passes: sizes that tell where the steps are, until then and from then on
//! ```
//!
//! On a shared processor there is time for several passes over the cheap sizes, but not for a
//! single one over the expensive sizes: hence the two kinds.
//!
//! Walking a chain that is much larger than the caches takes longer than all windows together.
//! Several cursors therefore divide it into stretches. To warm the caches they walk in parallel,
//! with one outstanding load per cursor; while being timed, they walk one after another with
//! dependent loads, each along part of its stretch. Either way the reuse distance of every line is
//! the number of lines in the chain, as in a walk by one cursor.
//!
//! Left out: what the curve shows (`linerate_hierarchy::levels`).

use crate::arena::Arena;
use crate::chase::{Chain, Cursor, Layout, STRETCH};
use crate::window::{Best, Plan, Windows, core_ghz};
use fastrand::Rng;
use linerate_hierarchy::steps::{Options, Sample, detect, refine};
use linerate_machine::core_clock;
use linerate_record::memory::{Curve, CurvePoint, Order, PageKind};
use linerate_record::stats::{CONFIDENCE, Estimate, median};
use linerate_record::{Figure, Tier};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// Settings for a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// The order of the chase.
    pub order: Order,
    /// Line size in bytes.
    pub line: usize,
    /// Passes over all sizes, each in a new order and on different pages.
    pub passes: u32,
    /// Sizes per doubling.
    pub per_octave: u32,
    /// Passes in which sizes are added where the curve bends; they take 40 to 200 ms each.
    pub refine: u32,
    /// Seed for the orders.
    pub seed: u64,
    /// Deadline of the measurement.
    pub deadline: Instant,
}

/// The smallest chain.
const LEAST_BYTES: u64 = 4 << 10;

/// If there are at least this many refining passes, there is time to refine the expensive sizes
/// too.
const OFTEN: u32 = 3;

/// Most L1 caches end in this range, at an edge so sharp that only closely spaced sizes resolve it.
const FIRST_LEVELS: RangeInclusive<u64> = 24 << 10..=160 << 10;

/// Size above which building and warming dominate: longer chains would take as long as all others
/// together.
const COSTLY_BYTES: u64 = 64 << 20;

/// Chains of up to this size are walked by one cursor, longer ones by [`FEW`] cursors, and chains
/// of [`MANY_BYTES`] or more by [`MANY`]. Stretches end at the boundaries of 128 KiB boxes; with at
/// least eight boxes each, none is longer than another by more than an eighth. A window of 0.5 ms,
/// shared by the cursors, is shorter than the walk of a chain that does not fit its cache.
const SERIAL_BYTES: u64 = 8 << 20;
const MANY_BYTES: u64 = 32 << 20;

/// Numbers of cursors. They are within the number of outstanding misses that cores support: 10 or
/// more since Nehalem, 16 or more in recent cores.
const FEW: usize = 8;
const MANY: usize = 16;

/// Window lengths in ns for chains of up to 1 MiB, for chains of up to [`SERIAL_BYTES`], and for
/// longer chains, which need more time for the same number of loads.
const WINDOW_NS: [f64; 3] = [100_000.0, 300_000.0, 500_000.0];
const SHORT_BYTES: u64 = 1 << 20;

/// Alignment of the start of a chain in bytes: the size of a huge page on most machines, or of a
/// box of small pages.
const HUGE_BYTES: usize = 2 << 20;
const BOX_BYTES: usize = 128 << 10;

/// Method by which the figures for a size are derived.
const METHOD: &str = "chase: fastest window of each pass, minimum over passes";

/// Windows per size in a pass.
const WINDOWS: u32 = 5;

/// Measures a curve in `arena`, up to the arena's size. Passes cut short by the deadline or a stop
/// request leave fewer samples; sizes without samples are left out.
pub fn measure(windows: &Windows<'_>, arena: &mut Arena, request: &Request) -> Curve {
    let kind = arena.kind();
    let mut random = Rng::with_seed(request.seed);
    let most = arena.bytes() as u64;
    let (cheap, costly): (Vec<u64>, Vec<u64>) =
        grid(most, request.per_octave).into_iter().partition(|&bytes| bytes <= SERIAL_BYTES);
    let mut bench = Bench { windows, places: Places::in_arena(arena), arena, request };
    // Refines the expensive sizes once, if there is time.
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

/// Sizes that are scheduled together.
struct Group {
    points: Vec<Point>,
    /// Indices of the sizes left in this pass; the size to be measured next is last.
    left: Vec<usize>,
    /// Completed passes.
    passes: u32,
    /// Number of initial passes in which sizes are added.
    refined: u32,
    /// Whether sizes have already been added in this pass.
    is_refined: bool,
    /// Weight of the time it takes.
    weight: u32,
    spent: Duration,
}

impl Group {
    fn new(sizes: &[u64], refined: u32, weight: u32) -> Self {
        let points = sizes.iter().copied().map(Point::new).collect();
        let (left, spent) = (Vec::new(), Duration::ZERO);
        Self { points, left, passes: 0, refined, is_refined: false, weight, spent }
    }

    /// Measures the next size.
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

    /// Counts the pass as completed if no sizes are left in it.
    fn end_pass(&mut self) {
        if self.left.is_empty() {
            self.passes += 1;
            self.is_refined = false;
        }
    }
}

/// Selects the next group: of the groups with passes left, the one that has taken the least
/// weighted time.
fn next(groups: &[Group], passes: u32) -> Option<usize> {
    let has_more = |turn: &usize| groups[*turn].passes < passes && !groups[*turn].points.is_empty();
    let spent = |turn: &usize| groups[*turn].spent * groups[*turn].weight;
    (0..groups.len()).filter(has_more).min_by_key(spent)
}

/// The samples of one size.
#[derive(Clone, Debug, Default)]
struct Point {
    bytes: u64,
    /// The fastest window of each pass, in time per load.
    ns: Vec<f64>,
    /// The core clock in each of these windows; empty if it cannot be measured.
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

    /// Converts the samples to the record's form. There must be at least one pass.
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

/// Returns the minimum of `passes` (at least one) and its interval under resampling: the minimum of
/// n values drawn from these n with replacement is above the k-th smallest with probability
/// ((n-k)/n)^n; the interval ends at the value for the first k for which this probability is at
/// most 5 %.
pub(crate) fn least(passes: &[f64]) -> Estimate {
    let mut sorted = passes.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let is_rare = |k: &usize| ((n - *k as f64) / n).powf(n) <= 0.05;
    let last = (1..=sorted.len()).find(is_rare).unwrap_or(sorted.len());
    Estimate {
        value: sorted[0],
        low: sorted[0],
        high: sorted[last - 1],
        confidence: CONFIDENCE,
        n: sorted.len() as u64,
    }
}

/// Returns the median of `passes` (at least one), with their minimum and maximum as its interval:
/// the population median is beyond each end with probability 2^-n.
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

/// Builds a figure. It has no interval if there are too few passes for one.
pub(crate) fn of_passes(unit: &str, estimate: Estimate, method: &str) -> Figure {
    match estimate.n {
        ..LEAST_PASSES => {
            Figure { n: estimate.n, ..Figure::exact(unit, estimate.value, Tier::Sw, method) }
        }
        _ => Figure::number(unit, estimate, Tier::Sw, method),
    }
}

/// Minimum number of passes for an interval. Two passes are the ends of an interval of only 50 %.
pub(crate) const LEAST_PASSES: u64 = 3;

/// Returns sizes from [`LEAST_BYTES`] to `most`, in whole KiB. There are `per_octave` sizes per
/// doubling up to [`COSTLY_BYTES`], half that number above it, and twice that number within
/// [`FIRST_LEVELS`].
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

/// Returns the numbers below `n`. The last number comes first, so that the end of the curve is
/// measured; the others follow in random order, even ones first. A truncated pass thus covers the
/// whole curve at half the resolution rather than only part of it.
fn order_of(n: usize, random: &mut Rng) -> Vec<usize> {
    let others = 0..n.saturating_sub(1);
    let (mut even, mut odd): (Vec<usize>, Vec<usize>) = others.partition(|index| index % 2 == 0);
    random.shuffle(&mut even);
    random.shuffle(&mut odd);
    n.checked_sub(1).into_iter().chain(even).chain(odd).collect()
}

/// Adds sizes that refine those in `groups`. The new sizes are measured immediately.
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

/// Possible starts of chains: anywhere in the arena, or at the start of a huge page if huge pages
/// are requested.
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

    /// Returns a random start, in bytes from the start of the arena.
    fn any(&self, random: &mut Rng) -> usize {
        self.unit * random.usize(0..self.count)
    }
}

impl Bench<'_> {
    /// Measures one size once more, on a new chain.
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

/// The core clock during a measurement, in GHz. It is the maximum of several samples, because
/// disturbances make samples of the clock too low, just as they make load times too high.
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

/// Times a walk by one cursor; several cursors warm the cache first, since they fill it faster.
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

/// Times a walk by `N` cursors, each with its own stretch.
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

/// Warms the caches with `loads` loads along each of `cursors`, or fewer if time runs out.
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
