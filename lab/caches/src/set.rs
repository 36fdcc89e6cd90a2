// SPDX-License-Identifier: MIT OR Apache-2.0
//! One set of a cache: replacement, and how often lines that take turns are found in it.

use crate::machine::Policy;
use fastrand::Rng;

/// A set: the lines in its ways and what its policy remembers.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    /// [`Policy::Lru`]: least recently used first; else in order of the ways.
    ways: Vec<Option<u64>>,
    policy: Policy,
    /// [`Policy::TreePlru`]: nodes in heap order, bit `i` for node `i`, root 1. Set: go right.
    tree: u64,
}

impl Set {
    /// An empty set.
    pub(crate) fn new(ways: u32, policy: Policy) -> Self {
        Self { ways: vec![None; ways as usize], policy, tree: 0 }
    }

    /// Looks for a line and marks it as used.
    pub(crate) fn touch(&mut self, line: u64) -> bool {
        let Some(way) = self.way_of(Some(line)) else { return false };
        self.mark(way);
        true
    }

    /// Takes a line in that it does not hold; the line that makes room.
    pub(crate) fn insert(&mut self, line: u64, rng: &mut Rng) -> Option<u64> {
        let way = self.way_of(None).unwrap_or_else(|| match self.policy {
            Policy::Lru => 0,
            Policy::TreePlru => self.pointed_at(),
            Policy::Random => rng.usize(0..self.ways.len()),
        });
        let evicted = self.ways[way].replace(line);
        self.mark(way);
        evicted
    }

    /// Takes a line out.
    pub(crate) fn remove(&mut self, line: u64) -> bool {
        let Some(way) = self.way_of(Some(line)) else { return false };
        self.ways[way] = None;
        true
    }

    fn way_of(&self, line: Option<u64>) -> Option<usize> {
        self.ways.iter().position(|held| *held == line)
    }

    fn mark(&mut self, way: usize) {
        match self.policy {
            Policy::Lru => self.ways[way..].rotate_left(1),
            Policy::TreePlru => self.point_away(way),
            Policy::Random => {}
        }
    }

    fn point_away(&mut self, way: usize) {
        let mut node = self.ways.len() + way;
        while node > 1 {
            let parent = node / 2;
            let bit = 1 << parent;
            // A left child has an even number.
            self.tree = if node % 2 == 0 { self.tree | bit } else { self.tree & !bit };
            node = parent;
        }
    }

    fn pointed_at(&self) -> usize {
        let mut node = 1;
        while node < self.ways.len() {
            node = 2 * node + usize::from((self.tree >> node) & 1 == 1);
        }
        node - self.ways.len()
    }
}

/// The share of hits when `lines` lines of a set with so many `ways` are loaded in turn, for ever.
///
/// They all stay if there is a way for each. Else:
///
/// - [`Policy::Lru`] drops each line just before its next turn: none hits.
/// - [`Policy::Random`]: until its next turn a line survives the misses of all `lines`, each of
///   which drops it with probability 1 / `ways`: h = (1 - 1 / ways)^(lines (1 - h)), whose solution
///   below 1 is found by iteration from 0.
/// - [`Policy::TreePlru`] has no closed form and is simulated.
pub fn hit_rate(policy: Policy, ways: u32, lines: u64) -> f64 {
    if lines <= u64::from(ways) {
        return 1.0;
    }
    match policy {
        Policy::Lru => 0.0,
        Policy::Random => random_fixed_point(f64::from(ways), lines as f64),
        Policy::TreePlru => simulated(policy, ways, lines, &mut Rng::with_seed(0)),
    }
}

fn random_fixed_point(ways: f64, lines: f64) -> f64 {
    let survives_one = 1.0 - 1.0 / ways;
    let mut hits = 0.0;
    for _ in 0..100 {
        hits = survives_one.powf(lines * (1.0 - hits));
    }
    hits
}

/// Turns before the counting begins, by when the first fill is forgotten.
const WARM_TURNS: u32 = 16;
const COUNTED_TURNS: u32 = 32;

fn simulated(policy: Policy, ways: u32, lines: u64, rng: &mut Rng) -> f64 {
    let mut set = Set::new(ways, policy);
    let mut hits = 0_u32;
    for turn in 0..WARM_TURNS + COUNTED_TURNS {
        for line in 0..lines {
            if set.touch(line) {
                hits += u32::from(turn >= WARM_TURNS);
            } else {
                set.insert(line, rng);
            }
        }
    }
    f64::from(hits) / (f64::from(COUNTED_TURNS) * lines as f64)
}
