// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sequences of packet lengths that no branch predictor learns.

use linerate_record::kernels::Mix;

/// Packets of a sequence. Predictors hold some ten thousand branches; a sequence this long has
/// several per packet, and comes back only after every other contestant has gone through its own.
pub(crate) const PACKETS: usize = 1 << 16;

/// The lengths of [`PACKETS`] packets, in octets, by seed.
pub(crate) fn lengths(mix: Mix, seed: u64) -> Vec<u16> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut draw = || match mix {
        Mix::Imix => match random.u8(0..12) {
            0..7 => random.u16(40..=63),
            7..11 => 556,
            _ => 1460,
        },
        Mix::Uniform20To1500 => random.u16(20..=1500),
        Mix::Uniform20To256 => random.u16(20..=256),
    };
    (0..PACKETS).map(|_| draw()).collect()
}

/// Octets per packet.
pub(crate) fn mean(lengths: &[u16]) -> f64 {
    lengths.iter().map(|&octets| f64::from(octets)).sum::<f64>() / lengths.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_have_the_means_of_their_definitions() {
        for (mix, expected) in [
            (Mix::Imix, (7.0 * 51.5 + 4.0 * 556.0 + 1460.0) / 12.0),
            (Mix::Uniform20To1500, 760.0),
            (Mix::Uniform20To256, 138.0),
        ] {
            let lengths = lengths(mix, 3);
            assert_eq!(lengths.len(), PACKETS);
            // Four standard errors of the widest, 427 octets / sqrt(65536), are 7.
            assert!((mean(&lengths) - expected).abs() < 7.0, "{mix}: {}", mean(&lengths));
        }
        assert!(
            lengths(Mix::Imix, 1).iter().all(|&l| (40..64).contains(&l) || l == 556 || l == 1460)
        );
        assert_ne!(lengths(Mix::Imix, 1), lengths(Mix::Imix, 2));
        assert_eq!(lengths(Mix::Imix, 1), lengths(Mix::Imix, 1));
    }
}
