// SPDX-License-Identifier: MIT OR Apache-2.0
//! One set of a cache: replacement, and how often lines that take turns are found in it.

use crate::machine::Policy;
use fastrand::Rng;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

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

/// The hit ratio when `lines` lines of a set with this many `ways` are loaded cyclically.
///
/// They all stay if there is a way for each. Else:
///
/// - [`Policy::Lru`] drops each line just before its next turn: none hits.
/// - [`Policy::TreePlru`]: as long as all loads miss, each turns the bits on its path around, so
///   that the halves of every part of the tree make room in turn, and a line stays for as many
///   misses as there are ways. Its next turn comes later: none hits.
/// - [`Policy::Random`] has no closed form but for one line too many, where the line that is out is
///   one of `ways` others with equal chance, so that there are 2 misses in `ways` + 1 loads. It is
///   simulated, to within 0.02.
pub fn hit_rate(policy: Policy, ways: u32, lines: u64) -> f64 {
    if lines <= u64::from(ways) {
        return 1.0;
    }
    match policy {
        Policy::Lru | Policy::TreePlru => 0.0,
        Policy::Random => simulated(policy, ways, lines),
    }
}

/// Turns before the counting begins, by when the first fill is forgotten.
const WARM_TURNS: u64 = 16;
/// Loads that are counted: the spread of a share of as many, were they independent, is at most
/// 0.5 / sqrt(8192) = 0.006.
const COUNTED_LOADS: u64 = 8192;

fn simulated(policy: Policy, ways: u32, lines: u64) -> f64 {
    let mut rng = Rng::with_seed(lines);
    let mut set = Set::new(ways, policy);
    let counted_turns = COUNTED_LOADS.div_ceil(lines);
    let mut hits = 0_u64;
    for turn in 0..WARM_TURNS + counted_turns {
        for line in 0..lines {
            if set.touch(line) {
                hits += u64::from(turn >= WARM_TURNS);
            } else {
                set.insert(line, &mut rng);
            }
        }
    }
    hits as f64 / (counted_turns * lines) as f64
}

/// By policy and ways.
type Tables = BTreeMap<(Policy, u32), Arc<[f64]>>;

/// [`hit_rate`] for 0 up to [`TABLED_PER_WAY`] lines per way; computed once for each kind of set.
pub(crate) fn hit_rates(policy: Policy, ways: u32) -> Arc<[f64]> {
    static TABLES: Mutex<Tables> = Mutex::new(Tables::new());
    let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
    let table = tables.entry((policy, ways)).or_insert_with(|| {
        let most = TABLED_PER_WAY * u64::from(ways);
        (0..=most).map(|lines| hit_rate(policy, ways, lines)).collect()
    });
    Arc::clone(table)
}

/// Beyond as many lines per way nothing hits: the last of random replacement are e^-6.
const TABLED_PER_WAY: u64 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(policy: Policy, ways: u32, lines: &[u64]) -> Vec<bool> {
        let mut rng = Rng::with_seed(0);
        let mut set = Set::new(ways, policy);
        let mut load = |line: &u64| {
            let hit = set.touch(*line);
            if !hit {
                set.insert(*line, &mut rng);
            }
            hit
        };
        lines.iter().map(&mut load).collect()
    }

    /// By hand: 1 2, then 1 again makes 2 the oldest, which 3 drops.
    #[test]
    fn least_recently_used() {
        assert_eq!(
            hits(Policy::Lru, 2, &[1, 2, 1, 3, 1, 2]),
            [false, false, true, false, true, false]
        );
    }

    /// By hand, 4 ways: 1 2 3 4 fill; 4 came last, so both halves' bits point to 1; 1 is used, so
    /// the root points right, whose bit points to 3: 5 drops 3, though 2 is older.
    #[test]
    fn tree_of_bits() {
        let loads = [1, 2, 3, 4, 1, 5, 2, 4, 3];
        let expected = [false, false, false, false, true, false, true, true, false];
        assert_eq!(hits(Policy::TreePlru, 4, &loads), expected);
    }

    #[test]
    fn room_that_was_made_is_taken_first() {
        for policy in [Policy::Lru, Policy::TreePlru, Policy::Random] {
            let mut rng = Rng::with_seed(0);
            let mut set = Set::new(4, policy);
            for line in 0..4 {
                assert_eq!(set.insert(line, &mut rng), None);
            }
            assert!(set.remove(2) && !set.remove(2));
            assert_eq!(set.insert(9, &mut rng), None);
            assert!([0, 1, 3, 9].into_iter().all(|line| set.touch(line)), "{policy:?}");
        }
    }

    #[test]
    fn lines_that_fit_always_hit_and_least_recently_used_never_else() {
        for policy in [Policy::Lru, Policy::TreePlru, Policy::Random] {
            assert_eq!(hit_rate(policy, 8, 8), 1.0);
        }
        assert_eq!(hit_rate(Policy::Lru, 8, 9), 0.0);
    }

    /// One line too many: misses 2 times in ways + 1, by the chain of its states.
    #[test]
    fn random_replacement_with_one_line_too_many() {
        for ways in [2, 4, 8, 16] {
            let expected = 1.0 - 2.0 / (f64::from(ways) + 1.0);
            let found = hit_rate(Policy::Random, ways, u64::from(ways) + 1);
            assert!((found - expected).abs() < 0.02, "{ways} ways: {found}, not {expected}");
        }
    }

    /// Many ways: h = exp(-lines / ways (1 - h)), by iteration.
    #[test]
    fn random_replacement_in_large_sets() {
        for per_way in [2, 3, 4] {
            let mut expected = 0.0_f64;
            for _ in 0..1000 {
                expected = (-f64::from(per_way) * (1.0 - expected)).exp();
            }
            let found = hit_rate(Policy::Random, 64, 64 * per_way as u64);
            assert!((found - expected).abs() < 0.02, "{per_way}: {found}, not {expected}");
        }
    }

    #[test]
    fn tree_plru_is_not_better_than_lru_for_cyclic_access() {
        for lines in 9..40 {
            assert_eq!(simulated(Policy::TreePlru, 8, lines), 0.0);
        }
    }
}
