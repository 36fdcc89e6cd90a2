// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sequences of packet lengths that the branch predictors have not seen before.

use linerate_record::kernels::Mix;

/// Draws packet lengths in bytes.
///
/// Every window of every routine gets its own lengths. If routines shared them, later ones would
/// benefit from a branch predictor trained by the first, especially if they share code.
pub(crate) struct Lengths {
    mix: Mix,
    random: fastrand::Rng,
}

impl Lengths {
    pub(crate) fn new(mix: Mix, seed: u64) -> Self {
        Self { mix, random: fastrand::Rng::with_seed(seed) }
    }

    pub(crate) fn draw(&mut self, lengths: &mut [u16]) {
        lengths.fill_with(|| self.next());
    }

    fn next(&mut self) -> u16 {
        let random = &mut self.random;
        match self.mix {
            Mix::Imix => match random.u8(0..12) {
                0..7 => random.u16(40..=63),
                7..11 => 556,
                _ => 1460,
            },
            Mix::Uniform20To1500 => random.u16(20..=1500),
            Mix::Uniform20To256 => random.u16(20..=256),
        }
    }
}

/// Returns the mean packet length of the distribution in bytes.
pub(crate) const fn mean(mix: Mix) -> f64 {
    match mix {
        Mix::Imix => (7.0 * 51.5 + 4.0 * 556.0 + 1460.0) / 12.0,
        Mix::Uniform20To1500 => 760.0,
        Mix::Uniform20To256 => 138.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(mix: Mix, seed: u64, count: usize) -> Vec<u16> {
        let mut lengths = vec![0; count];
        Lengths::new(mix, seed).draw(&mut lengths);
        lengths
    }

    #[test]
    fn mixes_have_the_means_of_their_definitions() {
        for mix in Mix::ALL {
            let lengths = drawn(mix, 3, 1 << 16);
            let sum: f64 = lengths.iter().map(|&bytes| f64::from(bytes)).sum();
            // Four standard errors are 7 bytes for the widest mix, where each is 427 bytes /
            // sqrt(65536).
            assert!((sum / 65536.0 - mean(mix)).abs() < 7.0, "{mix}: {}", sum / 65536.0);
        }
        let imix = drawn(Mix::Imix, 1, 1 << 12);
        assert!(imix.iter().all(|&l| (40..64).contains(&l) || l == 556 || l == 1460));
    }

    #[test]
    fn lengths_depend_on_the_seed_and_never_come_again() {
        assert_eq!(drawn(Mix::Imix, 1, 64), drawn(Mix::Imix, 1, 64));
        assert_ne!(drawn(Mix::Imix, 1, 64), drawn(Mix::Imix, 2, 64));
        let mut lengths = Lengths::new(Mix::Uniform20To1500, 1);
        let (mut first, mut second) = ([0; 64], [0; 64]);
        lengths.draw(&mut first);
        lengths.draw(&mut second);
        assert_ne!(first, second);
    }
}
