// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random numbers for the tests.

use linerate_record::random::Random;

/// The tests' own random number generator, so that test data does not depend on the crate.
pub(crate) struct Dice(Random);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound)
    }

    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.uniform()
    }

    pub(crate) fn normal(&mut self) -> f64 {
        self.0.normal()
    }
}
