// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multiplexing of event sets, and estimation of whole-run counts from their slices.
//!
//! A processor has few counters. If more events are requested, they are divided into sets, each of
//! which counts for a time slice. The counts are a sample, from which this module computes an
//! estimate and a 95 % interval for every event and every metric.
//!
//! **The sample.** Time is divided into rounds. With `K` sets, a round is `2 K` slices; every set
//! gets two of them, in a new random order ([`Turns`]). Whatever the load does, and however long or
//! late a slice is, each slice of a round is equally likely to belong to each set, so there is no
//! aliasing with the load. Nothing else is assumed.
//!
//! **The estimate.** Let `y` be the count and `x` the base in each of a set's slices, and `X` the
//! base over the whole run:
//!
//! ```text
//! total = X * sum(y) / sum(x)
//! ```
//!
//! The base is time on the processor, or an event that is counted all the time. An event is the
//! better base if the scaled event is proportional to it, as misses may be to packets.
//!
//! **The interval.** The error of the estimate is that of the sum of `e = y - x * sum(y) / sum(x)`.
//! In each round, two values of `e` are drawn from the `2 K` slices, without replacement and
//! independently of other rounds. Let `d` be the difference between these two. The difference
//! between any two slices of a round has the mean square `2 S^2`, where `S^2` is the variance over
//! the round's slices, and the sum of two out of `2 K` slices has the variance `2 (1 - 1/K) S^2`
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
//! With one slice per set and round, rounds would have to be compared with each other, and changes
//! between rounds would widen the interval. The price of two slices is that rounds are twice as
//! long.
//!
//! **Several sets in one formula.** In a round, two sets never share a slice: if one gets the
//! slices with many events, the other is likely to get those with fewer. Their errors have the
//! correlation `-r / (K - 1)`, where `r` is the correlation of the two events over the slices of a
//! round. `r` cannot be measured, since the events are never counted together. The interval assumes
//! the middle between `r = 0` and the worse of 1 and -1. If two sets contribute equally, the actual
//! error is 0.82 to 1.15 times the assumed one for `K = 2` and 0.93 to 1.07 times for `K = 4`; less
//! if the correlation helps.
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

/// Schedule of the events. Each event is given by its index in the list of requested events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Events that are counted all the time, i.e. not multiplexed.
    pub always: Vec<usize>,
    /// Event sets; they are multiplexed if there are two or more.
    pub sets: Vec<Vec<usize>>,
    /// Nominal length of a slice.
    pub slice: Duration,
}

/// Default length of a slice. Shorter slices give more and better samples, but each switch of sets
/// costs some microseconds, mostly not at the target's expense.
pub const DEFAULT_SLICE: Duration = Duration::from_millis(2);

/// Minimum number of rounds for a useful interval. A single round already gives an interval, but
/// that interval is too wide (12.7 standard errors, compared with 2.8 for four rounds and 2.0 for
/// many).
const ROUNDS_FOR_AN_INTERVAL: u32 = 4;

impl Plan {
    /// Returns whether event sets are multiplexed.
    pub fn is_rotating(&self) -> bool {
        self.sets.len() > 1
    }

    /// Returns the minimum duration of a run for useful intervals of scaled counts; zero if no
    /// count is scaled.
    pub fn shortest_run(&self) -> Duration {
        if !self.is_rotating() {
            return Duration::ZERO;
        }
        self.slice * 2 * self.sets.len() as u32 * ROUNDS_FOR_AN_INTERVAL
    }

    /// Returns the share of time that an event will be on a counter, 0 to 1; `None` if the event is
    /// never counted.
    pub fn duty(&self, event: usize) -> Option<f64> {
        if self.always.contains(&event) {
            return Some(1.0);
        }
        let share = 1.0 / self.sets.len() as f64;
        self.sets.iter().any(|set| set.contains(&event)).then_some(share)
    }
}

/// Counts of one event set from one slice.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a> {
    /// Index of the event set that was counted.
    pub set: usize,
    /// Counts of the set's events, in the order of the set.
    pub counts: &'a [u64],
    /// Increase of the scaling base (time, or the count of an event) during the slice.
    pub base: f64,
    /// Time that the set was on the counters, in ns.
    pub running_ns: u64,
}

/// Totals from the start to the end of a run, to which the counts of slices are scaled.
#[derive(Clone, Copy, Debug)]
pub struct Whole<'a> {
    /// Counts of the events that are not multiplexed, in the order of [`Plan::always`]; `None` for
    /// an event that could not be read.
    pub always: &'a [Option<AlwaysCount>],
    /// Total increase of the scaling base (time, or the count of an event) over the run.
    pub base: f64,
    /// CPU time of the target over all CPUs, in ns.
    pub enabled_ns: u64,
}

/// Count of an event that is not multiplexed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlwaysCount {
    /// Count of the event.
    pub raw: u64,
    /// CPU time of the event's target, in ns.
    pub enabled_ns: u64,
    /// Part of `enabled_ns` during which the event was on a counter, in ns.
    pub running_ns: u64,
}

impl AlwaysCount {
    /// Returns the difference between this count and an earlier count of the same event.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            raw: self.raw.saturating_sub(earlier.raw),
            enabled_ns: self.enabled_ns.saturating_sub(earlier.enabled_ns),
            running_ns: self.running_ns.saturating_sub(earlier.running_ns),
        }
    }
}

/// Sums of the slices of a run, collected in constant memory.
#[derive(Clone, Debug)]
pub struct Slices {
    sets: Vec<SetSums>,
    slices: u64,
}

impl Slices {
    /// Creates an empty collection for the event sets of `plan`.
    pub fn new(plan: &Plan) -> Self {
        let sums = |set: &Vec<usize>| SetSums::new(set.len(), plan.sets.len());
        Self { sets: plan.sets.iter().map(sums).collect(), slices: 0 }
    }

    /// Adds the next slice of the run.
    pub fn add(&mut self, slice: &Slice<'_>) {
        self.sets[slice.set].add(self.slices, slice);
        self.slices += 1;
    }

    /// Records that the next slice of the run is missing.
    pub fn skip(&mut self) {
        self.slices += 1;
    }

    /// Returns what was added since `earlier`, a copy of this collection at an earlier time.
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
