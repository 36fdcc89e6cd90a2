// SPDX-License-Identifier: MIT OR Apache-2.0
//! Curves from probabilities: how many lines share a set, and how many of them stay.
//!
//! A chase loads every line once per traversal and in the same order each time, so what a set does
//! depends on nothing but the number of lines that take turns in it
//! ([`hit_rate`](crate::hit_rate)). That number:
//!
//! - [`Index::Virtual`], and physical indices within a contiguous stretch: the same for all sets,
//!   give or take one;
//! - [`Index::Physical`]: stretches have random colours, redrawn for each pass;
//! - [`Index::Hashed`]: Poisson around the mean, for there are many sets.
//!
//! A cache sees the loads that missed in those before it. A victim cache holds none of the lines
//! that the cache before it holds now, so fewer take turns in its sets: what circulates, less what
//! of it is at the other place.
//!
//! Limits: misses of two levels are taken as independent within a stretch, and replacement within
//! the holes that a victim cache leaves as even; the tests compare with [`trace`](crate::trace()).

use crate::curve::{Parts, Pass, Point, curve, passes};
use crate::machine::{Cache, Inclusion, Index, LINE_BYTES, Machine};
use crate::noise::Noise;
use crate::set::hit_rates;
use std::sync::Arc;

/// The time of a load in page-local chains of these sizes, for each of `passes`. The same arguments
/// give the same times, whatever other sizes are requested.
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

/// A cache and what its sets do, by the lines that take turns.
struct Level {
    cache: Cache,
    /// Stretches that cover all sets once; 1 where a single one does.
    colours: u64,
    /// [`hit_rate`] from 0 lines; what is beyond the end is as good as the end.
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

    /// Hit ratio with this many lines in rotation; linear between two integers.
    fn rate(&self, lines: f64) -> f64 {
        let last = self.rates.len() - 1;
        let below = (lines.max(0.0) as usize).min(last);
        let above = (below + 1).min(last);
        let share = (lines - below as f64).clamp(0.0, 1.0);
        self.rates[below] * (1.0 - share) + self.rates[above] * share
    }

    /// Outcome of the lines of each stretch.
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

    /// Outcome of a line with this many in rotation; linear between two integers.
    fn fate(&self, lines: f64) -> Fate {
        let out = (1.0 - f64::from(self.cache.ways) / lines.max(1.0)).max(0.0);
        Fate { hits: self.rate(lines), out }
    }

    /// All sets have the same number, plus or minus one, of `lines` in total.
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

    /// A line shares its set with a random number of `lines`: Poisson.
    fn hashed(&self, lines: f64) -> Fate {
        let mean = lines / self.cache.sets() as f64;
        if mean == 0.0 {
            return self.fate(0.0);
        }
        // Values further from the mean are negligible, or have no hits.
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

    /// By the lines of each stretch that may be here.
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

/// Outcome of a line in a cache.
#[derive(Clone, Copy)]
struct Fate {
    /// Hit ratio of the loads that reach it.
    hits: f64,
    /// The share of the time that it is not there.
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
    // For each stretch: the share of its loads that reach this cache, and of its lines that are in
    // none of the previous caches.
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

/// Lines of each of the stretches of a chain; the last may be cut short.
fn lines_of_stretches(contiguous_bytes: u64, bytes: u64) -> Vec<f64> {
    let whole = bytes / contiguous_bytes;
    let mut lines = vec![(contiguous_bytes / LINE_BYTES) as f64; whole as usize];
    let rest = bytes % contiguous_bytes / LINE_BYTES;
    if rest > 0 || whole == 0 {
        lines.push(rest.max(1) as f64);
    }
    lines
}
