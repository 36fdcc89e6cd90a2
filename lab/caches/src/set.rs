// SPDX-License-Identifier: MIT OR Apache-2.0
//! One cache set: its replacement policy, and the hit ratio of cyclically loaded lines.

use crate::machine::Policy;
use fastrand::Rng;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A set: the lines in its ways, and its replacement policy's state.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    /// Lines by way; least recently used first for [`Policy::Lru`].
    ways: Vec<Option<u64>>,
    policy: Policy,
    /// For [`Policy::TreePlru`]: tree nodes in heap order, bit `i` for node `i`, root 1. If set,
    /// the victim is to the right.
    tree: u64,
}

impl Set {
    /// Creates an empty set.
    pub(crate) fn new(ways: u32, policy: Policy) -> Self {
        Self { ways: vec![None; ways as usize], policy, tree: 0 }
    }

    /// Marks a line as used. Returns `false` if the set does not hold it.
    pub(crate) fn touch(&mut self, line: u64) -> bool {
        let Some(way) = self.way_of(Some(line)) else { return false };
        self.mark(way);
        true
    }

    /// Inserts a line that the set does not hold, and returns the line that it evicts, if any.
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

    /// Removes a line. Returns `false` if the set does not hold it.
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
            // Left children have even numbers.
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

/// Returns the hit ratio when `lines` lines are loaded cyclically into a set with `ways` ways.
///
/// If there is a way for each line, all loads hit. Otherwise:
///
/// - [`Policy::Lru`] evicts each line just before its next load, so no load hits.
/// - [`Policy::TreePlru`]: as long as all loads miss, each miss flips the bits on its path, so that
///   the subtrees of every node are used alternately, and a line stays for as many misses as there
///   are ways. Its next load comes later, so no load hits.
/// - [`Policy::Random`] has no closed form, except for one line too many: the missing line is any
///   of the `ways` others with equal probability, which gives 2 misses in `ways` + 1 loads. The
///   ratio is simulated, to within 0.02.
pub fn hit_rate(policy: Policy, ways: u32, lines: u64) -> f64 {
    if lines <= u64::from(ways) {
        return 1.0;
    }
    match policy {
        Policy::Lru | Policy::TreePlru => 0.0,
        Policy::Random => simulated(policy, ways, lines),
    }
}

/// Traversals before counting begins, after which the initial fill no longer matters.
const WARM_TURNS: u64 = 16;
/// Loads counted. If they were independent, the standard deviation of the hit ratio would be at
/// most 0.5 / sqrt(8192) = 0.006.
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

/// Hit ratio tables by policy and number of ways.
type Tables = BTreeMap<(Policy, u32), Arc<[f64]>>;

/// Returns the table of [`hit_rate`] for 0 to [`TABLED_PER_WAY`] lines per way, computed once per
/// kind of set.
pub(crate) fn hit_rates(policy: Policy, ways: u32) -> Arc<[f64]> {
    static TABLES: Mutex<Tables> = Mutex::new(Tables::new());
    let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
    let table = tables.entry((policy, ways)).or_insert_with(|| {
        let most = TABLED_PER_WAY * u64::from(ways);
        (0..=most).map(|lines| hit_rate(policy, ways, lines)).collect()
    });
    Arc::clone(table)
}

/// Lines per way beyond which hits are negligible: e^-6 with random replacement.
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

    /// By hand: after 1, 2 and again 1, line 2 is the oldest, so 3 evicts it.
    #[test]
    fn least_recently_used() {
        assert_eq!(
            hits(Policy::Lru, 2, &[1, 2, 1, 3, 1, 2]),
            [false, false, true, false, true, false]
        );
    }

    /// By hand for 4 ways: 1, 2, 3, 4 fill the set; after 4, the bits in both levels point to 1;
    /// after using 1, the root points right, where the bit points to 3. So 5 evicts 3, although 2
    /// is older.
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

    /// One line too many: 2 misses in `ways` + 1 loads, from the Markov chain of the states.
    #[test]
    fn random_replacement_with_one_line_too_many() {
        for ways in [2, 4, 8, 16] {
            let expected = 1.0 - 2.0 / (f64::from(ways) + 1.0);
            let found = hit_rate(Policy::Random, ways, u64::from(ways) + 1);
            assert!((found - expected).abs() < 0.02, "{ways} ways: {found}, not {expected}");
        }
    }

    /// With many ways, compares with the fixed point of h = exp(-lines / ways (1 - h)).
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
