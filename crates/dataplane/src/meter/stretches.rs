// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency samples by stretch of the measurement.
//!
//! A delay affects all packets that wait for its end, so the samples of one stretch of time are not
//! independent, however many they are. How much a quantile varies is therefore estimated from how
//! its share of slow packets varies between stretches (decision 0472). When all stretches are in
//! use, pairs of them are merged, so their number stays between [`STRETCHES`]` / 2` and
//! [`STRETCHES`] for a run of any length.

/// Maximum number of stretches.
pub(crate) const STRETCHES: usize = 64;

/// Bins per power of two. A bin is thus at most 3 % wide.
const STEPS: u32 = 32;

/// Number of bins: one per value below `2 * STEPS`, then `STEPS` per power of two up to 2^41.
const BINS: usize = (STEPS * 37) as usize;

/// Longest and shortest initial stretch, in nanoseconds.
const LONGEST_NS: f64 = 1e8;
const SHORTEST_NS: f64 = 1e6;

/// Numbers of samples by stretch and latency.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stretches {
    /// Length of a stretch in ticks.
    ticks: u64,
    used: usize,
    /// Counts of each stretch, by bin.
    counts: Vec<u32>,
}

/// Number of samples of one stretch: those below a given latency, and all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Below {
    pub(crate) below: f64,
    pub(crate) all: f64,
}

/// Returns the bin of a latency in ticks.
fn bin(ticks: u64) -> usize {
    let shift = (u64::BITS - STEPS.ilog2() - 1).saturating_sub((ticks | 1).leading_zeros());
    // Within a power of two, the leading bits of `ticks` are `STEPS` to `2 * STEPS - 1`.
    let step = (ticks >> shift) as usize;
    (shift as usize * STEPS as usize + step).min(BINS - 1)
}

impl Stretches {
    /// Creates the stretches of a measurement of `length` ticks, or of unknown length. Allocates
    /// all of their memory now.
    pub(crate) fn new(length: Option<u64>, ticks_per_s: f64) -> Self {
        let [shortest, longest] =
            [SHORTEST_NS, LONGEST_NS].map(|ns| (ns * ticks_per_s / 1e9) as u64 + 1);
        // The last stretch is for packets that arrive just after the end, in the last iteration of
        // a worker.
        let even = length.map_or(shortest, |length| length / (STRETCHES as u64 - 1) + 1);
        let ticks = even.clamp(shortest, longest);
        Self { ticks, used: 0, counts: vec![0; STRETCHES * BINS] }
    }

    /// Adds a sample at `now`, in ticks since the start of the measurement.
    #[inline]
    pub(crate) fn add(&mut self, now: u64, latency: u64) {
        if self.counts.is_empty() {
            return;
        }
        let mut stretch = (now / self.ticks) as usize;
        while stretch >= STRETCHES {
            self.merge();
            stretch = (now / self.ticks) as usize;
        }
        self.used = self.used.max(stretch + 1);
        let count = &mut self.counts[stretch * BINS + bin(latency)];
        *count = count.saturating_add(1);
    }

    /// Merges each pair of stretches.
    #[cold]
    fn merge(&mut self) {
        for pair in 0..STRETCHES / 2 {
            for bin in 0..BINS {
                let [first, second] = [0, 1].map(|half| (2 * pair + half) * BINS + bin);
                self.counts[pair * BINS + bin] =
                    self.counts[first].saturating_add(self.counts[second]);
            }
        }
        self.counts[STRETCHES / 2 * BINS..].fill(0);
        self.used = self.used.div_ceil(2);
        self.ticks *= 2;
    }

    /// Adds the samples of another worker in the same measurement.
    pub(crate) fn add_all(&mut self, mut other: Self) {
        if self.counts.is_empty() || other.counts.is_empty() {
            if self.counts.is_empty() {
                *self = other;
            }
            return;
        }
        while self.ticks < other.ticks {
            self.merge();
        }
        while other.ticks < self.ticks {
            other.merge();
        }
        self.used = self.used.max(other.used);
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum = sum.saturating_add(*count);
        }
    }

    /// Returns, for each stretch, how many of its samples are below `latency` (in ticks), which is
    /// the `quantile` (0 to 1) of all samples. A fraction of the samples in the bin of `latency`
    /// counts as below it: the fraction with which the share over all stretches is exactly
    /// `quantile`.
    pub(crate) fn below(&self, latency: u64, quantile: f64) -> Vec<Below> {
        let at = bin(latency);
        let sum = |counts: &[u32]| counts.iter().map(|count| f64::from(*count)).sum::<f64>();
        let rows: Vec<&[u32]> = self.counts.chunks_exact(BINS).take(self.used).collect();
        let [below, within, all] = rows.iter().fold([0.0; 3], |[below, within, all], row| {
            [below + sum(&row[..at]), within + f64::from(row[at]), all + sum(row)]
        });
        let share = ((quantile * all - below) / f64::max(within, 1.0)).clamp(0.0, 1.0);
        let of_row = |row: &&[u32]| Below {
            below: sum(&row[..at]) + share * f64::from(row[at]),
            all: sum(row),
        };
        rows.iter().map(of_row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_in_order_and_narrow() {
        let mut last = 0;
        for power in 0..41 {
            for part in 0..64_u64 {
                let ticks = (1_u64 << power) + ((part << power) >> 6);
                let here = bin(ticks);
                assert!(here >= last, "{ticks}");
                assert!(here == bin(ticks - 1) || here == bin(ticks - 1) + 1, "{ticks}");
                last = here;
            }
        }
        assert_eq!((bin(0), bin(63), bin(64), bin(65), bin(66)), (0, 63, 64, 64, 65));
        assert!(bin(1 << 40) < BINS - 1);
        assert_eq!(bin(u64::MAX), BINS - 1);
    }

    #[test]
    fn merging_keeps_all_samples_in_order() {
        let mut stretches = Stretches::new(None, 1e9);
        let seconds = 3_u64;
        for ms in 0..seconds * 1_000 {
            stretches.add(ms * 1_000_000, if ms < 1_500 { 10 } else { 1_000 });
        }
        let below = stretches.below(1_000, 0.5);
        assert!((STRETCHES / 2..=STRETCHES).contains(&below.len()), "{}", below.len());
        assert_eq!(below.iter().map(|one| one.all).sum::<f64>(), 3_000.0);
        assert!(below[0].below > 0.0 && below[0].below == below[0].all, "{:?}", below[0]);
        assert_eq!(below.last().expect("one").below, 0.0);
    }

    #[test]
    fn packets_just_after_the_end_merge_nothing() {
        for length in [100_000_000_u64, 1_000_000_000, 6_300_000_000] {
            let mut stretches = Stretches::new(Some(length), 1e9);
            stretches.add(length - 1, 10);
            let ticks = stretches.ticks;
            stretches.add(length + ticks / 2, 10);
            assert_eq!(stretches.ticks, ticks, "{length}");
        }
    }

    #[test]
    fn workers_with_stretches_of_different_lengths_add_up() {
        let (mut short, mut long) = (Stretches::new(None, 1e9), Stretches::new(None, 1e9));
        short.add(1_000_000, 5);
        long.add(1_000_000, 5);
        long.add(1_000_000_000, 500);
        short.add_all(long);
        let below = short.below(500, 0.9);
        assert_eq!(below[0], Below { below: 2.0, all: 2.0 });
        assert_eq!(below.iter().map(|one| one.all).sum::<f64>(), 3.0);
        let mut none = Stretches::default();
        none.add(1, 1);
        none.add_all(short);
        assert_eq!(none.below(500, 0.9).len(), below.len());
    }
}
