// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reproducible random numbers: a seed gives the same sequence in every run, on every machine, in
//! every version. Seeds are stored in path files, and published predictions and tables depend on
//! these sequences, so the generator must never change. Code without that requirement uses
//! `fastrand`.

/// 2^64 divided by the golden ratio, rounded to an odd number. Its multiples are spread evenly over
/// the 64-bit numbers.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes the bits of a number with SplitMix64's finaliser (Steele, Lea and Flood, 2014). Bijective;
/// maps 0 to 0.
#[inline]
pub const fn finish(number: u64) -> u64 {
    let z = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Mixes the bits of a number bijectively. Neighbouring inputs, and 0, map to unrelated outputs.
#[inline]
pub const fn mix(number: u64) -> u64 {
    finish(number.wrapping_add(GOLDEN))
}

/// A SplitMix64 generator: a counter passed through a mixing function. Not cryptographically
/// secure.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator from a seed. Equal seeds give equal sequences.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 random bits.
    #[inline]
    #[allow(
        clippy::should_implement_trait,
        reason = "the sequence never ends, so an Option would be useless"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        finish(self.0)
    }

    /// Returns a random number below `n`, with a bias of less than `n` / 2^64.
    #[inline]
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    /// Puts a list into random order (Fisher-Yates). Equally long lists are reordered alike
    /// from equal states of the generator.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last + 1));
        }
    }

    /// Returns a uniformly distributed number above 0 and at most 1.
    pub fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Returns a random number from the standard normal distribution (Box and Muller, 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the first outputs for seed 1234567 against the reference implementation.
    #[test]
    fn is_splitmix64() {
        let mut random = Random::new(1_234_567);
        let drawn = [(); 3].map(|()| random.next());
        let expected =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(drawn, expected);
        assert_eq!(mix(1_234_567), expected[0]);
    }

    #[test]
    fn a_shuffled_list_has_the_same_items_in_a_repeatable_order() {
        let shuffled = |seed| {
            let mut list = [0, 1, 2, 3, 4, 5, 6, 7];
            Random::new(seed).shuffle(&mut list);
            list
        };
        assert_eq!(shuffled(1), [0, 3, 7, 1, 2, 6, 5, 4]);
        let mut first = [0; 4];
        for seed in 0..4000 {
            let mut list = [0usize, 1, 2, 3];
            Random::new(seed).shuffle(&mut list);
            first[list[0]] += 1;
        }
        assert!(first.iter().all(|count| (800..1200).contains(count)), "{first:?}");
        let mut random = Random::new(1);
        random.shuffle::<u8>(&mut []);
        random.shuffle(&mut [1]);
        assert_eq!(random.next(), Random::new(1).next(), "nothing was drawn for them");
    }

    #[test]
    fn stays_within_its_range() {
        let mut random = Random::new(1);
        let (mut counts, mut sum) = ([0; 7], 0.0);
        for _ in 0..7000 {
            counts[random.below(7)] += 1;
            assert!((f64::MIN_POSITIVE..=1.0).contains(&random.uniform()));
            sum += random.normal();
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
        assert!(sum.abs() < 4.0 * 7000f64.sqrt(), "{sum}");
    }
}
