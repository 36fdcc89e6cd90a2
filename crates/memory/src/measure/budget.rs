// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long each part may take.

use linerate_record::memory::Effort;
use std::time::{Duration, Instant};

/// What takes time, in the order in which it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    PageLocal,
    Random,
    Sequential,
    Translation,
    Single,
    Parallel,
    Bandwidth,
    Loaded,
    Events,
    Noise,
}

/// Shares of the time, by [`Part`]: what they sum up to does not matter. A part without a share is
/// left out.
const QUICK: [f64; 10] = [52.0, 10.0, 4.0, 22.0, 0.0, 8.0, 0.0, 0.0, 0.0, 4.0];
const DEFAULT: [f64; 10] = [40.0, 9.0, 3.0, 13.0, 8.0, 6.0, 8.0, 6.0, 2.0, 5.0];
const FULL: [f64; 10] = [44.0, 8.0, 2.0, 15.0, 8.0, 6.0, 7.0, 5.0, 2.0, 3.0];

/// A part gets at least so much of its share, however late it begins: on a busy machine all of them
/// then have something, and the whole takes half as long again at most.
const LEAST: f64 = 0.5;

/// The time that all of it is to take, from now on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    start: Instant,
    total: Duration,
    shares: [f64; 10],
}

impl Budget {
    pub(super) fn new(effort: Effort) -> Self {
        let (seconds, shares) = match effort {
            Effort::Quick => (2, QUICK),
            Effort::Default => (10, DEFAULT),
            Effort::Full => (60, FULL),
        };
        Self { start: Instant::now(), total: Duration::from_secs(seconds), shares }
    }

    pub(super) fn total(&self) -> Duration {
        self.total
    }

    /// Whether `part` is to be measured.
    pub(super) fn has(&self, part: Part) -> bool {
        self.shares[part as usize] > 0.0
    }

    /// When `part` is to be done, if it begins now.
    pub(super) fn until(&self, part: Part) -> Instant {
        let now = Instant::now();
        now + self.span(part, now.duration_since(self.start))
    }

    /// How long `part` may take that begins when `elapsed` of the time is over: its share of what is
    /// left for it and those after it.
    fn span(&self, part: Part, elapsed: Duration) -> Duration {
        let share = self.shares[part as usize];
        let following: f64 = self.shares[part as usize..].iter().sum();
        let all: f64 = self.shares.iter().sum();
        let fair = self.total.saturating_sub(elapsed).mul_f64(share / following);
        fair.max(self.total.mul_f64(LEAST * share / all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: [Part; 10] = [
        Part::PageLocal,
        Part::Random,
        Part::Sequential,
        Part::Translation,
        Part::Single,
        Part::Parallel,
        Part::Bandwidth,
        Part::Loaded,
        Part::Events,
        Part::Noise,
    ];

    /// Parts that take what they may: from `late` on, how long until all is done?
    fn end(budget: &Budget, late: Duration) -> Duration {
        PARTS.iter().fold(late, |elapsed, part| elapsed + budget.span(*part, elapsed))
    }

    #[test]
    fn all_parts_together_take_the_whole() {
        for (effort, seconds) in
            [(Effort::Quick, 2.0), (Effort::Default, 10.0), (Effort::Full, 60.0)]
        {
            let budget = Budget::new(effort);
            assert!(PARTS.iter().enumerate().all(|(at, part)| *part as usize == at));
            let end = |late: f64| end(&budget, Duration::from_secs_f64(late)).as_secs_f64();
            assert!((end(0.0) - seconds).abs() < 1e-6, "{}", end(0.0));
            assert!((end(0.1 * seconds) - seconds).abs() < 1e-6, "{}", end(0.1 * seconds));
            assert!((end(seconds) - 1.5 * seconds).abs() < 1e-6, "{}", end(seconds));
        }
    }

    #[test]
    fn a_quick_one_leaves_out_what_takes_long() {
        let budget = Budget::new(Effort::Quick);
        let left_out: Vec<Part> = PARTS.into_iter().filter(|part| !budget.has(*part)).collect();
        assert_eq!(left_out, [Part::Single, Part::Bandwidth, Part::Loaded, Part::Events]);
        assert!(PARTS.iter().all(|part| Budget::new(Effort::Default).has(*part)));
    }
}
