// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models the miss ratio of a pointer chain that outgrows a cache, by kind of cache.
//!
//! A chase visits the same lines in the same order in every round, so every set of a cache sees its
//! own lines cyclically. Its misses depend only on the number of these lines (`n`), the number of
//! ways (`W`) and the replacement policy:
//!
//! - least recently used: nothing misses as long as `n <= W`, and everything misses beyond that;
//! - random: between two loads of a line, there are `n - 1` other loads. A fraction `m` of them
//!   misses, and the line must survive these misses, where `m` is itself the unknown: `1 - m = (1 -
//!   1/W)^(m (n - 1))`. Misses come in bunches, which increases the miss ratio slightly: with
//!   `n - 0.33 - 0.17 n / W` instead of `n - 1` in the exponent, the result agrees with a
//!   simulation to within 0.004, for 4 ways and more;
//! - tree pseudo-LRU, where a tree of bits points to the victim (the usual approximation of LRU):
//!   every miss flips the bits on its path, so consecutive misses cycle through all ways, as with
//!   LRU.
//!
//! The number of lines per set depends on the index. Consecutive addresses (a cache indexed by
//! virtual addresses, or by physical ones within a huge page) fill the sets evenly. Pages scattered
//! over colours and lines scattered by a hash fill them like a Poisson process. The miss ratio of a
//! chain of `x` times the capacity is the average over the sets, weighted by their lines.
//!
//! A curve therefore shows no sharp step, and half of the loads miss at a size other than the
//! capacity: at 0.92 times the capacity with 4 ways and scattered lines, at 1.39 times with random
//! replacement. In every shape, the capacity is at `x = 1`.
//!
//! Not modelled: adaptive policies, whose miss ratios are between those of the policies above, and
//! prefetching, which the chase order defeats.

use std::sync::OnceLock;

/// Which line a cache replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// The least recently used line, exactly or approximately.
    Lru,
    /// A random line.
    Random,
}

/// How a chain's lines are distributed over the sets of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// All sets have the same number of lines, give or take one.
    Even,
    /// The number of lines per set is Poisson-distributed.
    Scattered,
}

/// ln(size / capacity) at which the tables for scattered shapes begin.
const FROM: f64 = -3.0;
/// Spacing of the table's entries, in ln(size / capacity).
const STEP: f64 = 0.02;
/// Number of entries in the table. Beyond the last one, nearly every load misses.
const ENTRIES: usize = 401;

/// How the miss ratio climbs with the chain's size, for one kind of cache.
pub(crate) struct Shape {
    pub(crate) spread: Spread,
    pub(crate) policy: Policy,
    pub(crate) ways: usize,
    /// Miss ratio of a set, indexed by its number of lines.
    of_set: Vec<f64>,
    /// For scattered shapes, the miss ratio as a function of ln(size / capacity).
    table: Vec<f64>,
    /// ln(size / capacity) at which half of the loads miss.
    pub(crate) half: f64,
}

impl Shape {
    fn new(spread: Spread, policy: Policy, ways: usize) -> Shape {
        let of_set = (0..=8 * ways).map(|lines| missed_by_set(policy, ways, lines)).collect();
        let mut shape = Shape { spread, policy, ways, of_set, table: Vec::new(), half: 0.0 };
        if spread == Spread::Scattered {
            let sizes = (0..ENTRIES).map(|i| (FROM + STEP * i as f64).exp());
            shape.table = sizes.map(|x| shape.scattered(x)).collect();
        }
        shape.half = shape.find_half();
        shape
    }

    /// Returns the fraction of loads that miss if the chain is `exp(ln_ratio)` times as large as
    /// the cache.
    pub(crate) fn missed(&self, ln_ratio: f64) -> f64 {
        match self.spread {
            Spread::Even if ln_ratio <= 0.0 => 0.0,
            Spread::Even => self.even(ln_ratio.exp()),
            Spread::Scattered => {
                let place = ((ln_ratio - FROM) / STEP).clamp(0.0, (ENTRIES - 1) as f64);
                let below = (place as usize).min(ENTRIES - 2);
                let share = place - below as f64;
                self.table[below] * (1.0 - share) + self.table[below + 1] * share
            }
        }
    }

    fn set(&self, lines: usize) -> f64 {
        self.of_set.get(lines).copied().unwrap_or(1.0)
    }

    /// Returns the miss ratio if every set has `x` times as many lines as ways. The number of lines
    /// is rounded down in some sets and up in others, so that the total is right.
    fn even(&self, x: f64) -> f64 {
        let lines = x * self.ways as f64;
        let (fewer, more) = (lines.floor(), lines - lines.floor());
        let n = fewer as usize;
        ((1.0 - more) * fewer * self.set(n) + more * (fewer + 1.0) * self.set(n + 1)) / lines
    }

    /// Returns the miss ratio if lines per set are Poisson-distributed, in which case `n - 1`, the
    /// number of other lines sharing a line's set, has the same distribution.
    fn scattered(&self, x: f64) -> f64 {
        let mean = x * self.ways as f64;
        // e^-mean loses all precision long before it reaches 0; with this many lines, all loads
        // miss.
        if mean > 500.0 {
            return self.set(mean as usize);
        }
        let most = (mean + 8.0 * mean.sqrt() + 8.0) as usize;
        let mut probability = (-mean).exp();
        let mut missed = 0.0;
        for others in 0..most {
            missed += probability * self.set(others + 1);
            probability *= mean / (others + 1) as f64;
        }
        missed.min(1.0)
    }

    fn find_half(&self) -> f64 {
        let (mut low, mut high) = (FROM, FROM + STEP * ENTRIES as f64);
        while high - low > 1e-4 {
            let middle = (low + high) / 2.0;
            if self.missed(middle) < 0.5 { low = middle } else { high = middle }
        }
        (low + high) / 2.0
    }
}

fn missed_by_set(policy: Policy, ways: usize, lines: usize) -> f64 {
    if lines <= ways {
        return 0.0;
    }
    match policy {
        Policy::Lru => 1.0,
        Policy::Random => missed_at_random(ways, lines),
    }
}

/// Returns the positive fixed point of `1 - m = (1 - 1/W)^(m (n - a))`. The difference between both
/// sides is concave in `m` and 0 at `m = 0`, so it changes sign once.
fn missed_at_random(ways: usize, lines: usize) -> f64 {
    let (ways, lines) = (ways as f64, lines as f64);
    let bunches = 0.33 + 0.17 * lines / ways;
    let decay = (1.0 - 1.0 / ways).ln() * (lines - bunches);
    let (mut low, mut high) = (1e-9, 1.0);
    for _ in 0..50 {
        let missed: f64 = (low + high) / 2.0;
        if 1.0 - missed > (decay * missed).exp() { low = missed } else { high = missed }
    }
    (low + high) / 2.0
}

/// Candidate shapes. Way counts between those listed are omitted because curves cannot distinguish
/// them.
const KINDS: [(Spread, Policy, usize); 19] = [
    (Spread::Even, Policy::Lru, 2),
    (Spread::Even, Policy::Lru, 4),
    (Spread::Even, Policy::Lru, 8),
    (Spread::Even, Policy::Lru, 12),
    (Spread::Even, Policy::Lru, 16),
    (Spread::Even, Policy::Random, 4),
    (Spread::Even, Policy::Random, 8),
    (Spread::Even, Policy::Random, 16),
    (Spread::Scattered, Policy::Lru, 2),
    (Spread::Scattered, Policy::Lru, 4),
    (Spread::Scattered, Policy::Lru, 6),
    (Spread::Scattered, Policy::Lru, 8),
    (Spread::Scattered, Policy::Lru, 12),
    (Spread::Scattered, Policy::Lru, 16),
    (Spread::Scattered, Policy::Lru, 24),
    (Spread::Scattered, Policy::Lru, 64),
    (Spread::Scattered, Policy::Random, 4),
    (Spread::Scattered, Policy::Random, 8),
    (Spread::Scattered, Policy::Random, 16),
];

/// Returns all shapes, computed once.
pub(crate) fn shapes() -> &'static [Shape] {
    static SHAPES: OnceLock<Vec<Shape>> = OnceLock::new();
    SHAPES.get_or_init(|| KINDS.iter().map(|&(s, p, w)| Shape::new(s, p, w)).collect())
}

#[cfg(test)]
mod tests {
    use super::{ENTRIES, FROM, Policy, STEP, Shape, Spread, missed_at_random, shapes};

    /// Simulates a set with random replacement, load by load.
    fn simulated(ways: usize, lines: usize) -> f64 {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut held: Vec<usize> = (0..ways).collect();
        let (mut missed, rounds, settling) = (0, 3000, 100);
        for load in 0..rounds * lines {
            let line = load % lines;
            if !held.contains(&line) {
                held[rng.usize(0..ways)] = line;
                missed += usize::from(load >= settling * lines);
            }
        }
        missed as f64 / ((rounds - settling) * lines) as f64
    }

    #[test]
    fn the_fixed_point_is_what_random_replacement_does() {
        for (ways, lines) in [(4, 5), (4, 8), (8, 9), (8, 12), (16, 17), (16, 24)] {
            let (fixed, simulated) = (missed_at_random(ways, lines), simulated(ways, lines));
            assert!((fixed - simulated).abs() < 0.015, "{ways} {lines}: {fixed} {simulated}");
        }
    }

    #[test]
    fn nothing_misses_far_below_the_capacity_and_everything_far_beyond() {
        for shape in shapes() {
            assert!(shape.missed(-2.9) < 0.01, "{:?} {:?}", shape.policy, shape.ways);
            assert!(shape.missed(3.0) > 0.99, "{:?} {:?}", shape.policy, shape.ways);
            let of = |i: usize| shape.missed(FROM + STEP * i as f64);
            assert!((1..ENTRIES).all(|i| of(i) >= of(i - 1) - 1e-3));
            assert!((shape.missed(shape.half) - 0.5).abs() < 0.01);
        }
    }

    #[test]
    fn pages_on_colours_miss_as_if_thrown() {
        let shape = Shape::new(Spread::Scattered, Policy::Lru, 8);
        let (colours, pages) = (64, 8 * 64);
        let mut rng = fastrand::Rng::with_seed(2);
        let mut missed = 0;
        for _ in 0..400 {
            let mut held = vec![0; colours];
            (0..pages).for_each(|_| held[rng.usize(0..colours)] += 1);
            missed += held.iter().filter(|held| **held > 8).sum::<usize>();
        }
        let thrown = missed as f64 / (400 * pages) as f64;
        assert!((shape.missed(0.0) - thrown).abs() < 0.02, "{} {thrown}", shape.missed(0.0));
    }

    #[test]
    fn an_edge_begins_at_the_capacity_and_ends_a_way_later() {
        let shape = Shape::new(Spread::Even, Policy::Lru, 8);
        assert_eq!(shape.missed(0.0), 0.0);
        assert!((shape.missed((9.0_f64 / 8.0).ln()) - 1.0).abs() < 1e-9);
        // The chain exceeds the capacity by half a way: half of the sets have 9 lines, the others
        // 8.
        let half = shape.missed((8.5_f64 / 8.0).ln());
        assert!((half - 9.0 / 17.0).abs() < 1e-9, "{half}");
    }
}
