// SPDX-License-Identifier: MIT OR Apache-2.0
//! Result of a race: samples by contestant and round, and estimates derived from them.

use crate::clean::Dropped;
use linerate_record::stats::{
    Estimate, block_bootstrap_median, median, median_interval, paired_ratio,
};

/// A window that takes more than this many times as long as the fastest of its kind counts as
/// interrupted by a hypervisor. A core that drops from turbo to nominal frequency while its SMT
/// sibling is busy becomes about three times slower, and its windows must remain valid.
const FAR_SLOWER: f64 = 4.0;

/// Samples of a race, by contestant and round. An invalid sample holds the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples<T> {
    by_contestant: Vec<Vec<Result<T, Dropped>>>,
    placements: u32,
    seed: u64,
}

/// How many windows there are in total, and how many are invalid for each reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of all windows, valid or not.
    pub total: u64,
    /// Windows in which the thread was preempted.
    pub switched: u64,
    /// Windows in which the thread had its CPU for less than 96 % of the time.
    pub away: u64,
    /// Windows far slower than the fastest, although the kernel recorded no preemption.
    pub far_slower: u64,
    /// Samples that consist of several windows, none of which is valid.
    pub none_kept: u64,
}

impl<T> Samples<T> {
    /// Creates a set of samples, indexed by contestant and round, with one placement per
    /// contestant.
    pub fn new(by_contestant: Vec<Vec<Result<T, Dropped>>>, seed: u64) -> Self {
        Self { by_contestant, placements: 1, seed }
    }

    /// Creates a set of samples without any rounds.
    pub(crate) fn none(contestants: usize, placements: u32, seed: u64) -> Self {
        let mut by_contestant = Vec::new();
        by_contestant.resize_with(contestants, Vec::new);
        Self { by_contestant, placements: placements.max(1), seed }
    }

    /// Adds a round: one sample per contestant.
    pub(crate) fn push(&mut self, round: impl Iterator<Item = Result<T, Dropped>>) {
        self.by_contestant.iter_mut().zip(round).for_each(|(all, sample)| all.push(sample));
    }

    pub(crate) fn placements(&self) -> u32 {
        self.placements
    }

    /// Returns whether each placement of each contestant has at least this many valid samples.
    pub(crate) fn has_kept(&self, wanted: u32) -> bool {
        let kept = |which: usize, placement: usize| {
            let of_placement = self.by_contestant[which].iter().skip(placement);
            let kept = of_placement.step_by(self.placements as usize).flatten().count();
            kept >= wanted as usize
        };
        let placements = self.placements as usize;
        (0..self.by_contestant.len()).all(|which| (0..placements).all(|p| kept(which, p)))
    }

    /// Returns all samples of a contestant by round, valid or not.
    pub fn each(&self, which: usize) -> &[Result<T, Dropped>] {
        &self.by_contestant[which]
    }

    /// Returns the valid samples of a contestant.
    pub fn kept(&self, which: usize) -> impl Iterator<Item = &T> {
        self.by_contestant[which].iter().flatten()
    }

    /// Returns the total number of samples, and the number of invalid ones by reason.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for sample in self.by_contestant.iter().flatten() {
            counts.total += 1;
            match sample {
                Ok(_) => {}
                Err(Dropped::Switched) => counts.switched += 1,
                Err(Dropped::Away) => counts.away += 1,
                Err(Dropped::FarSlower) => counts.far_slower += 1,
                Err(Dropped::NoneKept) => counts.none_kept += 1,
            }
        }
        counts
    }

    /// Applies `figure` to each valid sample; invalid samples keep their reason.
    pub fn map<U>(&self, figure: impl Fn(&T) -> U) -> Samples<U> {
        let each = |sample: &Result<T, Dropped>| sample.as_ref().map(&figure).map_err(|why| *why);
        let all = self.by_contestant.iter().map(|samples| samples.iter().map(each).collect());
        Samples { by_contestant: all.collect(), placements: self.placements, seed: self.seed }
    }
}

impl Counts {
    /// Returns the number of windows that are invalid according to the kernel's accounting, because
    /// the thread was preempted or off its CPU.
    pub fn preempted(&self) -> u64 {
        self.switched + self.away
    }

    /// Returns the number of valid windows.
    pub fn kept(&self) -> u64 {
        self.total - self.preempted() - self.far_slower - self.none_kept
    }
}

impl Samples<f64> {
    /// Drops windows that took more than 4 times as long as their contestant's fastest. Most
    /// likely, a hypervisor took the CPU unseen by the kernel.
    pub fn drop_far_slower(&mut self) {
        for samples in &mut self.by_contestant {
            let fastest = samples.iter().flatten().copied().fold(f64::INFINITY, f64::min);
            for sample in samples {
                if sample.is_ok_and(|sample| sample > FAR_SLOWER * fastest) {
                    *sample = Err(Dropped::FarSlower);
                }
            }
        }
    }

    /// Returns the median of a contestant's valid samples; `None` if there are none.
    pub fn median(&self, which: usize) -> Option<f64> {
        median(&self.kept(which).copied().collect::<Vec<_>>())
    }

    /// Returns a contestant's median with its interval. With several placements, this is the median
    /// of the placements' medians. With a single placement, it is the median of the rounds, which
    /// are resampled in blocks because neighbouring rounds are correlated. `None` if there are no
    /// valid samples.
    pub fn estimate(&self, which: usize, confidence: f64) -> Option<Estimate> {
        let samples = self.by_contestant[which].iter().map(|sample| sample.ok());
        let estimate = match self.placements {
            1 => {
                let kept: Vec<f64> = samples.flatten().collect();
                block_bootstrap_median(&kept, confidence, self.seed)
            }
            _ => self.over_placements(samples.collect(), confidence),
        };
        estimate.value.is_finite().then_some(estimate)
    }

    /// Returns the ratio of one contestant's sample to another's in the same round: the median over
    /// rounds in which both are valid or, with several placements, the median of the placements'
    /// medians. `None` if there is no such round.
    pub fn ratio(&self, which: usize, other: usize, confidence: f64) -> Option<Estimate> {
        let pairs = self.by_contestant[which].iter().zip(&self.by_contestant[other]);
        let pairs = pairs.map(|(which, other)| which.ok().zip(other.ok()));
        let ratio = match self.placements {
            1 => {
                let (above, under): (Vec<f64>, Vec<f64>) = pairs.flatten().unzip();
                paired_ratio(&under, &above, confidence)
            }
            _ => {
                let ratios = pairs.map(|pair| pair.map(|(above, under)| above / under));
                self.over_placements(ratios.collect(), confidence)
            }
        };
        ratio.value.is_finite().then_some(ratio)
    }

    /// Returns the median of the placements' medians. Placements differ more than rounds of the
    /// same placement, so the interval is computed over placements.
    fn over_placements(&self, by_round: Vec<Option<f64>>, confidence: f64) -> Estimate {
        let of_placement = |placement: usize| {
            let rounds = by_round.iter().skip(placement).step_by(self.placements as usize);
            median(&rounds.flatten().copied().collect::<Vec<_>>())
        };
        let medians: Vec<f64> = (0..self.placements as usize).filter_map(of_placement).collect();
        median_interval(&medians, confidence)
    }

    /// Returns the index of the contestant with the lowest median among the given ones; `None` if
    /// none has a valid sample.
    pub fn fastest(&self, among: impl IntoIterator<Item = usize>) -> Option<usize> {
        let timed = among.into_iter().filter_map(|which| Some((which, self.median(which)?)));
        timed.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(which, _)| which)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCHED: Result<f64, Dropped> = Err(Dropped::Switched);
    const SLOWER: Result<f64, Dropped> = Err(Dropped::FarSlower);

    #[test]
    fn windows_far_slower_than_the_fastest_do_not_count() {
        let windows = [10.0, 11.0, 39.0, 40.0, 40.1, 12.0].map(Ok).to_vec();
        let mut samples = Samples::new(vec![windows, vec![Ok(5.0), SWITCHED]], 1);
        samples.drop_far_slower();
        assert_eq!(samples.each(0), [Ok(10.0), Ok(11.0), Ok(39.0), Ok(40.0), SLOWER, Ok(12.0)]);
        assert_eq!(samples.each(1), [Ok(5.0), SWITCHED]);
        let counts = samples.counts();
        assert_eq!((counts.total, counts.preempted(), counts.far_slower), (8, 1, 1));
        assert_eq!(counts.kept(), 6);
    }

    #[test]
    fn ratios_are_of_the_rounds_in_which_both_count() {
        let some = vec![Ok(10.0), Ok(11.0), SWITCHED, Ok(16.0), Ok(39.0), SLOWER, Ok(12.0)];
        let samples = Samples::new(vec![some, vec![Ok(5.0); 7]], 1);
        assert_eq!(samples.median(0), Some(12.0));
        let ratio = samples.ratio(0, 1, 0.9).expect("five rounds");
        assert_eq!((ratio.value, ratio.low, ratio.high, ratio.n), (2.4, 2.0, 7.8, 5));
        assert_eq!(samples.estimate(1, 0.9).map(|ticks| ticks.value), Some(5.0));
        let half = samples.map(|ticks| ticks / 2.0);
        assert_eq!((half.median(1), half.each(0)[2]), (Some(2.5), SWITCHED));
    }

    #[test]
    fn nothing_kept_yields_no_number() {
        let samples = Samples::new(vec![vec![SLOWER; 9], vec![Ok(1.0); 9]], 1);
        let (median, estimate) = (samples.median(0), samples.estimate(0, 0.9));
        assert_eq!((median, estimate, samples.ratio(0, 1, 0.9)), (None, None, None));
        assert_eq!((samples.fastest([0, 1]), samples.fastest([0])), (Some(1), None));
    }

    /// Rounds rotate through a contestant's placements (memory locations), and the interval
    /// reflects differences between them.
    #[test]
    fn estimates_of_several_placements_are_made_from_their_medians() {
        let rounds = (0..30).map(|round| Ok(10.0 + f64::from(round % 5)));
        let by_contestant = vec![rounds.collect(), vec![Ok(10.0); 30]];
        let samples = Samples { by_contestant, placements: 5, seed: 1 };
        let estimate = samples.estimate(0, 0.9).expect("samples");
        assert_eq!((estimate.value, estimate.low, estimate.high), (12.0, 10.0, 14.0));
        assert_eq!(estimate.n, 5);
        let ratio = samples.ratio(0, 1, 0.9).expect("samples");
        assert_eq!((ratio.value, ratio.low, ratio.high, ratio.n), (1.2, 1.0, 1.4, 5));
        assert!(samples.has_kept(6) && !samples.has_kept(7));
    }

    /// A placement without a valid round is left out, and samples of different placements are not
    /// mixed.
    #[test]
    fn a_placement_without_samples_is_left_out() {
        let rounds = (0..30).map(|round| match round % 5 {
            2 => SWITCHED,
            placement => Ok(f64::from(placement)),
        });
        let by_contestant = vec![rounds.collect()];
        let samples = Samples { by_contestant, placements: 5, seed: 1 };
        let estimate = samples.estimate(0, 0.9).expect("samples");
        assert_eq!((estimate.value, estimate.n, estimate.high), (2.0, 4, f64::INFINITY));
        assert!(!samples.has_kept(1));
    }

    /// As in practice, placements differ more than rounds of the same placement. Intervals must
    /// contain the true value as often as their confidence promises.
    #[test]
    fn intervals_hold_what_other_placements_would_have_given() {
        const TRIALS: usize = 4000;
        let mut random = fastrand::Rng::with_seed(1);
        let mut normal = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        let mut held = 0;
        for _ in 0..TRIALS {
            let own: [f64; 5] = std::array::from_fn(|_| 1.0 + 0.02 * normal());
            let rounds = (0..100).map(|round| Ok(own[round % 5] * (1.0 + 0.01 * normal())));
            let samples = Samples { by_contestant: vec![rounds.collect()], placements: 5, seed: 1 };
            let estimate = samples.estimate(0, 0.9).expect("there are samples");
            held += usize::from(estimate.low <= 1.0 && 1.0 <= estimate.high);
        }
        // The interval over five placements has 93.75 % confidence; the limit is four standard
        // deviations below.
        assert!(held as f64 >= (0.9375 - 0.0153) * TRIALS as f64, "{held} of {TRIALS}");
    }
}
