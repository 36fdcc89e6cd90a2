// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes curves by simulating the chase: every load is looked up in the sets.
//!
//! A load that hits in a cache inserts its line into the nearer inclusive caches. A line evicted
//! from a cache moves to the next one if that is a victim cache, otherwise it is dropped; lines
//! evicted from an inclusive cache are also invalidated in the nearer ones. A line that hits in a
//! victim cache is removed from it.
//!
//! The cost of address translation is computed as for [`analytic`](crate::analytic()).

use crate::curve::{Parts, Pass, Point, curve, passes};
use crate::machine::{Cache, Inclusion, Index, LINE_BYTES, Machine, Policy};
use crate::noise::Noise;
use crate::seed::mix;
use crate::set::Set;
use fastrand::Rng;

/// Lines in a box of 32 pages of 4 KiB, within which a page-local chase stays before moving on to
/// another box.
const BOX_LINES: u64 = 32 * 4096 / LINE_BYTES;

/// Computes the load latency in page-local chains of these sizes, for each of `passes`. The result
/// for a size depends only on the arguments, not on which other sizes are requested. Takes about
/// 100 ns per line and traversal, with up to nine traversals.
pub fn trace(
    machine: &Machine,
    bytes: &[u64],
    number_of_passes: u32,
    noise: &Noise,
    seed: u64,
) -> Vec<Point> {
    let longest = bytes.iter().copied().max().unwrap_or(0);
    let places = passes(machine, longest, number_of_passes, seed);
    curve(&places, bytes, noise, |pass| move |bytes| parts_ns(pass, bytes))
}

fn parts_ns(pass: &Pass, bytes: u64) -> Parts {
    let machine = &pass.machine;
    let frames = pass.frames(bytes);
    let mut simulated = Simulated::new(pass, &frames);
    let order = page_local(bytes / LINE_BYTES, &mut simulated.rng);
    let warm = warm_traversals(machine);
    let mut found = vec![0_u64; machine.caches.len() + 1];
    for traversal in 0..warm + COUNTED_TRAVERSALS {
        for line in &order {
            let level = simulated.load(*line);
            found[level] += u64::from(traversal >= warm);
        }
    }
    let loads = f64::from(COUNTED_TRAVERSALS) * order.len().max(1) as f64;
    let mut parts = [0.0; Noise::CLASSES];
    for (level, found) in found.iter().enumerate() {
        let (class, ns) = match machine.caches.get(level) {
            Some(cache) => (level.min(Noise::CLASSES - 2), cache.latency_ns),
            None => (Noise::CLASSES - 1, machine.memory_ns),
        };
        parts[class] += *found as f64 / loads * ns;
    }
    parts
}

const COUNTED_TRAVERSALS: u32 = 1;

/// Returns the number of traversals until the cache contents reach their steady state: with LRU one
/// per level, because a level settles one traversal after the previous one; tree and random
/// replacement take longer.
fn warm_traversals(machine: &Machine) -> u32 {
    let lru = machine.caches.iter().all(|cache| cache.policy == Policy::Lru);
    if lru { machine.caches.len() as u32 } else { 8 }
}

/// Returns a chain's lines in page-local chase order.
fn page_local(lines: u64, rng: &mut Rng) -> Vec<u64> {
    let mut boxes: Vec<u64> = (0..lines.div_ceil(BOX_LINES)).collect();
    rng.shuffle(&mut boxes);
    let mut order = Vec::with_capacity(lines as usize);
    for number in boxes {
        let from = order.len();
        order.extend(number * BOX_LINES..lines.min((number + 1) * BOX_LINES));
        rng.shuffle(&mut order[from..]);
    }
    order
}

/// Caches and their contents.
struct Simulated<'a> {
    stretch_lines: u64,
    frames: &'a [u64],
    levels: Vec<Level<'a>>,
    rng: Rng,
}

struct Level<'a> {
    cache: &'a Cache,
    sets: Vec<Set>,
}

impl<'a> Simulated<'a> {
    fn new(pass: &'a Pass, frames: &'a [u64]) -> Self {
        let level = |cache: &'a Cache| {
            let set = Set::new(cache.ways, cache.policy);
            Level { cache, sets: vec![set; cache.sets() as usize] }
        };
        let levels = pass.machine.caches.iter().map(level).collect();
        let stretch_lines = pass.machine.contiguous_bytes / LINE_BYTES;
        Self { stretch_lines, frames, levels, rng: Rng::with_seed(pass.seed) }
    }

    /// Loads a line, given its number in virtual memory. Returns the level in which it was found;
    /// the number of caches stands for memory.
    fn load(&mut self, line: u64) -> usize {
        let found = (0..self.levels.len()).find(|level| self.set(*level, line).touch(line));
        let found = found.unwrap_or(self.levels.len());
        if found < self.levels.len() && found > 0 && self.is_victim(found) {
            self.set(found, line).remove(line);
        }
        for level in (0..found).rev() {
            if !self.is_victim(level) {
                self.insert(level, line);
            }
        }
        found
    }

    /// Inserts a line into a cache, and handles the resulting evictions.
    fn insert(&mut self, level: usize, line: u64) {
        let set = self.set_of(level, line);
        let Some(dropped) = self.levels[level].sets[set].insert(line, &mut self.rng) else {
            return;
        };
        if !self.is_victim(level) {
            for before in 0..level {
                self.set(before, dropped).remove(dropped);
            }
        }
        if level + 1 < self.levels.len() && self.is_victim(level + 1) {
            self.insert(level + 1, dropped);
        }
    }

    fn is_victim(&self, level: usize) -> bool {
        level > 0 && self.levels[level].cache.inclusion == Inclusion::Victim
    }

    fn set(&mut self, level: usize, line: u64) -> &mut Set {
        let set = self.set_of(level, line);
        &mut self.levels[level].sets[set]
    }

    fn set_of(&self, level: usize, line: u64) -> usize {
        let Level { cache, sets } = &self.levels[level];
        let stretch = self.stretch_lines;
        let physical = self.frames[(line / stretch) as usize] * stretch + line % stretch;
        let number = match cache.index {
            Index::Virtual => line,
            Index::Physical => physical,
            Index::Hashed => mix(level as u64, physical),
        };
        (number % sets.len() as u64) as usize
    }
}
