// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classifies code blocks as work-only, poll-only or shared, depending on whether the work, the
//! poll loop or both execute them, and estimates the cost of a packet from this classification.

use super::Load;
use super::fit::{Axis, Line};
use super::places::Group;

/// CPU time per packet in seconds, between two bounds that depend on what the shared code blocks
/// do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    /// Lower bound: the cost if the shared blocks whose share does not fall with load belong to
    /// another job of the thread.
    pub(super) least: f64,
    /// Upper bound: the cost if the shared blocks whose share does not fall with load are part of
    /// the poll loop.
    pub(super) most: f64,
}

impl Cost {
    /// Returns the mean of both bounds.
    pub(super) fn middle(&self) -> f64 {
        f64::midpoint(self.least, self.most)
    }
}

/// Number of standard errors up to which an intercept counts as 0.
const NO_INTERCEPT: f64 = 1.5;
/// Maximum standard error of an intercept that counts as 0, as a fraction of the code block's
/// share. With a larger error, the intercept is unknown.
const MAX_ERROR: f64 = 0.5;
/// If the work in a block whose share falls with load exceeds 0 by more than this number of
/// standard errors, the block is shared. A lower limit mistakes noise for work and makes the cost
/// too high; a higher limit overlooks work and makes the cost too low.
const SHARED: f64 = 1.3;
/// If the slope of a shared block is less than this number of standard errors below 0, the block
/// may belong to another job of the thread.
const NOT_FALLING: f64 = 1.5;
/// Minimum share of the poll-only blocks at zero load. Below this share, their trend is mostly
/// noise.
const MIN_POLL_ONLY: f64 = 0.15;

/// A code block's share of the samples.
#[derive(Clone, Copy)]
struct Trend {
    /// The share as a function of load.
    line: Line,
    /// Mean share over all slices, including those that are not fitted.
    share: f64,
}

impl Trend {
    fn errors_of_intercept(&self) -> f64 {
        self.line.intercept / self.line.intercept_error
    }

    fn is_work_only(&self) -> bool {
        let Line { intercept_error, slope, .. } = self.line;
        let is_none = self.errors_of_intercept() < NO_INTERCEPT;
        slope > 0.0 && is_none && intercept_error < MAX_ERROR * self.share
    }
}

/// Code blocks, classified by whether the work, the poll loop or both execute them. The shares of
/// all blocks sum to 1.
struct Split {
    work_only: Vec<Trend>,
    poll_only: Vec<Trend>,
    shared: Vec<Trend>,
    /// Mean load.
    rate: f64,
}

/// Estimates the cost over the slices `chosen`. Only slices with loads up to `limit` determine
/// shares at zero load. Infinite if there is no poll loop.
pub(super) fn cost(loads: &[Load], groups: &[Group], chosen: &[usize], limit: f64) -> Cost {
    let fitted: Vec<usize> =
        chosen.iter().copied().filter(|&slice| loads[slice].rate <= limit).collect();
    let (all, axis) = (Axis::new(loads, chosen), Axis::new(loads, &fitted));
    let trend = |group: &Group| Trend {
        line: Line::on(axis, loads, &group.counts, &fitted),
        share: chosen.iter().map(|&slice| group.counts[slice]).sum::<f64>() / all.weight,
    };
    let mut split = Split::of_signs(groups.iter().map(trend), all.mean);
    split.limit_work_only();
    split.find_shared();
    split.cost()
}

fn intercepts(trends: &[Trend]) -> f64 {
    trends.iter().map(|trend| trend.line.intercept).sum()
}

fn shares(trends: &[Trend]) -> f64 {
    trends.iter().map(|trend| trend.share).sum()
}

impl Split {
    /// Classifies code blocks by the signs of their slopes and intercepts.
    fn of_signs(trends: impl Iterator<Item = Trend>, rate: f64) -> Self {
        let (work_only, others): (Vec<_>, Vec<_>) = trends.partition(Trend::is_work_only);
        let (poll_only, shared) = others.into_iter().partition(|trend| trend.line.slope < 0.0);
        Self { work_only, poll_only, shared, rate }
    }

    /// Reclassifies work-only blocks as shared until the summed intercept of the remaining
    /// work-only blocks counts as 0. Many intercepts can be significant together even if none is
    /// significant alone. A significantly negative intercept must not hide the others.
    fn limit_work_only(&mut self) {
        self.work_only.sort_by(|a, b| a.errors_of_intercept().total_cmp(&b.errors_of_intercept()));
        let square = |trend: &Trend| trend.line.intercept_error.powi(2);
        while let Some(&last) = self.work_only.last() {
            let error = self.work_only.iter().map(square).sum::<f64>().sqrt();
            let least = |trend: &Trend| {
                trend.line.intercept.max(-NO_INTERCEPT * trend.line.intercept_error)
            };
            if self.work_only.iter().map(least).sum::<f64>() < NO_INTERCEPT * error {
                break;
            }
            self.work_only.pop();
            self.shared.push(last);
        }
    }

    /// Reclassifies poll-only blocks as shared if the work's share in them is significant, the most
    /// significant block first, as long as enough of the poll loop remains. Each reclassification
    /// raises the estimated cost per packet, and with it the work found in the remaining blocks.
    fn find_shared(&mut self) {
        loop {
            let cost = self.cost().most;
            let significance = |trend: &Trend| {
                let Line { intercept, slope, .. } = trend.line;
                (slope + cost * intercept) / trend.line.error_of_work(cost)
            };
            let all = intercepts(&self.poll_only);
            let may_move = |trend: &Trend| all - trend.line.intercept >= MIN_POLL_ONLY;
            let places = self.poll_only.iter().enumerate().filter(|(_, trend)| may_move(trend));
            let of_each = places.map(|(place, trend)| (place, significance(trend)));
            match of_each.max_by(|a, b| a.1.total_cmp(&b.1)) {
                Some((place, errors)) if errors > SHARED => {
                    self.shared.push(self.poll_only.swap_remove(place));
                }
                _ => return,
            }
        }
    }

    /// Solves `c = (work-only share + increase of the shared ones) / rate / (1 - shared at zero
    /// load)`.
    fn cost(&self) -> Cost {
        let without = intercepts(&self.shared);
        let increase = shares(&self.work_only) + shares(&self.shared) - without;
        let most = match 1.0 - without {
            loop_share if loop_share > 0.0 => increase / self.rate / loop_share,
            _ => f64::INFINITY,
        };
        let may_be_a_job =
            |trend: &&Trend| trend.line.slope > -NOT_FALLING * trend.line.slope_error;
        let of_jobs = self.shared.iter().filter(may_be_a_job);
        let job: f64 = of_jobs.map(|trend| trend.line.intercept).sum();
        Cost { least: most * (1.0 - job.clamp(0.0, 1.0)), most }
    }
}
