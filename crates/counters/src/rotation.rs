// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event sets that take turns on the counters, and what their slices tell of the whole run.

use linerate_record::stats::Estimate;
use std::time::Duration;

/// Which events count when. Numbers are places in the list of events that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Events that count all of the time.
    pub always: Vec<usize>,
    /// Event sets; with two or more, they take turns.
    pub sets: Vec<Vec<usize>>,
    /// The nominal length of a slice.
    pub slice: Duration,
}

impl Plan {
    /// Whether sets take turns.
    pub fn is_rotating(&self) -> bool {
        self.sets.len() > 1
    }

    /// How long a run must be for scaled counts to get an interval.
    pub fn shortest_run(&self) -> Duration {
        todo!()
    }

    /// The share of the time that an event will be on a counter, 0 to 1; `None` if it never will.
    pub fn duty(&self, event: usize) -> Option<f64> {
        if self.always.contains(&event) {
            return Some(1.0);
        }
        let share = 1.0 / self.sets.len() as f64;
        self.sets.iter().any(|set| set.contains(&event)).then_some(share)
    }
}

/// What was counted of one event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventTally {
    /// Counts while it was on a counter.
    pub raw: u64,
    /// The count of all of the time, with a 95 % interval; both ends are the value itself where
    /// nothing was scaled.
    pub estimate: Estimate,
    /// Whether `estimate` is `raw` scaled up: it was not counted all of the time.
    pub is_scaled: bool,
    /// The share of the time that it was on a counter, 0 to 1.
    pub duty: f64,
    /// Slices in which it was counted.
    pub periods: u64,
}

/// Counts of all events, and how they vary together.
#[derive(Clone, Debug)]
pub struct Counts {
    /// One per event asked for; `None` where it was refused or never counted.
    pub events: Vec<Option<EventTally>>,
    /// Slices that were counted, of all sets together.
    pub slices: u64,
}

impl Counts {
    /// A value computed from the events, with its 95 % interval. `formula` gets one value per event
    /// asked for, not a number for those that were not counted, and is called many times.
    /// `None` if the formula gives none, or nothing finite.
    pub fn derive(&self, formula: impl Fn(&[f64]) -> Option<f64>) -> Option<Estimate> {
        let _ = formula;
        todo!()
    }
}
