// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time of a load over the size of the chain.
//!
//! ```text
//! sizes = a grid, even in log size
//! pass:   a chain that begins elsewhere in the arena, and another order of the sizes; for each size
//!             up to 4 MiB move it elsewhere once more: else all of a pass would have the luck of the
//!                 same few pages
//!             resize the chain; walk it, so that the caches hold what they hold when it is walked
//!             for ever; then the fastest of some windows, and the core clock
//! after the first and the second pass: sizes that tell where the steps are, until then and from then on
//! ```
//!
//! A walk of a chain that is much longer than the caches takes longer than all windows together. So
//! several cursors part it into stretches. They walk side by side to warm the caches, as many loads
//! under way at once, and in turns while they are timed, a part of a stretch each, one load after the
//! other. Either way every line was last touched as many loads ago as the chain has lines, as in a
//! walk by one cursor.
//!
//! Left out: what the curve shows (`linerate_hierarchy::tiers`).

use crate::arena::Arena;
use crate::chase::{Chain, Cursor, Layout};
use crate::window::{Best, Plan, Windows};
use fastrand::Rng;
use linerate_hierarchy::tiers::{Options, Sample, detect, refine};
use linerate_machine::core_clock;
use linerate_machine::ticks::ticks_per_second;
use linerate_record::memory::{Curve, CurvePoint, Order, PageKind};
use linerate_record::stats::Estimate;
use linerate_record::{Figure, Tier};
use std::time::Instant;

/// What curve to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// The order of the chase.
    pub order: Order,
    /// Octets of a line.
    pub line: usize,
    /// Passes over all sizes, each in another order, on other pages.
    pub passes: u32,
    /// Sizes per doubling.
    pub per_octave: u32,
    /// Whether to measure more sizes where the curve bends.
    pub refine: bool,
    /// Of the orders.
    pub seed: u64,
    /// When to be done.
    pub deadline: Instant,
}

/// The smallest chain.
const LEAST_BYTES: u64 = 4 << 10;

/// Chains up to this size lie elsewhere for each size of a pass; the pages of longer ones are so many
/// that luck averages out, and moving them takes time.
const MOVED_BYTES: u64 = 4 << 20;

/// Building and warming takes time by the line: longer chains would take as much as all others.
const COSTLY_BYTES: u64 = 64 << 20;

/// Chains up to this size are walked by one cursor, longer ones by [`FEW`], and those from
/// [`MANY_BYTES`] on by [`MANY`]. Stretches end where boxes of 128 KiB do, so that of eight or more
/// boxes each none is longer than another by more than an eighth; and a window of 0.5 ms, of which
/// each cursor has a part, is shorter than the walk of a chain that does not fit its cache.
const SERIAL_BYTES: u64 = 8 << 20;
const MANY_BYTES: u64 = 32 << 20;

/// Within the misses that cores have outstanding: 10 and more since Nehalem, 16 and more of late.
const FEW: usize = 8;
const MANY: usize = 16;

/// Window of a chain of up to [`SHORT_BYTES`], and of longer ones, which need time for as many loads.
const WINDOW_NS: [f64; 2] = [150_000.0, 500_000.0];
const SHORT_BYTES: u64 = 2 << 20;

/// What the start of a chain is a multiple of: a huge page of most machines, or a box of small ones.
const HUGE_BYTES: usize = 2 << 20;
const BOX_BYTES: usize = 128 << 10;

/// How the figures of a size come about.
const METHOD: &str = "chase: fastest window of each pass, least of all passes";

/// Windows of a size in a pass.
const WINDOWS: u32 = 5;

/// Measures a curve in `arena`, up to its size. Passes that the deadline or a stop cut short leave
/// fewer samples; sizes without any are left out.
pub fn measure(windows: &Windows<'_>, arena: &mut Arena, request: &Request) -> Curve {
    let mut random = Rng::with_seed(request.seed);
    let most = arena.bytes() as u64;
    let mut points = grid(most, request.per_octave);
    let places = Places::of(arena);
    for pass in 0..request.passes {
        let home = places.any(&mut random);
        let layout = Layout { start: home, ..Layout::dense(request.order, request.line) };
        let mut chain = Chain::new(arena, layout, random.u64(..));
        let order = order_of(points.len(), &mut random);
        let mut go = |points: &mut [Point], order: &[usize]| {
            let mut place =
                |bytes| if bytes > MOVED_BYTES { home } else { places.any(&mut random) };
            visit(windows, &mut chain, &mut place, request, points, order);
        };
        go(&mut points, &order);
        if request.refine && pass < 2 {
            let known = points.len();
            points.extend(more_sizes(&points, request, most));
            let order: Vec<usize> = (known..points.len()).collect();
            go(&mut points, &order);
        }
    }
    points.sort_unstable_by_key(|point| point.bytes);
    let points = points.into_iter().filter(|point| !point.ns.is_empty());
    let points = points.map(|point| point.record(request.line)).collect();
    Curve { order: request.order, pages: arena.kind(), points }
}

/// What is known of a size.
#[derive(Clone, Debug, Default)]
struct Point {
    bytes: u64,
    /// The fastest window of each pass, per load.
    ns: Vec<f64>,
    /// The core clock beside each; empty where nothing tells.
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

    /// At least one pass has seen it.
    fn record(self, line: usize) -> CurvePoint {
        let latency = least(&self.ns);
        let fastest = self.ns.iter().position(|ns| *ns == latency.value);
        let cycles = match fastest.and_then(|pass| self.ghz.get(pass)) {
            Some(ghz) => Figure::number("cycles", scaled(latency, *ghz), Tier::Sw, METHOD),
            None => {
                let reason = "nothing tells the core clock on this processor";
                Figure::absent("cycles", Tier::Sw, METHOD, reason)
            }
        };
        CurvePoint {
            bytes: self.bytes,
            lines: self.bytes / line as u64,
            loads: self.loads,
            seconds: self.total_ns / 1e9,
            latency_ns: Figure::number("ns", latency, Tier::Sw, METHOD),
            cycles,
            passes_ns: self.ns,
            passes_ghz: self.ghz,
            windows: self.windows,
            windows_dropped: self.dropped,
        }
    }
}

/// `estimate` in another unit, of which `factor` make one of its own.
pub(crate) fn scaled(estimate: Estimate, factor: f64) -> Estimate {
    let Estimate { value, low, high, .. } = estimate;
    Estimate { value: value * factor, low: low * factor, high: high * factor, ..estimate }
}

/// The least of `passes` (one at least), and where it would lie if it were all measured again: the
/// least of n drawn from these n with replacement is above the k-th least with probability
/// ((n-k)/n)^n; the interval ends at the first k for which that is 5 % at most.
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
        confidence: 0.95,
        n: sorted.len() as u64,
    }
}

/// Sizes from [`LEAST_BYTES`] to `most`, in whole KiB: `per_octave` of them per doubling up to
/// [`COSTLY_BYTES`], half as many from there on.
fn grid(most: u64, per_octave: u32) -> Vec<Point> {
    let size = |step: u32| {
        let bytes = LEAST_BYTES as f64 * (f64::from(step) / f64::from(per_octave)).exp2();
        (bytes / 1024.0).round() as u64 * 1024
    };
    let is_costly = |step: &u32| size(*step) > COSTLY_BYTES && per_octave > 1;
    let steps = (0..).filter(|step| !is_costly(step) || step % 2 == 0);
    let mut sizes: Vec<u64> = steps.map(size).take_while(|&bytes| bytes <= most).collect();
    sizes.dedup();
    sizes.into_iter().map(Point::new).collect()
}

/// The numbers below `n` in random order, even ones first: a pass that is cut short has seen all of
/// the curve with half of the sizes, rather than some of it.
fn order_of(n: usize, random: &mut Rng) -> Vec<usize> {
    let (mut even, mut odd): (Vec<usize>, Vec<usize>) = (0..n).partition(|index| index % 2 == 0);
    random.shuffle(&mut even);
    random.shuffle(&mut odd);
    even.append(&mut odd);
    even
}

/// Sizes that would tell more than those of `points` do.
fn more_sizes(points: &[Point], request: &Request, most: u64) -> Vec<Point> {
    let mut curve: Vec<Sample> = points.iter().map(Point::sample).collect();
    curve.retain(|sample| !sample.passes.is_empty());
    curve.sort_unstable_by_key(|sample| sample.bytes);
    let options = Options { replicates: 0, seed: request.seed, ..Options::default() };
    let sizes = refine(&curve, &detect(&curve, &options), linerate_linux::page_octets() as u64);
    let is_new = |bytes: &u64| *bytes <= most && points.iter().all(|point| point.bytes != *bytes);
    sizes.into_iter().filter(is_new).map(Point::new).collect()
}

/// Where chains may begin: anywhere in the arena, at the start of a huge page where these are asked
/// for.
#[derive(Clone, Copy)]
struct Places {
    unit: usize,
    count: usize,
}

impl Places {
    fn of(arena: &Arena) -> Self {
        let unit = match arena.kind() {
            PageKind::Huge => HUGE_BYTES,
            PageKind::Base => BOX_BYTES,
        };
        Self { unit, count: (arena.bytes() / unit).max(1) }
    }

    /// One of them, in octets from the start of the arena.
    fn any(&self, random: &mut Rng) -> usize {
        self.unit * random.usize(0..self.count)
    }
}

/// Measures `points` in the order `order` of their indices, each at its `place`.
fn visit(
    windows: &Windows<'_>,
    chain: &mut Chain<'_>,
    place: &mut dyn FnMut(u64) -> usize,
    request: &Request,
    points: &mut [Point],
    order: &[usize],
) {
    for &index in order {
        if windows.is_stopped() || Instant::now() >= request.deadline {
            return;
        }
        let point = &mut points[index];
        chain.move_to(place(point.bytes));
        chain.resize((point.bytes / request.line as u64) as usize);
        if let Some((best, ghz)) = load_time(windows, chain, point.bytes, request.deadline) {
            point.add(&best, ghz);
        }
    }
}

/// The core clock in GHz beside a measurement: the highest of some glimpses, since what disturbs
/// makes them too low, as it makes times of loads too high.
#[derive(Default)]
struct Clock {
    cycles_per_tick: f64,
}

impl Clock {
    fn look(&mut self) {
        self.cycles_per_tick = self.cycles_per_tick.max(core_clock::glimpse().unwrap_or(0.0));
    }

    /// `None` where there is no way to tell it.
    fn ghz(&self) -> Option<f64> {
        let ghz = self.cycles_per_tick * ticks_per_second() / 1e9;
        (ghz > 0.0).then_some(ghz)
    }
}

/// Warms the caches, then measures the time of a load, and the core clock in GHz.
fn load_time(
    windows: &Windows<'_>,
    chain: &Chain<'_>,
    bytes: u64,
    deadline: Instant,
) -> Option<(Best, Option<f64>)> {
    let window_ns = WINDOW_NS[usize::from(bytes > SHORT_BYTES)];
    let plan = Plan { window_ns, wanted: WINDOWS, deadline };
    match bytes {
        0..=SERIAL_BYTES => walk_alone(windows, chain, &plan),
        _ if bytes < MANY_BYTES => walk_in_turns::<FEW>(windows, chain, &plan),
        _ => walk_in_turns::<MANY>(windows, chain, &plan),
    }
}

/// One cursor; before that several, since they fill a cache faster.
fn walk_alone(
    windows: &Windows<'_>,
    chain: &Chain<'_>,
    plan: &Plan,
) -> Option<(Best, Option<f64>)> {
    let mut cursors = cursors::<FEW>(chain);
    chain.run_side_by_side(&mut cursors, (chain.len() / FEW) as u64);
    let (mut cursor, mut clock) = (cursors[0], Clock::default());
    chain.run(&mut cursor, chain.len() as u64);
    let best = windows.best_beside(plan, |loads| chain.run(&mut cursor, loads), || clock.look())?;
    Some((best, clock.ghz()))
}

/// `N` cursors, each with a stretch of its own.
fn walk_in_turns<const N: usize>(
    windows: &Windows<'_>,
    chain: &Chain<'_>,
    plan: &Plan,
) -> Option<(Best, Option<f64>)> {
    let (mut cursors, mut clock) = (cursors::<N>(chain), Clock::default());
    let stretch = chain.len().div_ceil(N) as u64;
    chain.run_side_by_side(&mut cursors, stretch);
    let walk = |loads: u64| {
        let each = (loads / N as u64).min(stretch / 2);
        cursors.iter_mut().map(|cursor| chain.run(cursor, each)).sum()
    };
    let best = windows.best_beside(plan, walk, || clock.look())?;
    Some((best, clock.ghz()))
}

/// Where `N` stretches of the chain begin.
fn cursors<const N: usize>(chain: &Chain<'_>) -> [Cursor; N] {
    let places = chain.places(N);
    std::array::from_fn(|k| places[k])
}

#[cfg(test)]
mod tests;
