// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws the random order and lengths of the slices of multiplexed event sets.

use super::Plan;
use std::time::Duration;

/// An endless random sequence of event sets, reproducible from its seed.
#[derive(Clone, Debug)]
pub struct Turns {
    random: fastrand::Rng,
    slice: Duration,
    /// Sets of the current round. The first `left` entries are the sets still to be counted, in
    /// reverse order.
    round: Vec<usize>,
    left: usize,
}

/// A slice in which one event set is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Index of the event set.
    pub set: usize,
    /// Planned length.
    pub length: Duration,
}

impl Turns {
    /// Creates the set order for `plan`, which must have at least one set.
    pub fn new(plan: &Plan, seed: u64) -> Self {
        assert!(!plan.sets.is_empty(), "a plan has at least one event set");
        Self {
            random: fastrand::Rng::with_seed(seed),
            slice: plan.slice,
            round: (0..plan.sets.len()).chain(0..plan.sets.len()).collect(),
            left: 0,
        }
    }

    /// Returns the next slice. Each round has every set twice, in a new random order. Lengths are
    /// uniformly distributed from 0.5 to 1.5 times the nominal length, independent of the set: a
    /// length that depended on the set would bias its counts.
    pub fn next_turn(&mut self) -> Turn {
        if self.left == 0 {
            self.random.shuffle(&mut self.round);
            self.left = self.round.len();
        }
        self.left -= 1;
        let length = self.slice.mul_f64(0.5 + self.random.f64());
        Turn { set: self.round[self.left], length }
    }
}
