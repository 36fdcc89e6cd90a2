// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multiplexing of event sets, and estimation of whole-run counts from their slices.
//!
//! A processor has few counters. If more events are requested, they are divided into sets, which
//! take turns in counting for a time slice. The counts are a sample. From this sample, the module
//! computes an estimate and a 95 % interval for every event and every metric.
//!
//! **The sample.** Time is divided into rounds. With `K` sets, a round is `2 K` slices; every set
//! gets two of them, in a new random order ([`Turns`]). Whatever the load does, and however long or
//! late a slice is, each slice of a round is equally likely to belong to each set, so there is no
//! aliasing with the load. This is the only assumption.
//!
//! **The estimate.** Let `y` be the count and `x` the base in each of a set's slices, and `X` the
//! base over the whole run:
//!
//! ```text
//! total = X * sum(y) / sum(x)
//! ```
//!
//! The base is CPU time, or an event that is counted all the time. An event is the better base if
//! the scaled event is proportional to it, as misses may be to packets.
//!
//! **The interval.** The error of the estimate equals the error of the sum of `e = y - x * sum(y) /
//! sum(x)`. In each round, two values of `e` are drawn from the `2 K` slices, without replacement
//! and independently of other rounds. Let `d` be the difference between these two. The difference
//! between any two slices of a round has a mean square of `2 S^2`, where `S^2` is the variance over
//! the round's slices, and the sum of two out of `2 K` slices has a variance of `2 (1 - 1/K) S^2`
//! (Cochran, Sampling Techniques, 1977, 2.6). Hence, as an unbiased estimate,
//!
//! ```text
//! variance of sum(e) = (1 - 1/K) * sum(d^2)
//! ```
//!
//! Changes between rounds do not widen the interval: a load with long phases gets a narrow
//! interval, and a load that alternates within a round gets a wide one. `1/K` is the share of
//! slices in which a set was counted; the code uses the share of time, which is smaller if another
//! user of the PMU takes counters away.
//!
//! **Time lost within slices.** If the set was off the counters in its own slice, no random choice
//! decided which time was lost. On a machine with several core types, an event counts on one type
//! only, so the time on all others is lost. What happened then is unknown, so the estimate has no
//! upper end and its lower end is the raw count, unless the loss is negligible (1 %).
//!
//! With only one slice per set and round, rounds would have to be compared with each other, and
//! changes between rounds would widen the interval. The disadvantage of two slices is that rounds
//! are twice as long.
//!
//! **Several sets in one formula.** In a round, two sets never share a slice: if one gets the
//! slices with many events, the other is likely to get those with fewer. Their errors have a
//! correlation of `-r / (K - 1)`, where `r` is the correlation of the two events over the slices of
//! a round. `r` cannot be measured, since the events are never counted together. The interval uses
//! the mean of two variances: the variance for `r = 0`, and the larger of the variances for `r = 1`
//! and `r = -1`. If two sets contribute equally, the actual error is 0.82 to 1.15 times the assumed
//! error for `K = 2`, and 0.93 to 1.07 times for `K = 4`; it is smaller if the errors partly
//! cancel.
//!
//! **Limits of the interval.** Rare events may never occur while they are counted. For counts below
//! 30, the interval includes the probability of missing independent events; a burst of them may
//! still be missed.
//!
//! This module does not open or read events (see [`crate::session`]), and uses no clock and no I/O.

mod counts;
mod sums;
mod turns;

pub use counts::{Counts, EventTally};
pub use turns::{Turn, Turns};

use std::time::Duration;
use sums::SetSums;

/// Event schedule. Events are given by their index in the list of requested events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Events that are counted all the time, i.e. not multiplexed.
    pub always: Vec<usize>,
    /// Event sets, multiplexed if there are two or more.
    pub sets: Vec<Vec<usize>>,
    /// Nominal slice length.
    pub slice: Duration,
}

/// Default slice length. Shorter slices give more and better samples, but each switch between sets
/// takes a few microseconds, only a small part of which is the target's time.
pub const DEFAULT_SLICE: Duration = Duration::from_millis(2);

/// Minimum number of rounds for a useful interval. With a single round, the interval is too wide:
/// 12.7 standard errors, compared with 2.8 for four rounds and 2.0 for many.
const ROUNDS_FOR_AN_INTERVAL: u32 = 4;

/// Maximum fraction of its own slices for which a set may be off the counters; if it is exceeded,
/// the set's counts get no interval. Opening and starting an event on a running thread takes a few
/// microseconds of a slice.
const LOST_MOST: f64 = 0.01;

impl Plan {
    /// Returns whether event sets are multiplexed.
    pub fn is_rotating(&self) -> bool {
        self.sets.len() > 1
    }

    /// Returns the minimum run duration for useful intervals on scaled counts; zero if no count is
    /// scaled.
    pub fn shortest_run(&self) -> Duration {
        if !self.is_rotating() {
            return Duration::ZERO;
        }
        self.slice * 2 * self.sets.len() as u32 * ROUNDS_FOR_AN_INTERVAL
    }

    /// Returns the fraction of time (0 to 1) that an event will be on a counter; `None` if it never
    /// will.
    pub fn duty(&self, event: usize) -> Option<f64> {
        if self.always.contains(&event) {
            return Some(1.0);
        }
        let share = 1.0 / self.sets.len() as f64;
        self.sets.iter().any(|set| set.contains(&event)).then_some(share)
    }
}

/// One slice's counts for its event set.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a> {
    /// Index of the event set.
    pub set: usize,
    /// Counts of the set's events, in the order of the set.
    pub counts: &'a [u64],
    /// Increase of the scaling base (time, or an event count) during the slice.
    pub base: f64,
    /// The target's CPU time during the slice, over all CPUs, in ns.
    pub enabled_ns: u64,
    /// Part of `enabled_ns` during which the set was on the counters, in ns.
    pub running_ns: u64,
}

/// Whole-run totals that slice counts are scaled to.
#[derive(Clone, Copy, Debug)]
pub struct Whole<'a> {
    /// Counts of the events that are not multiplexed, in the order of [`Plan::always`]; `None` for
    /// events that could not be read.
    pub always: &'a [Option<AlwaysCount>],
    /// Total increase in the scaling base (time, or an event count).
    pub base: f64,
    /// The target's CPU time over all CPUs, in ns.
    pub enabled_ns: u64,
}

/// Count of an event that is not multiplexed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlwaysCount {
    /// Raw count while on a counter.
    pub raw: u64,
    /// CPU time of the event's target, in ns.
    pub enabled_ns: u64,
    /// Part of `enabled_ns` during which the event was on a counter, in ns.
    pub running_ns: u64,
}

impl AlwaysCount {
    /// Returns the difference from an earlier count of the same event.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            raw: self.raw.saturating_sub(earlier.raw),
            enabled_ns: self.enabled_ns.saturating_sub(earlier.enabled_ns),
            running_ns: self.running_ns.saturating_sub(earlier.running_ns),
        }
    }
}

/// Running sums over the slices of a run. Their memory use is constant.
#[derive(Clone, Debug)]
pub struct Slices {
    sets: Vec<SetSums>,
    slices: u64,
}

impl Slices {
    /// Creates an empty collection for `plan`'s event sets.
    pub fn new(plan: &Plan) -> Self {
        let sums = |set: &Vec<usize>| SetSums::new(set.len(), plan.sets.len());
        Self { sets: plan.sets.iter().map(sums).collect(), slices: 0 }
    }

    /// Adds the next slice.
    pub fn add(&mut self, slice: &Slice<'_>) {
        self.sets[slice.set].add(self.slices, slice);
        self.slices += 1;
    }

    /// Records that the next slice could not be read.
    pub fn skip(&mut self) {
        self.slices += 1;
    }

    /// Returns the sums over the slices added since `earlier`, a previous copy of this collection.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let pairs = self.sets.iter().zip(&earlier.sets);
        Self {
            sets: pairs.map(|(now, then)| now.since(then)).collect(),
            slices: self.slices - earlier.slices,
        }
    }

    /// Returns the results for `events` requested events, scaled to the totals in `whole`.
    pub fn counts(&self, events: usize, plan: &Plan, whole: &Whole<'_>) -> Counts {
        Counts::new(self, events, plan, whole)
    }
}

#[cfg(test)]
mod tests;
