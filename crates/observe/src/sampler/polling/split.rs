// SPDX-License-Identifier: MIT OR Apache-2.0
//! Divides places into those that only the work enters, those that only the poll loop enters, and
//! shared ones, and estimates the cost of a packet from this division.

use super::Load;
use super::fit::{Axis, Line};
use super::places::Group;

/// CPU time per packet in seconds, between two bounds that depend on what shared places do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    /// Lower bound: the cost if the shared places whose share does not fall with load are another
    /// job of the thread.
    pub(super) least: f64,
    /// Upper bound: the cost if those places are part of the poll loop.
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
/// Maximum standard error of an intercept that counts as 0, as a fraction of the place's share.
/// With a larger error, the intercept is unknown.
const MAX_ERROR: f64 = 0.5;
/// Number of standard errors above which a falling place is shared. A lower limit takes noise for
/// work and makes the cost too high; a higher limit overlooks work and makes it too low.
const SHARED: f64 = 1.3;
/// Number of standard errors below which a shared place may be another job.
const NOT_FALLING: f64 = 1.5;
/// Minimum share of the poll-only places at zero load. With less, their trend is mostly noise.
const MIN_POLL_ONLY: f64 = 0.15;

/// A place's share of the samples.
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

/// Places divided by whether the work, the poll loop or both enter them. The shares of all places
/// sum to 1.
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
    /// Divides places by the signs of their slopes and intercepts.
    fn of_signs(trends: impl Iterator<Item = Trend>, rate: f64) -> Self {
        let (work_only, others): (Vec<_>, Vec<_>) = trends.partition(Trend::is_work_only);
        let (poll_only, shared) = others.into_iter().partition(|trend| trend.line.slope < 0.0);
        Self { work_only, poll_only, shared, rate }
    }

    /// Moves work-only places to the shared ones until their summed intercept counts as 0. Many
    /// intercepts can be significant together although each one is not. A significantly negative
    /// one must not hide the others.
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

    /// Moves falling places that the work enters significantly to the shared ones, the most
    /// significant first, as long as enough of the poll loop is left. Each move increases the cost,
    /// and with it the work found in the remaining places.
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
