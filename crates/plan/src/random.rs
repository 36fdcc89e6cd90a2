// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random numbers that are the same in every run and every release: published predictions and
//! tables of simulated chips rest on them.

/// SplitMix64: a counter through a mixing function. Not for secrets; equal seeds give equal runs.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Equal seeds give equal sequences, on every machine.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    #[allow(
        clippy::should_implement_trait,
        reason = "a sequence without end has no use for an Option"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// Above 0, at most 1.
    fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}
