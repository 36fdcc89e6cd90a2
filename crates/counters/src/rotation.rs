// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multiplexing of event sets, and the estimation of the whole run from their slices.
//!
//! A processor has few counters. If more events are requested, they are divided into sets that
//! count for a slice of time each. The counts are a sample, from which this module computes an
//! estimate and a 95 % interval for every event, and for metrics of events.
//!
//! **The sample.** Time is a sequence of rounds. With `K` sets, a round is `2 K` slices, and every
//! set has two of them, in a new random order ([`Turns`]). Whatever the load does, and however long
//! or late a slice is, each slice of a round is equally likely to belong to each set: there is no
//! aliasing with the load. Nothing else is assumed.
//!
//! **The estimate.** With `y` the count and `x` the base in a set's slices, and `X` the base of the
//! whole run:
//!
//! ```text
//! total = X * sum(y) / sum(x)
//! ```
//!
//! The base is time on the processor, or an event that is always counted. The latter is better if
//! the event in question comes with it: misses with packets, say.
//!
//! **The interval.** The error is that of the sum of `e = y - x * sum(y) / sum(x)`, two of which
//! are drawn from the `2 K` of each round, without replacement and independently of other rounds.
//! Let `d` be the difference of the two. That of any two slices of the round has the mean square
//! `2 S^2`, `S^2` being the variance of its slices, and two of `2 K` add up to something with the
//! variance `2 (1 - 1/K) S^2` (Cochran, Sampling Techniques, 1977, 2.6). Hence, without bias,
//!
//! ```text
//! variance of sum(e) = (1 - 1/K) * sum(d^2)
//! ```
//!
//! Changes between rounds do not widen the interval: a load with phases gets a narrow interval, one
//! that alternates within a round a wide one. `1/K` is the share of slices that were seen; the code
//! uses the share of time, which is less if another user takes counters away.
//!
//! With one slice per round, rounds would have to be compared with each other, and what changes
//! between them would widen the interval. The price is that rounds are twice as long.
//!
//! **Several sets in one formula.** In a round, two sets never have the same slice: where one meets
//! much, the other is likely to meet less. Their errors are correlated by `-r / (K - 1)`, with `r`
//! the correlation of the two events over the slices of a round. It cannot be seen, since they are
//! never counted together. The interval is that of the middle between `r = 0` and the worse of 1
//! and -1. If two sets contribute alike, the error is then 0.82 to 1.15 times the assumed one for
//! `K = 2` and 0.93 to 1.07 times for `K = 4`; less if the correlation helps.
//!
//! **Limits of the interval.** Rare events may never occur while they are counted. For counts below
//! 30, the interval includes the probability of missing independent events; a burst of them may
//! still be missed.
//!
//! Left out: opening and reading events ([`crate::session`]), clocks, and any I/O.

mod counts;
mod sums;
mod turns;

pub use counts::{Counts, EventTally};
pub use turns::{Turn, Turns};

use std::time::Duration;
use sums::SetSums;

/// Schedule of the events. Numbers are indices into the list of requested events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Events that are always counted.
    pub always: Vec<usize>,
    /// Event sets; two or more are multiplexed.
    pub sets: Vec<Vec<usize>>,
    /// Nominal slice length.
    pub slice: Duration,
}

/// Default slice length. Shorter slices give more, and better, samples; each switch costs some
/// microseconds, mostly not on the target.
pub const DEFAULT_SLICE: Duration = Duration::from_millis(2);

/// Minimum number of rounds for a useful interval. The first round already gives one, but it is too
/// wide (12.7 standard errors; four: 2.8, many: 2.0).
const ROUNDS_FOR_AN_INTERVAL: u32 = 4;

impl Plan {
    /// Whether sets are multiplexed.
    pub fn is_rotating(&self) -> bool {
        self.sets.len() > 1
    }

    /// Minimum duration of a run for useful intervals of scaled counts; zero if none is scaled.
    pub fn shortest_run(&self) -> Duration {
        if !self.is_rotating() {
            return Duration::ZERO;
        }
        self.slice * 2 * self.sets.len() as u32 * ROUNDS_FOR_AN_INTERVAL
    }

    /// The share of the time that an event will be on a counter, 0 to 1; `None` if never.
    pub fn duty(&self, event: usize) -> Option<f64> {
        if self.always.contains(&event) {
            return Some(1.0);
        }
        let share = 1.0 / self.sets.len() as f64;
        self.sets.iter().any(|set| set.contains(&event)).then_some(share)
    }
}

/// Counts of one slice.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a> {
    /// The set counted.
    pub set: usize,
    /// Counts of the events of that set, in order.
    pub counts: &'a [u64],
    /// Increase of the scaling base during the slice.
    pub base: f64,
    /// Time on the counters, in ns.
    pub running_ns: u64,
}

/// Counts from the start to the end of a run.
#[derive(Clone, Copy, Debug)]
pub struct Whole<'a> {
    /// The events that are always counted, in the order of [`Plan::always`]; `None` for an
    /// unreadable one.
    pub always: &'a [Option<AlwaysCount>],
    /// Total of the scaling base.
    pub base: f64,
    /// CPU time of the target over all CPUs, in ns.
    pub enabled_ns: u64,
}

/// Counts of an event that is not multiplexed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlwaysCount {
    /// Its count.
    pub raw: u64,
    /// CPU time of its target, in ns.
    pub enabled_ns: u64,
    /// Time of this on a counter, in ns.
    pub running_ns: u64,
}

impl AlwaysCount {
    /// Difference to `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            raw: self.raw.saturating_sub(earlier.raw),
            enabled_ns: self.enabled_ns.saturating_sub(earlier.enabled_ns),
            running_ns: self.running_ns.saturating_sub(earlier.running_ns),
        }
    }
}

/// Collects the slices of a run in constant memory.
#[derive(Clone, Debug)]
pub struct Slices {
    sets: Vec<SetSums>,
    slices: u64,
}

impl Slices {
    /// No counts yet.
    pub fn new(plan: &Plan) -> Self {
        let sums = |set: &Vec<usize>| SetSums::new(set.len(), plan.sets.len());
        Self { sets: plan.sets.iter().map(sums).collect(), slices: 0 }
    }

    /// Adds the next slice.
    pub fn add(&mut self, slice: &Slice<'_>) {
        self.sets[slice.set].add(self.slices, slice);
        self.slices += 1;
    }

    /// Marks the next slice as missing.
    pub fn skip(&mut self) {
        self.slices += 1;
    }

    /// Difference to `earlier`, a copy of this collection at that time.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let pairs = self.sets.iter().zip(&earlier.sets);
        Self {
            sets: pairs.map(|(now, then)| now.since(then)).collect(),
            slices: self.slices - earlier.slices,
        }
    }

    /// The results for each of `events` requested events.
    pub fn counts(&self, events: usize, plan: &Plan, whole: &Whole<'_>) -> Counts {
        Counts::new(self, events, plan, whole)
    }
}

#[cfg(test)]
mod tests;
