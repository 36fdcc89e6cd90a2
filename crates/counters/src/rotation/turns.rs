// SPDX-License-Identifier: MIT OR Apache-2.0
//! Order and length of slices.

use super::Plan;
use std::time::Duration;

/// The order of the sets: endless, and the same for the same seed.
#[derive(Clone, Debug)]
pub struct Turns {
    random: fastrand::Rng,
    slice: Duration,
    /// The remaining sets of this round, in reverse.
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
    /// The rotation of the sets of `plan`, which has at least one.
    pub fn new(plan: &Plan, seed: u64) -> Self {
        assert!(!plan.sets.is_empty(), "there is at least one set");
        Self {
            random: fastrand::Rng::with_seed(seed),
            slice: plan.slice,
            round: (0..plan.sets.len()).chain(0..plan.sets.len()).collect(),
            left: 0,
        }
    }

    /// The next slice. Each round has every set twice, in a new random order; lengths are uniform
    /// from half to one and a half times the nominal one, independent of the set: a length that
    /// depended on the set would bias it.
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
