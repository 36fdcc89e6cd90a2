// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time limits for the parts of the measurement.

use linerate_record::memory::Effort;
use std::time::{Duration, Instant};

/// Parts with a time limit, in execution order.
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

/// Relative time shares, indexed by [`Part`]. A part with share 0 is skipped.
const QUICK: [f64; 10] = [52.0, 10.0, 4.0, 22.0, 0.0, 8.0, 0.0, 0.0, 0.0, 4.0];
const DEFAULT: [f64; 10] = [40.0, 9.0, 3.0, 13.0, 8.0, 6.0, 8.0, 6.0, 2.0, 5.0];
const FULL: [f64; 10] = [44.0, 8.0, 2.0, 15.0, 8.0, 6.0, 7.0, 5.0, 2.0, 3.0];

/// Relative time share for finding the levels, by effort. This step follows the curves and cannot
/// be cut short.
const LEVELS: [f64; 3] = [20.0, 6.0, 1.0];

/// Minimum fraction of its share that every part gets, however late it starts. On a busy machine,
/// every part still gets some time, and the total grows by at most 40 %.
const LEAST: f64 = 0.4;

/// Time limit of the measurement, counted from now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    start: Instant,
    total: Duration,
    shares: [f64; 10],
    levels: f64,
}

impl Budget {
    pub(super) fn new(effort: Effort) -> Self {
        let (seconds, shares, levels) = match effort {
            Effort::Quick => (2, QUICK, LEVELS[0]),
            Effort::Default => (10, DEFAULT, LEVELS[1]),
            Effort::Full => (60, FULL, LEVELS[2]),
        };
        Self { start: Instant::now(), total: Duration::from_secs(seconds), shares, levels }
    }

    pub(super) fn total(&self) -> Duration {
        self.total
    }

    /// Returns whether `part` is measured.
    pub(super) fn has(&self, part: Part) -> bool {
        self.shares[part as usize] > 0.0
    }

    /// Returns the deadline for `part` if it starts now.
    pub(super) fn until(&self, part: Part) -> Instant {
        let now = Instant::now();
        now + self.span(part, now.duration_since(self.start))
    }

    fn left(&self, elapsed: Duration) -> Duration {
        self.total.saturating_sub(elapsed)
    }

    /// Returns the time limit for `part` if it starts after `elapsed`: its share of the time left
    /// for this part and the later ones.
    fn span(&self, part: Part, elapsed: Duration) -> Duration {
        let share = self.shares[part as usize];
        let is_curve = (part as usize) < Part::Translation as usize;
        let levels = if is_curve { self.levels } else { 0.0 };
        let following = self.shares[part as usize..].iter().sum::<f64>() + levels;
        let all = self.shares.iter().sum::<f64>() + self.levels;
        let fair = self.left(elapsed).mul_f64(share / following);
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

    /// Returns the total time if the first part starts after `late`, all parts use their full
    /// limits, and finding the levels takes its share.
    fn end(budget: &Budget, late: Duration) -> Duration {
        let all = budget.shares.iter().sum::<f64>() + budget.levels;
        PARTS.iter().fold(late, |elapsed, part| {
            let is_after_levels = *part == Part::Translation;
            let share = if is_after_levels { budget.levels / all } else { 0.0 };
            let elapsed = elapsed + budget.total.mul_f64(share).min(budget.left(elapsed));
            elapsed + budget.span(*part, elapsed)
        })
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
            assert!((1.3 * seconds..=1.4 * seconds).contains(&end(seconds)), "{}", end(seconds));
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
