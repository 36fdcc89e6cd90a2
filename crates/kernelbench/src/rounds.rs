// SPDX-License-Identifier: MIT OR Apache-2.0
//! The timing core: contestants in interleaved windows, in random order, round after round.
//!
//! ```text
//! for each round
//!     for each contestant, in a new random order
//!         time a window of so many calls
//! throw away windows in which the thread lost the processor, as far as that can be told
//! compare what is left, round by round
//! ```
//!
//! A change of the clock, a neighbour on the other thread of the core, a step of the host's
//! scheduler lasts longer than a round, and so hits all contestants of the round alike: it moves
//! the times and leaves their ratios. Within a round no contestant always follows the same other.
//!
//! Left out: what the contestants do, and what their times mean.

use linerate_linux::involuntary_switches;
use linerate_machine::ticks::ticks;
use linerate_record::kernels::RaceWindows;
use linerate_record::stats::{Estimate, block_bootstrap_median, median, paired_ratio};

/// Confidence of every interval.
pub const CONFIDENCE: f64 = 0.9;

/// How long a window is against the fastest one of its contestant when the thread lost the
/// processor in it, in a round in which the kernel counted an involuntary switch. Two switches and
/// a turn of another thread take tens of microseconds, as long as a window.
const LOST_AND_SWITCHED: f64 = 1.5;

/// The same where the kernel counted none: most probably a hypervisor took the processor away. A
/// core that falls from its highest clock to its nominal one, with a busy neighbour on its other
/// thread, is some three times slower, and that is a time like any other.
const FAR_SLOWER: f64 = 4.0;

/// Why a window does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dropped {
    /// Slower by [`LOST_AND_SWITCHED`] in a round with a switch.
    Preempted,
    /// Slower by [`FAR_SLOWER`] in a round without.
    Slow,
}

/// What is timed.
pub trait Race {
    /// Does `calls` calls of contestant `which`. This alone is timed. `round` counts from 0; the
    /// windows that find out how many calls fill one are in round 0 too.
    fn run(&mut self, which: usize, calls: u32, round: u32);

    /// What must happen between two windows, not timed.
    fn settle(&mut self) {}
}

/// How many calls make a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Calls {
    /// As many as fill this many ticks, a multiple of the number given and at most the last one.
    Filling {
        /// Ticks of a window.
        ticks: f64,
        /// Calls go in groups of so many.
        multiple: u32,
        /// No more calls than this.
        at_most: u32,
    },
    /// The same number for all.
    Exactly(u32),
}

/// How a race is run.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Rounds; an interval takes at least 5.
    pub rounds: u32,
    /// Calls per window.
    pub calls: Calls,
    /// The seed of the order.
    pub seed: u64,
}

/// The times of all contestants of a race.
#[derive(Clone, Debug)]
pub struct Times {
    /// Of each contestant: ticks per call of each round.
    rounds: Vec<Vec<Result<f64, Dropped>>>,
    seed: u64,
}

impl Times {
    /// Times that were not measured.
    #[cfg(test)]
    pub(crate) fn made_up(rounds: &[&[f64]]) -> Self {
        let some = |times: &&[f64]| times.iter().copied().map(Ok).collect();
        Self { rounds: rounds.iter().map(some).collect(), seed: 1 }
    }

    /// Windows in all, and how many of them do not count, by reason.
    pub fn windows(&self) -> RaceWindows {
        let all = self.rounds.iter().flatten();
        let dropped = |why| all.clone().filter(|window| **window == Err(why)).count() as u64;
        RaceWindows {
            total: all.clone().count() as u64,
            lost_to_preemption: dropped(Dropped::Preempted),
            dropped_as_slow: dropped(Dropped::Slow),
        }
    }

    /// Ticks per call of a contestant in the rounds that counted.
    pub fn kept(&self, which: usize) -> Vec<f64> {
        self.rounds[which].iter().flatten().copied().collect()
    }

    /// The median of the ticks per call, `None` where no window counts.
    pub fn median(&self, which: usize) -> Option<f64> {
        median(&self.kept(which))
    }

    /// The median of the ticks per call with its interval. Rounds resemble their neighbours, hence
    /// blocks of them are resampled.
    pub fn ticks(&self, which: usize) -> Option<Estimate> {
        let estimate = block_bootstrap_median(&self.kept(which), CONFIDENCE, self.seed);
        estimate.value.is_finite().then_some(estimate)
    }

    /// The time of `which` over that of `other` in the same round: the median over the rounds in
    /// which both counted, `None` where there is none.
    pub fn ratio(&self, which: usize, other: usize) -> Option<Estimate> {
        let pairs = self.rounds[which].iter().zip(&self.rounds[other]);
        let (above, under): (Vec<f64>, Vec<f64>) =
            pairs.filter_map(|(above, under)| above.ok().zip(under.ok())).unzip();
        let ratio = paired_ratio(&under, &above, CONFIDENCE);
        ratio.value.is_finite().then_some(ratio)
    }

    /// The contestant with the lowest median among some.
    pub fn fastest(&self, among: impl IntoIterator<Item = usize>) -> Option<usize> {
        let timed = among.into_iter().filter_map(|which| Some((which, self.median(which)?)));
        timed.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(which, _)| which)
    }
}

/// Orders of `contestants`, a new one for each round, by seed.
pub fn orders(contestants: usize, seed: u64) -> impl FnMut() -> Vec<usize> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut order: Vec<usize> = (0..contestants).collect();
    move || {
        random.shuffle(&mut order);
        order.clone()
    }
}

/// Runs a race of so many contestants.
pub fn race(race: &mut impl Race, contestants: usize, rules: Rules) -> Times {
    let calls: Vec<u32> =
        (0..contestants).map(|which| calls_per_window(race, which, rules.calls)).collect();
    let mut next = orders(contestants, rules.seed);
    let mut windows = vec![Vec::with_capacity(rules.rounds as usize); contestants];
    let mut switched = Vec::with_capacity(rules.rounds as usize);
    for round in 0..rules.rounds {
        let switches = involuntary_switches();
        for which in next() {
            let ticks = window(race, which, calls[which], round);
            windows[which].push(ticks as f64 / f64::from(calls[which]));
        }
        switched.push(involuntary_switches() != switches);
    }
    let rounds = windows.iter().map(|times| judged(times, &switched)).collect();
    Times { rounds, seed: rules.seed }
}

fn window(race: &mut impl Race, which: usize, calls: u32, round: u32) -> u64 {
    let start = ticks();
    race.run(which, calls, round);
    let ticks = ticks() - start;
    race.settle();
    ticks
}

/// Doubles the calls until they take a quarter of a window, and scales; the contestant is warm
/// afterwards. Time in which another thread had the processor would pass for the time of a call, so
/// the fastest of three windows decides.
fn calls_per_window(race: &mut impl Race, which: usize, calls: Calls) -> u32 {
    let (fill, multiple, at_most) = match calls {
        Calls::Filling { ticks, multiple, at_most } => (ticks, multiple, at_most.max(multiple)),
        Calls::Exactly(calls) => {
            window(race, which, calls, 0);
            return calls;
        }
    };
    let mut tried = multiple;
    loop {
        let mut fastest = u64::MAX;
        let is_short = (0..3).any(|_| {
            fastest = fastest.min(window(race, which, tried, 0));
            (fastest as f64) < fill / 4.0
        });
        if !is_short || tried >= at_most {
            let wanted = f64::from(tried) * fill / fastest.max(1) as f64;
            return (wanted.min(f64::from(at_most)) as u32 / multiple).max(1) * multiple;
        }
        tried = tried.saturating_mul(2).min(at_most / multiple * multiple);
    }
}

/// The windows of one contestant, those marked that do not count.
fn judged(windows: &[f64], switched: &[bool]) -> Vec<Result<f64, Dropped>> {
    let fastest = windows.iter().copied().fold(f64::INFINITY, f64::min);
    let judge = |(&window, &switched): (&f64, &bool)| {
        let (limit, why) = match switched {
            true => (LOST_AND_SWITCHED, Dropped::Preempted),
            false => (FAR_SLOWER, Dropped::Slow),
        };
        if window <= fastest * limit { Ok(window) } else { Err(why) }
    };
    windows.iter().zip(switched).map(judge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hint::black_box;

    /// Contestants that do nothing but a chain of so many dependent steps per call.
    struct Chains(Vec<u32>);

    impl Race for Chains {
        fn run(&mut self, which: usize, calls: u32, _round: u32) {
            for _ in 0..calls {
                black_box(chain(self.0[which]));
            }
        }
    }

    /// Steps of xorshift64, each of which needs the one before and which nobody folds into one.
    fn chain(steps: u32) -> u64 {
        let mut x = black_box(1_u64);
        for _ in 0..steps {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        x
    }

    fn rules(rounds: u32, ticks: f64) -> Rules {
        let calls = Calls::Filling { ticks, multiple: 1, at_most: u32::MAX };
        Rules { rounds, calls, seed: 1 }
    }

    /// The known truth: the second contestant does a quarter more, the third twice as much. A call
    /// and the start of the chain take some cycles of their own, under 1 % of 4000 steps. On a
    /// crowded machine a race may still fail, so there are several.
    #[test]
    fn added_work_is_found_within_the_interval() {
        let found = |_| {
            let times = race(&mut Chains(vec![4000, 5000, 8000]), 3, rules(41, 50_000.0));
            let holds = |which, truth: f64| {
                let ratio = times.ratio(which, 0).expect("windows");
                assert!(ratio.low <= ratio.value && ratio.value <= ratio.high, "{ratio:?}");
                ratio.low * 0.99 <= truth && truth <= ratio.high * 1.01 && ratio.low > 1.0
            };
            holds(1, 1.25) && holds(2, 2.0) && times.fastest(0..3) == Some(0)
        };
        assert!((0..10).any(found));
    }

    #[test]
    fn windows_are_as_long_as_asked_for() {
        let mut seen = Vec::new();
        struct Counted<'a>(&'a mut Vec<(u32, u32)>);
        impl Race for Counted<'_> {
            fn run(&mut self, _which: usize, calls: u32, round: u32) {
                self.0.push((calls, round));
                (0..calls).for_each(|_| _ = black_box(chain(1000)));
            }
        }
        let calls = Calls::Filling { ticks: 1e6, multiple: 8, at_most: 100 };
        race(&mut Counted(&mut seen), 1, Rules { rounds: 3, calls, seed: 1 });
        assert!(seen.iter().all(|(calls, _)| calls % 8 == 0 && (8..=96).contains(calls)));
        let rounds: Vec<u32> = seen.iter().rev().take(3).map(|window| window.1).collect();
        assert_eq!(rounds, [2, 1, 0]);
        seen.clear();
        let calls = Calls::Exactly(5);
        race(&mut Counted(&mut seen), 2, Rules { rounds: 2, calls, seed: 1 });
        assert_eq!(seen.len(), 6);
        assert!(seen.iter().all(|(calls, _)| *calls == 5));
    }

    /// A call takes 1000 steps; the first window of each length waits a thousand times as long.
    #[test]
    fn a_disturbed_window_does_not_pass_for_a_long_call() {
        struct Disturbed(HashSet<u32>);
        impl Race for Disturbed {
            fn run(&mut self, _which: usize, calls: u32, _round: u32) {
                let waits = if self.0.insert(calls) { 1000 } else { 0 };
                (0..calls + waits).for_each(|_| _ = black_box(chain(1000)));
            }
        }
        let calls = Calls::Filling { ticks: 1e6, multiple: 1, at_most: u32::MAX };
        // Not even unoptimized does a call take a fifth of that.
        let found = calls_per_window(&mut Disturbed(HashSet::new()), 0, calls);
        assert!(found > 4, "{found} calls fill a million ticks");
    }

    #[test]
    fn the_order_is_random_and_the_seed_decides() {
        let list = |seed| -> Vec<Vec<usize>> {
            let mut next = orders(4, seed);
            (0..1000).map(|_| next()).collect()
        };
        assert_eq!(list(7), list(7));
        assert_ne!(list(7), list(8));
        let orders = list(7);
        assert_eq!(orders.iter().collect::<HashSet<_>>().len(), 24, "all orders of four come up");
        for contestant in 0..4 {
            let first = orders.iter().filter(|order| order[0] == contestant).count();
            // 250 expected; 0.1 % and 99.9 % points of the binomial distribution.
            assert!((208..=293).contains(&first), "{contestant} was first {first} times");
            for order in &orders {
                assert!(order.contains(&contestant));
            }
        }
    }

    #[test]
    fn windows_without_the_processor_do_not_count() {
        let windows = [10.0, 11.0, 16.0, 16.0, 39.0, 41.0, 12.0];
        let switched = [false, true, true, false, false, false, true];
        let kept = judged(&windows, &switched);
        let (preempted, slow) = (Err(Dropped::Preempted), Err(Dropped::Slow));
        let expected = [Ok(10.0), Ok(11.0), preempted, Ok(16.0), Ok(39.0), slow, Ok(12.0)];
        assert_eq!(kept, expected);
        let times = Times { rounds: vec![kept, vec![Ok(5.0); 7]], seed: 1 };
        let windows = RaceWindows { total: 14, lost_to_preemption: 1, dropped_as_slow: 1 };
        assert_eq!(times.windows(), windows);
        assert_eq!(times.median(0), Some(12.0));
        let ratio = times.ratio(0, 1).expect("five rounds");
        assert_eq!((ratio.value, ratio.low, ratio.high, ratio.n), (2.4, 2.0, 7.8, 5));
        assert_eq!(times.ticks(1).map(|ticks| ticks.value), Some(5.0));
    }

    #[test]
    fn ratios_hold_though_the_clock_moves() {
        let clock = [1.0, 1.4, 1.0, 0.7, 1.1, 3.0, 1.0];
        let times = |cost: f64| clock.iter().map(|slow| Ok(cost * slow)).collect();
        let times = Times { rounds: vec![times(20.0), times(30.0)], seed: 1 };
        let ratio = times.ratio(1, 0).expect("seven rounds");
        assert!((ratio.low - 1.5).abs() < 1e-12 && (ratio.high - 1.5).abs() < 1e-12, "{ratio:?}");
    }

    #[test]
    fn nothing_kept_is_no_number() {
        let times = Times { rounds: vec![vec![Err(Dropped::Slow); 9], vec![Ok(1.0); 9]], seed: 1 };
        assert_eq!((times.median(0), times.ticks(0), times.ratio(0, 1)), (None, None, None));
        assert_eq!(times.fastest([0, 1]), Some(1));
        assert_eq!(times.fastest([0]), None);
    }
}
