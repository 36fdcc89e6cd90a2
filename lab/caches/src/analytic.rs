// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes curves from probabilities: how many lines share a cache set, and how many of them stay
//! in it.
//!
//! A chase loads every line once per traversal and always in the same order, so a set's behaviour
//! depends only on the number of its lines, which are loaded cyclically
//! ([`hit_rate`](crate::hit_rate)). This number depends on the index function:
//!
//! - [`Index::Virtual`], and physical indices within contiguous physical memory: the same for all
//!   sets, give or take one;
//! - [`Index::Physical`]: contiguous stretches of memory have random page colours, redrawn for each
//!   pass;
//! - [`Index::Hashed`]: Poisson-distributed, because there are many sets.
//!
//! A cache receives the loads that missed in the nearer caches. A victim cache does not contain the
//! lines currently held by the previous cache, so fewer lines compete for its sets.
//!
//! Approximations: misses in two levels are assumed to be independent within a stretch, and
//! replacement among the gaps in a victim cache is assumed to be uniform. The tests compare the
//! results with [`trace`](crate::trace()).

use crate::curve::{Parts, Pass, Point, curve, passes};
use crate::machine::{Cache, Inclusion, Index, LINE_BYTES, Machine};
use crate::noise::Noise;
use crate::set::hit_rates;
use std::sync::Arc;

/// Computes the load latency in page-local chains of these sizes, for each of `passes`. The result
/// for a size depends only on the arguments, not on which other sizes are requested.
pub fn analytic(
    machine: &Machine,
    bytes: &[u64],
    number_of_passes: u32,
    noise: &Noise,
    seed: u64,
) -> Vec<Point> {
    let longest = bytes.iter().copied().max().unwrap_or(0);
    let places = passes(machine, longest, number_of_passes, seed);
    curve(&places, bytes, noise, |pass| {
        let levels: Vec<Level> =
            pass.machine.caches.iter().map(|cache| Level::new(cache, machine)).collect();
        move |bytes| parts_ns(pass, &levels, bytes)
    })
}

/// A cache, and its sets' hit ratio by number of lines.
struct Level {
    cache: Cache,
    /// Page colours, i.e. contiguous stretches that cover all sets once; 1 if placement is not
    /// random.
    colours: u64,
    /// [`hit_rate`] by number of lines, starting at 0. The last entry applies to all larger
    /// numbers.
    rates: Arc<[f64]>,
}

impl Level {
    fn new(cache: &Cache, machine: &Machine) -> Self {
        let way_bytes = cache.sets() * LINE_BYTES;
        let colours = match cache.index {
            Index::Physical => way_bytes.div_ceil(machine.contiguous_bytes),
            Index::Virtual | Index::Hashed => 1,
        };
        let rates = hit_rates(cache.policy, cache.ways);
        Self { cache: cache.clone(), colours, rates }
    }

    /// Returns the hit ratio of a set with this many lines, interpolated linearly between integers.
    fn rate(&self, lines: f64) -> f64 {
        let last = self.rates.len() - 1;
        let below = (lines.max(0.0) as usize).min(last);
        let above = (below + 1).min(last);
        let share = (lines - below as f64).clamp(0.0, 1.0);
        self.rates[below] * (1.0 - share) + self.rates[above] * share
    }

    /// Returns the hit and miss probabilities for each stretch's lines.
    fn fates(&self, frames: &[u64], lines: &[f64], may_be_here: &[f64]) -> Vec<Fate> {
        if self.colours > 1 {
            return self.colours(frames, lines, may_be_here);
        }
        let candidates = lines.iter().zip(may_be_here).map(|(lines, share)| lines * share).sum();
        let fate = match self.cache.index {
            Index::Hashed => self.hashed(candidates),
            Index::Virtual | Index::Physical => self.even(candidates),
        };
        vec![fate; lines.len()]
    }

    /// Returns the probabilities for a line in a set with this many lines, interpolated linearly
    /// between integers.
    fn fate(&self, lines: f64) -> Fate {
        let out = (1.0 - f64::from(self.cache.ways) / lines.max(1.0)).max(0.0);
        Fate { hits: self.rate(lines), out }
    }

    /// Returns the probabilities if `lines` lines are distributed evenly over all sets, to within
    /// one.
    fn even(&self, lines: f64) -> Fate {
        if lines == 0.0 {
            return self.fate(0.0);
        }
        let sets = self.cache.sets() as f64;
        let each = (lines / sets).floor();
        let one_more = (lines / sets - each) * (each + 1.0) / (lines / sets);
        let (more, fewer) = (self.fate(each + 1.0), self.fate(each));
        more.scaled(one_more).plus(fewer.scaled(1.0 - one_more))
    }

    /// Returns the probabilities if the number of other lines in a line's set is
    /// Poisson-distributed.
    fn hashed(&self, lines: f64) -> Fate {
        let mean = lines / self.cache.sets() as f64;
        if mean == 0.0 {
            return self.fate(0.0);
        }
        // Values further from the mean have a negligible probability.
        let width = 8.0 * mean.sqrt() + 8.0;
        let (from, to) = ((mean - width).max(0.0) as u64, (mean + width) as u64);
        let mut log_p = -mean + (1..=from).map(|k| (mean / k as f64).ln()).sum::<f64>();
        let mut fate = Fate { hits: 0.0, out: 0.0 };
        for others in from..=to {
            fate = fate.plus(self.fate(others as f64 + 1.0).scaled(log_p.exp()));
            log_p += (mean / (others as f64 + 1.0)).ln();
        }
        fate
    }

    /// Returns each stretch's probabilities, from the lines of all stretches with the same page
    /// colour. `may_be_here` is the fraction of each stretch's lines that compete for this cache.
    fn colours(&self, frames: &[u64], lines: &[f64], may_be_here: &[f64]) -> Vec<Fate> {
        let mut in_colour = vec![0.0; self.colours as usize];
        let colour = |frame: u64| (frame % self.colours) as usize;
        let candidates = || lines.iter().zip(may_be_here).map(|(lines, share)| lines * share);
        for (frame, lines) in frames.iter().zip(candidates()) {
            in_colour[colour(*frame)] += lines;
        }
        let sets = (self.cache.sets() / self.colours) as f64;
        let others = |frame: u64, own: f64| (in_colour[colour(frame)] - own) / sets;
        let own = frames.iter().zip(candidates());
        own.map(|(frame, own)| self.fate(others(*frame, own) + 1.0)).collect()
    }
}

/// Probabilities for a line in a cache.
#[derive(Clone, Copy)]
struct Fate {
    /// Hit ratio of the loads that reach this cache.
    hits: f64,
    /// Fraction of time during which the line is not in this cache.
    out: f64,
}

impl Fate {
    fn scaled(self, by: f64) -> Self {
        Self { hits: self.hits * by, out: self.out * by }
    }

    fn plus(self, other: Self) -> Self {
        Self { hits: self.hits + other.hits, out: self.out + other.out }
    }
}

fn parts_ns(pass: &Pass, levels: &[Level], bytes: u64) -> Parts {
    let lines = lines_of_stretches(pass.machine.contiguous_bytes, bytes);
    let frames = &*pass.frames(bytes);
    let all: f64 = lines.iter().sum();
    let mut parts = [0.0; Noise::CLASSES];
    // For each stretch: the fraction of its loads that reach this cache, and the fraction of its
    // lines that are in none of the nearer caches.
    let mut loads = vec![1.0; lines.len()];
    let mut out = vec![1.0; lines.len()];
    for (number, level) in levels.iter().enumerate() {
        if level.cache.inclusion == Inclusion::Inclusive {
            out.fill(1.0);
        }
        let fates = level.fates(frames, &lines, &out);
        let mut served = 0.0;
        for (stretch, fate) in fates.iter().enumerate() {
            served += lines[stretch] * loads[stretch] * fate.hits;
            loads[stretch] *= 1.0 - fate.hits;
            out[stretch] *= fate.out;
        }
        parts[number.min(Noise::CLASSES - 2)] += served / all * level.cache.latency_ns;
    }
    let missed: f64 = lines.iter().zip(&loads).map(|(lines, loads)| lines * loads).sum();
    parts[Noise::CLASSES - 1] += missed / all * pass.machine.memory_ns;
    parts
}

/// Returns the number of lines in each stretch of a chain; the last stretch may be shorter.
fn lines_of_stretches(contiguous_bytes: u64, bytes: u64) -> Vec<f64> {
    let whole = bytes / contiguous_bytes;
    let mut lines = vec![(contiguous_bytes / LINE_BYTES) as f64; whole as usize];
    let rest = bytes % contiguous_bytes / LINE_BYTES;
    if rest > 0 || whole == 0 {
        lines.push(rest.max(1) as f64);
    }
    lines
}
