// SPDX-License-Identifier: MIT OR Apache-2.0
//! Order and length of slices.

use super::Plan;
use std::time::Duration;

/// The order of the sets: endless, and reproducible from its seed.
#[derive(Clone, Debug)]
pub struct Turns {
    random: fastrand::Rng,
    slice: Duration,
    /// The sets of this round; those still to come are first, in reverse order.
    round: Vec<usize>,
    left: usize,
}

/// One slice of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The set.
    pub set: usize,
    /// Its nominal length.
    pub length: Duration,
}

impl Turns {
    /// Creates the rotation for the sets of `plan`, which has at least one set.
    pub fn new(plan: &Plan, seed: u64) -> Self {
        assert!(!plan.sets.is_empty(), "there is at least one set");
        Self {
            random: fastrand::Rng::with_seed(seed),
            slice: plan.slice,
            round: (0..plan.sets.len()).chain(0..plan.sets.len()).collect(),
            left: 0,
        }
    }

    /// Returns the next slice. Each round has every set twice, in a new random order; lengths are
    /// uniformly distributed from 0.5 to 1.5 times the nominal length, independently of the set: a
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
