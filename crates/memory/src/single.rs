// SPDX-License-Identifier: MIT OR Apache-2.0
//! Individually timed loads, with a clock whose tick may be longer than a load.
//!
//! ```text
//! sample:      wait for a random time, so that it begins at a random phase of the clock;
//!              read the clock, do 0, 1, 2, 4, ... dependent loads, read the clock
//! round:       a sample of each length, in random order, and additional samples of one load
//! window:      as many rounds as fit in half a millisecond; dropped if the thread was preempted
//! ```
//!
//! Single-load samples, minus the overhead of reading the clock, form the histogram. In the fastest
//! windows, time is linear in the number of loads, and the slope is the time per load, independent
//! of the clock's resolution. The longest length spans about 16 clock steps: at 5 ns per load, 32
//! loads if the clock ticks every 10 ns, and 4096 if it ticks every microsecond.
//!
//! `hierarchy::single` interprets the clock's steps and fits the line.

mod interval;
mod stopwatch;

pub use stopwatch::Stopwatch;

use crate::arena::Arena;
use crate::bench::Bench;
use crate::chase::{Chain, Cursor, Layout};
use crate::parallel::working_sets;
use fastrand::Rng;
use interval::{Address, MOST_WRITTEN};
use linerate_hierarchy::single;
use linerate_record::memory::{Histogram, MemoryLevel, Mode, Order};
use linerate_record::stats::{CONFIDENCE, median_interval, quantile};
use linerate_record::{Figure, Tier};
use std::time::{Duration, Instant};

/// Single-load samples per round, in addition to one sample of each length.
const SINGLES: usize = 8;

/// Maximum number of single-load samples; more do not reveal finer clusters.
const MOST_SINGLES: usize = 100_000;

/// Minimum number of single-load samples for a histogram.
const LEAST_SINGLES: usize = 200;

/// Lower limit on the longest length, in loads. At 1 ns per load it spans three ticks of a 10 ns
/// clock.
const LEAST_LONGEST: u32 = 32;

/// Number of clock ticks that the longest timed chase should take. The mean of 1,000 samples, each
/// off by at most half a tick, is then off by at most 0.1 % of that time.
const STEPS: f64 = 16.0;

/// Upper limit on the longest length, in loads. At 6 ns per load, a sample of this length takes 0.1
/// ms.
const MOST_LONGEST: u32 = 1 << 14;

/// Maximum samples per window. They take 4 KiB, which must not evict the chain's lines from L1.
const MOST_SAMPLES: usize = 512;

/// Longest chain, in lines, that is walked before each window. Longer chains do not need it,
/// because the work between windows evicts only about a hundred lines.
const LONGEST_WALK: usize = 1 << 14;

/// Number of fastest windows used to compute the slope; they contain a few thousand samples of each
/// length.
const QUIET_WINDOWS: usize = 128;

/// Number of times that each level is measured: several, because the load from other guests on the
/// host varies.
const VISITS: usize = 3;

/// Chain size in bytes above which a level is visited only once, because building the chain takes
/// longer than measuring.
const REVISITED: usize = 8 << 20;

const WINDOW: Duration = Duration::from_micros(500);

/// Maximum number of histogram bins.
const MOST_BINS: usize = 32;

/// Maximum relative difference between a load's time and a level's latency for the load to be
/// attributed to the level. Levels usually differ by at least a factor of two, and a single load is
/// timed to within a fraction of a tick.
const SAME: f64 = 0.25;

impl Stopwatch {
    /// Measures one histogram per level, using a page-local chain in `arena` whose size is well
    /// within the level. A level has no histogram if time runs out, or if no chain in the arena
    /// fits well within it.
    pub fn measure(
        &self,
        bench: &Bench<'_>,
        arena: &mut Arena,
        levels: &[MemoryLevel],
        deadline: Instant,
    ) -> Vec<Histogram> {
        if !self.is_fine_enough() {
            return Vec::new();
        }
        // Longer chains in memory would take too long to build.
        let sets = working_sets(levels, arena.bytes(), |caches| 8.0 * caches);
        let sets = levels.iter().zip(sets);
        let sizes: Vec<(&MemoryLevel, usize)> =
            sets.filter_map(|(level, bytes)| Some((level, bytes?))).collect();
        let mut all: Vec<Samples> = sizes.iter().map(|_| Samples::default()).collect();
        let visits =
            (0..VISITS).flat_map(|visit| sizes.iter().enumerate().map(move |s| (visit, s)));
        let visits = visits.filter(|(visit, (_, size))| *visit == 0 || size.1 <= REVISITED);
        let visits: Vec<usize> = visits.map(|(_, (place, _))| place).collect();
        for (done, &place) in visits.iter().enumerate() {
            let now = Instant::now();
            let left = (visits.len() - done) as u32;
            let until = now + deadline.saturating_duration_since(now) / left;
            let seed = bench.seed.wrapping_add(done as u64);
            self.visit(bench, arena, sizes[place].1, &mut all[place], seed, until);
        }
        let records = sizes.iter().zip(&mut all).filter_map(|(&(level, bytes), samples)| {
            self.record(samples, bytes, level, levels, bench.seed)
        });
        records.collect()
    }

    /// Times loads along a chain of `bytes` bytes.
    fn visit(
        &self,
        bench: &Bench<'_>,
        arena: &mut Arena,
        bytes: usize,
        samples: &mut Samples,
        seed: u64,
        until: Instant,
    ) {
        let start = arena.start().cast_const();
        let mut chain = Chain::new(arena, Layout::dense(Order::PageLocal, bench.line), seed);
        let goes_on = || !bench.windows.is_stopped() && Instant::now() < until;
        if !chain.grow(bytes / bench.line, goes_on) {
            return;
        }
        let mut cursor = Cursor::default();
        let load_ns = warm_up(bench, &chain, &mut cursor, until);
        let mut random = Rng::with_seed(seed);
        if samples.order.is_empty() {
            samples.order = round(self.step_ns(), load_ns);
        }
        // Items of a dense chain are on consecutive lines from the start of the arena.
        let mut at: Address = start.wrapping_add(chain.item(cursor) * bench.line).cast();
        let (mut rounds, mut window) = (1, Vec::new());
        while !bench.windows.is_stopped() && Instant::now() < until {
            window.clear();
            window.reserve(MOST_SAMPLES);
            if chain.len() <= LONGEST_WALK {
                // Walk around the chain once, so that the caches reach their steady state.
                let around = chain.len().next_multiple_of(MOST_WRITTEN as usize) as u32;
                // SAFETY: as below, for the loads between two clock reads.
                at = unsafe { self.clock().time(at, around) }.1;
            }
            let time = bench.windows.time(|| {
                for _ in 0..rounds {
                    random.shuffle(&mut samples.order);
                    for &loads in &samples.order {
                        self.wait(&mut random);
                        // SAFETY: `at` is an item of the chain, which outlives the call and does
                        // not change during it, and items hold addresses of items.
                        let (ticks, end) = unsafe { self.clock().time(at, loads) };
                        window.push((loads, u32::try_from(ticks).unwrap_or(u32::MAX)));
                        at = end;
                    }
                }
            });
            if time.kept {
                samples.add(&window, time.ns / rounds as f64);
            }
            rounds = (rounds as f64 * WINDOW.as_nanos() as f64 / time.ns.max(1.0)) as usize;
            rounds = rounds.clamp(1, MOST_SAMPLES / samples.order.len());
        }
    }

    /// Converts the samples to a record; `None` if there are too few.
    fn record(
        &self,
        samples: &mut Samples,
        bytes: usize,
        level: &MemoryLevel,
        levels: &[MemoryLevel],
        seed: u64,
    ) -> Option<Histogram> {
        if samples.singles.len() < LEAST_SINGLES {
            return None;
        }
        let (step, unit) = (self.step_ns(), self.ns_per_unit());
        let quiet = samples.quiet();
        let means: Vec<f64> = quiet.iter().filter_map(|w| w.empty(step / unit)).collect();
        let bias = median_interval(&means, CONFIDENCE).scale(unit);
        let chains = quiet.iter().flat_map(|w| w.samples.iter().map(|s| (s.0, f64::from(s.1))));
        let chains: Vec<(u32, f64)> = chains.collect();
        let singles: Vec<f64> = samples.singles.iter().map(|ticks| ticks * unit).collect();
        let bins = single::histogram(&singles, bias.value, step, MOST_BINS);
        // A mode is known to within the timer step and the uncertainty of the subtracted overhead.
        let off = (bias.high - bias.value).max(bias.value - bias.low).max(0.0);
        let modes = single::modes(&bins).into_iter().map(|mode| Mode {
            name: name_of(mode.at, level, levels, step).map(str::to_owned),
            ns: mode.at,
            low_ns: Some((mode.at - step / 2.0 - off).max(0.0)),
            high_ns: Some(mode.at + step / 2.0 + off),
            share: mode.share,
        });
        let modes = modes.collect();
        let method = "slope of the time against the number of loads (1, 2, 4, ...)";
        let slope_ns = match single::slope(&chains, CONFIDENCE, seed) {
            Some(slope) => Figure::number("ns", slope.scale(unit), Tier::Sw, method),
            None => Figure::absent(
                "ns",
                Tier::Sw,
                method,
                "the thread was preempted in every window; measure again",
            ),
        };
        Some(Histogram {
            bytes: bytes as u64,
            level: Some(level.name.clone()),
            samples: bins.iter().map(|bin| bin.count).sum(),
            bias_ns: Figure::number(
                "ns",
                bias,
                Tier::Sw,
                "back-to-back clock reads without a load in between",
            ),
            bins,
            modes,
            slope_ns,
        })
    }
}

/// Walks the chain to bring it into its level, and estimates the latency there in ns.
fn warm_up(bench: &Bench<'_>, chain: &Chain<'_>, cursor: &mut Cursor, until: Instant) -> f64 {
    let mut left = 2 * chain.len() as u64;
    let mut fastest = f64::INFINITY;
    while left > 0 && Instant::now() < until && !bench.windows.is_stopped() {
        let mut loads = left.min(4096);
        left -= loads;
        let window = bench.windows.time(|| loads = chain.run(cursor, loads));
        fastest = fastest.min(window.ns / loads as f64);
    }
    if fastest.is_finite() { fastest } else { 1.0 }
}

/// Returns the number of loads in each sample of a round: 0, then powers of two until the loads
/// span [`STEPS`] clock ticks, then 1 in each of [`SINGLES`] samples.
fn round(step_ns: f64, load_ns: f64) -> Vec<u32> {
    let wanted = (STEPS * step_ns / load_ns.max(0.1)) as u32;
    let longest = wanted.next_power_of_two().clamp(LEAST_LONGEST, MOST_LONGEST);
    let lengths = std::iter::once(0).chain((0..=longest.ilog2()).map(|power| 1 << power));
    lengths.chain([1; SINGLES]).collect()
}

/// Timings in clock units.
#[derive(Default)]
struct Samples {
    /// Number of loads in each sample of a round.
    order: Vec<u32>,
    singles: Vec<f64>,
    /// Fastest windows so far.
    windows: Vec<Window>,
}

/// Rounds that were timed together.
struct Window {
    /// Mean time per round in ns.
    ns: f64,
    /// Number of loads and elapsed time of each sample.
    samples: Vec<(u32, u32)>,
}

impl Samples {
    fn add(&mut self, samples: &[(u32, u32)], ns: f64) {
        let singles = samples.iter().filter(|(loads, _)| *loads == 1).map(|s| f64::from(s.1));
        let room = MOST_SINGLES - self.singles.len();
        self.singles.extend(singles.take(room));
        self.windows.push(Window { ns, samples: samples.to_vec() });
        if self.windows.len() >= 4 * QUIET_WINDOWS {
            self.sort();
            self.windows.truncate(2 * QUIET_WINDOWS);
        }
    }

    fn sort(&mut self) {
        self.windows.sort_by(|a, b| a.ns.total_cmp(&b.ns));
    }

    /// Returns the fastest windows, which are the quietest because interference only adds time.
    fn quiet(&mut self) -> &[Window] {
        self.sort();
        let quiet = QUIET_WINDOWS.min(self.windows.len());
        &self.windows[..quiet]
    }
}

impl Window {
    /// Returns the mean time of samples without loads, for a clock with this `step`.
    fn empty(&self, step: f64) -> Option<f64> {
        let empty = self.samples.iter().filter(|(loads, _)| *loads == 0);
        trimmed_mean(&empty.map(|s| f64::from(s.1)).collect::<Vec<f64>>(), step)
    }
}

/// Returns the mean time between two back-to-back reads, for a clock with this `step`. Values above
/// twice the median plus two steps come from interrupted reads and are excluded. `None` if there
/// are no values.
fn trimmed_mean(values: &[f64], step: f64) -> Option<f64> {
    let most = 2.0 * (quantile(values, 0.5)? + step);
    let kept: Vec<f64> = values.iter().copied().filter(|&value| value <= most).collect();
    Some(kept.iter().sum::<f64>() / kept.len() as f64)
}

/// Returns the level that served a single load of `ns`, timed by a clock with this step: the only
/// level whose latency is close enough. If several levels are close enough, returns the chain's own
/// level `own` if it is among them, otherwise `None`.
fn name_of<'a>(
    ns: f64,
    own: &'a MemoryLevel,
    levels: &'a [MemoryLevel],
    step: f64,
) -> Option<&'a str> {
    let distance = |level: &MemoryLevel| Some((level.latency_ns.as_number()? - ns).abs());
    let can_be = |level: &&MemoryLevel| {
        let latency = level.latency_ns.as_number().unwrap_or(f64::NAN);
        distance(level).is_some_and(|distance| distance <= (SAME * latency).max(step / 2.0))
    };
    let fitting: Vec<&MemoryLevel> = levels.iter().filter(can_be).collect();
    match fitting[..] {
        [] => None,
        [level] => Some(&level.name),
        _ => fitting.iter().find(|level| level.name == own.name).map(|level| level.name.as_str()),
    }
}

#[cfg(test)]
mod tests;
