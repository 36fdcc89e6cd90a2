// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many misses a core has outstanding at once: chains side by side, until more of them make it
//! no faster.
//!
//! The chains are one: cursors that follow each other along a page-local cycle, evenly spaced. Each
//! load of a cursor needs the one before, none needs those of the others. A line is walked over by
//! one cursor after the other, and in between by all of them over all other lines: it was last
//! touched as many loads ago as the cycle has lines, however many cursors there are.
//!
//! Left out: stores. Cursors beyond the registers of a core go through the stack, a load and a
//! store per step: nothing beside a miss. In the first level, where it is not nothing, there are no
//! more than `IN_REGISTERS`.

use crate::arena::Arena;
use crate::chase::{Chain, Cursor, Layout};
use crate::curve::{LEAST_PASSES, middle, of_passes};
use crate::window::{Plan, Windows};
use linerate_hierarchy::parallel::{Overlap, Point, overlap};
use linerate_record::memory::{ChainsPoint, MemoryTier, Order, Parallelism};
use linerate_record::stats::Estimate;
use linerate_record::{Figure, Tier};
use std::time::Instant;

/// How to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Octets of a line.
    pub line: usize,
    /// Passes over all numbers of chains; more where a number had no window that counts.
    pub passes: u32,
    /// Of the orders.
    pub seed: u64,
    /// When to be done.
    pub deadline: Instant,
}

/// What was found of a tier.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// For the record.
    pub record: Parallelism,
    /// Loads under way at once, for the costs; `None` where nothing tells.
    pub outstanding: Option<Estimate>,
}

/// Numbers of chains, all of them divisors of [`PLACES`].
const CHAINS: [u32; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];

/// Chains whose cursors fit the registers of x86-64 beside what else the loop needs. As many cover
/// four cycles of three loads each, what the first levels of today have.
const IN_REGISTERS: u32 = 12;

const MOST_CHAINS: u32 = 32;

/// Places that part the cycle evenly.
const PLACES: usize = 96;

/// Lines up to which places are found by walking: some ms at the latency of memory. In longer
/// cycles there are so many boxes that the nearest box is near enough.
const WALKED_LINES: usize = 1 << 16;

/// Within it hundreds of loads are served even by the slowest memory.
const WINDOW_NS: f64 = 250_000.0;

/// Windows of a number of chains in a pass.
const WINDOWS: u32 = 4;

/// Lines that are walked before anything is timed: as many as the largest caches hold, so that
/// what the building left there is gone.
const WARM_LINES: usize = 1 << 20;

/// Times the latency of a tier above which a load was not served by it.
const NOT_IN_TIER: f64 = 1.3;

const CONFIDENCE: f64 = 0.95;

/// Measures each of `tiers`, in their order, by page-local chains in `arena`. What the deadline or
/// a stop cuts short is absent with a reason.
pub fn measure(
    windows: &Windows<'_>,
    arena: &mut Arena,
    tiers: &[MemoryTier],
    request: &Request,
) -> Vec<Measured> {
    let sizes = working_sets(tiers, arena.bytes());
    let mut measured = Vec::with_capacity(tiers.len());
    for (index, (tier, bytes)) in tiers.iter().zip(sizes).enumerate() {
        windows.progress(&format!("loads side by side, {}", tier.name));
        let left = request.deadline.saturating_duration_since(Instant::now());
        let deadline = Instant::now() + left / (tiers.len() - index) as u32;
        let alone_ns = tier.latency_ns.as_number();
        let points = bytes.map(|bytes| {
            let walked = Walked {
                lines: bytes / request.line,
                is_memory: tier.size_bytes.as_number().is_none(),
                most_chains: if index == 0 { IN_REGISTERS } else { u32::MAX },
                most_ns: NOT_IN_TIER * alone_ns.unwrap_or(f64::INFINITY),
            };
            points(windows, arena, &walked, &Request { deadline, ..*request })
        });
        let points = points.unwrap_or_default();
        measured.push(record(
            &tier.name,
            bytes,
            &points,
            alone_ns,
            (request.seed, windows.more_time()),
        ));
    }
    measured
}

/// Octets that lie in each of `tiers` and not in the one before, in an arena of `most`: between two
/// sizes their geometric mean, half of the nearest tier, and of memory several times what caches
/// hold. `None` where the tiers are so near each other, or so large, that there is no such size.
///
/// A set of a little more than a tier already misses it: walked in a circle, least recently used
/// lines are gone when they are needed. A factor of two leaves room for other policies.
pub(crate) fn working_sets(tiers: &[MemoryTier], most: usize) -> Vec<Option<usize>> {
    let mut before: Option<f64> = None;
    let set = |tier: &MemoryTier| {
        let size = tier.size_bytes.as_number();
        let bytes = match (before, size) {
            (None, None) => Some(most as f64),
            (None, Some(size)) => Some(size / 2.0),
            (Some(before), Some(size)) if size < 1.96 * before => None,
            (Some(before), Some(size)) => Some(f64::sqrt(before * size)),
            (Some(before), None) => Some((16.0_f64 * before).max(64e6).min(most as f64)),
        };
        let fits = bytes.filter(|&bytes| bytes <= most as f64);
        // Less than twice what caches hold is not in memory.
        let fits = fits.filter(|&bytes| size.is_some() || before.is_none_or(|b| bytes >= 2.0 * b));
        before = size.or(before);
        fits.map(|bytes| bytes as usize & !(GRAIN - 1)).filter(|&bytes| bytes >= GRAIN)
    };
    tiers.iter().map(set).collect()
}

/// Working sets are multiples of this.
pub(crate) const GRAIN: usize = 4096;

/// What is walked to measure a tier.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Walked {
    lines: usize,
    /// Whether no cache holds them.
    is_memory: bool,
    most_chains: u32,
    /// More than this per load, the time of one chain, means that the lines were not in the tier;
    /// such times do not count. Slow walks lose lines of a cache that others use too, fast ones do
    /// not.
    most_ns: f64,
}

/// Times of all numbers of chains in one cycle. The most chains come first in each pass: they bring
/// the lines to where they stay.
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
        // On a busy machine a pass may leave points without a window that counts.
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

/// Where along a chain cursors begin: [`PLACES`] places.
///
/// In a cache, always at the same places, evenly spaced. In memory every load has to meet a line
/// that was not touched for as long as possible: there heads go on from where they came to, those
/// that came least far first, so that none comes to where another began before all of the chain was
/// walked.
#[derive(Debug)]
struct Heads {
    is_memory: bool,
    /// Where each is, and the loads it made.
    heads: Vec<(Cursor, u64)>,
}

impl Heads {
    fn new(chain: &Chain<'_>, is_memory: bool) -> Self {
        let heads = places(chain).into_iter().map(|place| (place, 0)).collect();
        Self { is_memory, heads }
    }

    /// Lets `chains` of them walk.
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

/// Cursors side by side, as many as one of [`CHAINS`].
#[derive(Debug)]
struct Walk {
    cursors: Vec<Cursor>,
    /// Loads that each of them made.
    along_each: u64,
}

impl Walk {
    /// Makes about `loads` loads, and gives their number.
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

/// [`PLACES`] places of `chain`, evenly spaced.
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

/// `alone_ns` is the time of a load of one chain, for tiers where no such time counts; `more` says
/// how there would be more time.
fn record(
    tier: &str,
    bytes: Option<usize>,
    points: &[Point],
    alone_ns: Option<f64>,
    (seed, more): (u64, &str),
) -> Measured {
    let alone = alone_ns.filter(|_| points.first().is_some_and(|point| point.chains > 1));
    let method = match alone {
        Some(_) => "latency of the tier over the time of a load of many chains",
        None => "time of a load of one chain over that of a load of many",
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
        (None, None) => absent("no size lies in this tier and clearly not in the one before"),
        (None, Some(_)) if all.len() > 1 && all[0].chains == 1 => {
            absent("a load took longer with more chains than with one: disturbed; run it again")
        }
        (None, Some(_)) => absent(&format!("no time was left, or none undisturbed; {more}")),
    };
    let record = Parallelism {
        tier: tier.to_owned(),
        bytes: bytes.unwrap_or(0) as u64,
        points: points.iter().map(chains_point).collect(),
        outstanding: figure,
    };
    Measured { record, outstanding }
}

fn chains_point(point: &Point) -> ChainsPoint {
    let method = "chains side by side: fastest window of each pass, median of all passes";
    let ns_per_load = of_passes("ns/load", middle(&point.passes), method);
    ChainsPoint { chains: point.chains, ns_per_load }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Watch;
    use linerate_record::memory::PageKind;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    /// A tier of `bytes`; memory without.
    pub(crate) fn tier(name: &str, bytes: Option<f64>) -> MemoryTier {
        let method = "made up";
        let size = match bytes {
            Some(bytes) => Figure::exact("octets", bytes, Tier::Sw, method),
            None => Figure::absent("octets", Tier::Sw, method, "memory"),
        };
        MemoryTier {
            name: name.to_owned(),
            size_bytes: size,
            latency_ns: Figure::absent("ns/load", Tier::Sw, method, "made up"),
            latency_cycles: Figure::exact("cycles/load", 4.0, Tier::Sw, method),
            settled: true,
            note: None,
        }
    }

    fn tiers(sizes: &[Option<f64>]) -> Vec<MemoryTier> {
        sizes.iter().map(|&size| tier("tier", size)).collect()
    }

    const KIB: usize = 1024;

    fn kib(sizes: &[Option<f64>], most: usize) -> Vec<Option<usize>> {
        let sizes: Vec<_> = sizes.iter().map(|size| size.map(|kib| kib * 1024.0)).collect();
        let sets = working_sets(&tiers(&sizes), most * KIB);
        sets.iter().map(|set| set.map(|bytes| bytes / KIB)).collect()
    }

    #[test]
    fn working_sets_lie_between_the_tiers() {
        let usual = [Some(32.0), Some(512.0), Some(8192.0), None];
        assert_eq!(kib(&usual, 256 << 10), [Some(16), Some(128), Some(2048), Some(128 << 10)]);
        // As much as there is, where 16 times the caches are more.
        assert_eq!(kib(&usual, 64 << 10)[3], Some(64 << 10));
        assert_eq!(kib(&usual, 12 << 10)[3], None, "less than twice what caches hold");
        assert_eq!(kib(&usual, 1 << 10), [Some(16), Some(128), None, None]);
    }

    #[test]
    fn tiers_too_near_each_other_have_no_working_set() {
        assert_eq!(kib(&[Some(32.0), Some(48.0), None], 1 << 20)[1], None);
        assert_eq!(kib(&[Some(32.0), Some(64.0), None], 1 << 20)[1], Some(44));
    }

    #[test]
    fn without_caches_everything_is_memory() {
        assert_eq!(kib(&[None], 1024), [Some(1024)]);
        assert_eq!(working_sets(&[], 1 << 20), []);
    }

    fn with_windows<T>(is_stopped: bool, look: impl FnOnce(&Windows<'_>) -> T) -> T {
        let stop = AtomicBool::new(is_stopped);
        let watch = Watch::new(&stop, &|_, _| {});
        look(&Windows::new(&watch, Duration::from_secs(1)))
    }

    fn arena(bytes: usize) -> Arena {
        Arena::new(bytes, PageKind::Base, &AtomicBool::new(false)).unwrap()
    }

    /// By following the chain: the distance of each place from the one before.
    #[test]
    fn places_part_a_walked_cycle_evenly() {
        let mut arena = arena(1 << 20);
        let mut chain = Chain::new(&mut arena, Layout::dense(Order::PageLocal, 64), 1);
        for lines in [96, 97, 500, 5000, 16_384] {
            chain.resize(lines);
            let places = places(&chain);
            let mut walk = Cursor::default();
            let mut position = vec![0; lines];
            for step in 0..lines {
                position[chain.item(walk)] = step;
                walk = chain.next(walk);
            }
            for (k, &place) in places.iter().enumerate() {
                assert_eq!(position[chain.item(place)], k * lines / PLACES, "{k} of {lines}");
            }
        }
    }

    #[test]
    fn every_number_of_chains_divides_the_places() {
        assert!(CHAINS.iter().all(|&chains| PLACES % chains as usize == 0));
        assert!(CHAINS.contains(&MOST_CHAINS) && CHAINS.contains(&IN_REGISTERS));
    }

    fn items(chain: &Chain<'_>, heads: &Heads) -> Vec<usize> {
        heads.heads.iter().map(|(cursor, _)| chain.item(*cursor)).collect()
    }

    /// Whatever walks, no line is met again until a head came to where the next one began.
    #[test]
    fn in_memory_heads_meet_no_line_again() {
        let mut arena = arena(1 << 20);
        let mut chain = Chain::new(&mut arena, Layout::dense(Order::PageLocal, 64), 1);
        let lines_of_head = 160;
        chain.resize(PLACES * lines_of_head);
        let mut heads = Heads::new(&chain, true);
        let mut met = vec![0; chain.len()];
        let mut total = 0;
        for chains in CHAINS.iter().rev().cycle() {
            heads.walk(*chains, |walk| {
                let before = walk.cursors.clone();
                total += walk.on(&chain, 1) as usize;
                for mut cursor in before {
                    for _ in 0..walk.along_each {
                        met[chain.item(cursor)] += 1;
                        cursor = chain.next(cursor);
                    }
                }
            });
            if heads.heads.iter().any(|head| head.1 as usize == lines_of_head) {
                break;
            }
        }
        assert!(met.iter().all(|&times| times <= 1));
        assert_eq!(met.iter().sum::<usize>(), total);
        assert!(total >= PLACES * (lines_of_head - 16), "{total}: some heads waited");
    }

    #[test]
    fn in_a_cache_heads_begin_where_they_began() {
        let mut arena = arena(1 << 20);
        let mut chain = Chain::new(&mut arena, Layout::dense(Order::PageLocal, 64), 1);
        chain.resize(PLACES * 10);
        let mut heads = Heads::new(&chain, false);
        let start = items(&chain, &heads);
        for chains in CHAINS {
            let begun = heads.walk(chains, |walk| {
                let begun = walk.cursors.clone();
                walk.on(&chain, 100);
                begun
            });
            let begun: Vec<usize> = begun.iter().map(|&cursor| chain.item(cursor)).collect();
            let even: Vec<usize> =
                start.iter().copied().step_by(PLACES / chains as usize).collect();
            assert_eq!(begun, even);
        }
        assert_eq!(items(&chain, &heads), start);
    }

    #[test]
    fn each_tier_gets_a_time_for_each_number_of_chains() {
        let tiers = [tier("L1", Some(32e3)), tier("memory", None)];
        let deadline = Instant::now() + Duration::from_secs(30);
        let request = Request { line: 64, passes: 2, seed: 1, deadline };
        let measured = with_windows(false, |w| measure(w, &mut arena(1 << 20), &tiers, &request));
        assert_eq!(measured.len(), 2);
        for one in measured {
            let chains: Vec<u32> = one.record.points.iter().map(|point| point.chains).collect();
            let expected = if one.record.tier == "L1" { &CHAINS[..7] } else { &CHAINS[..] };
            assert_eq!(chains, expected, "{one:?}");
            let ns = one.record.points.iter().map(|point| point.ns_per_load.as_number());
            assert!(ns.clone().all(|ns| ns.is_some_and(|ns| ns > 0.0)), "{ns:?}");
            assert!(one.outstanding.unwrap().value >= 1.0, "{one:?}");
        }
    }

    /// Times that another tier served are no times of this one.
    #[test]
    fn the_latency_of_the_tier_stands_in_for_one_chain() {
        let points: Vec<Point> =
            [2, 4, 8].map(|chains| Point { chains, passes: vec![12.0 / chains as f64] }).into();
        let record = |alone_ns| record("L3", Some(1 << 20), &points, alone_ns, (1, ""));
        let found = record(Some(12.0));
        assert_eq!(found.outstanding.map(|outstanding| outstanding.value), Some(8.0));
        assert_eq!(found.record.points.len(), 3, "what was not measured is no point");
        let figure = found.record.outstanding;
        assert!(figure.method.starts_with("latency of the tier"), "{figure:?}");
        assert_eq!((figure.low, figure.high), (None, None), "one pass has no interval");
        assert_eq!(record(None).outstanding, None);
    }

    #[test]
    fn times_above_the_latency_of_the_tier_do_not_count() {
        let deadline = Instant::now() + Duration::from_secs(30);
        let request = Request { line: 64, passes: 1, seed: 1, deadline };
        let points = |most_ns| {
            let walked = Walked { lines: 1000, is_memory: true, most_chains: 8, most_ns };
            with_windows(false, |w| points(w, &mut arena(1 << 20), &walked, &request))
        };
        assert!(points(0.0).is_empty());
        assert!(!points(f64::INFINITY).is_empty());
    }

    #[test]
    fn what_was_stopped_is_absent_with_a_reason() {
        let tiers = tiers(&[Some(32e3), Some(40e3), None]);
        let request = Request { line: 64, passes: 1, seed: 1, deadline: Instant::now() };
        let measured = with_windows(true, |w| measure(w, &mut arena(1 << 20), &tiers, &request));
        let reasons: Vec<_> =
            measured.iter().map(|one| one.record.outstanding.reason.clone().unwrap()).collect();
        assert!(reasons[0].contains("time") && reasons[1].contains("size"), "{reasons:?}");
        assert!(measured.iter().all(|one| one.outstanding.is_none()));
    }
}
