// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counts of one run, indexed by requested event, from whichever source.

use linerate_counters::rotation::{Counts, EventTally};
use linerate_record::stats::{CONFIDENCE, Estimate};

/// Counts of the requested events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tallies {
    /// Counts of a session, for some of the events.
    counts: Option<Counts>,
    /// For each requested event, its index in `counts`.
    places: Vec<Option<usize>>,
    /// Counts from other sources; they take precedence over those of the session.
    exact: Vec<Option<u64>>,
}

impl Tallies {
    /// Counts from a session; `places` holds each requested event's index in the session.
    pub(crate) fn counted(counts: Counts, places: &[Option<usize>]) -> Self {
        Self { counts: Some(counts), places: places.to_vec(), exact: vec![None; places.len()] }
    }

    /// Exact counts from another source.
    pub(crate) fn exact(exact: Vec<Option<u64>>) -> Self {
        Self { counts: None, places: vec![None; exact.len()], exact }
    }

    /// Replaces the count of an event by one from another source.
    pub(crate) fn replace(&mut self, event: usize, count: u64) {
        self.exact[event] = Some(count);
    }

    /// The count of an event; `None` if it has none.
    pub(crate) fn tally(&self, event: usize) -> Option<EventTally> {
        match self.exact[event] {
            Some(raw) => {
                let estimate = exactly(raw as f64);
                Some(EventTally { raw, estimate, is_scaled: false, duty: 1.0, periods: 0 })
            }
            None => self.counts.as_ref()?.events[self.places[event]?],
        }
    }

    /// A value computed from the counts of all events; an event without a count is passed as NaN.
    pub(crate) fn derive(&self, formula: impl Fn(&[f64]) -> Option<f64>) -> Option<Estimate> {
        let all = |counted: &[f64]| -> Vec<f64> {
            let place = |event: usize| self.places[event].map(|place| counted[place]);
            let exact = |event: usize| self.exact[event].map(|count| count as f64);
            let events = 0..self.exact.len();
            events.map(|event| exact(event).or_else(|| place(event)).unwrap_or(f64::NAN)).collect()
        };
        match &self.counts {
            Some(counts) => counts.derive(|counted| formula(&all(counted))),
            None => formula(&all(&[])).filter(|value| value.is_finite()).map(exactly),
        }
    }

    /// Slices that were counted.
    pub(crate) fn slices(&self) -> u64 {
        self.counts.as_ref().map_or(0, |counts| counts.slices)
    }
}

/// A value that was not scaled.
pub(crate) fn exactly(value: f64) -> Estimate {
    Estimate { value, low: value, high: value, confidence: CONFIDENCE, n: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_from_elsewhere_are_exact() {
        let mut tallies = Tallies::exact(vec![None, Some(10)]);
        let raw = |tallies: &Tallies, event| tallies.tally(event).map(|tally| tally.raw);
        assert_eq!([0, 1].map(|event| raw(&tallies, event)), [None, Some(10)]);
        tallies.replace(0, 3);
        tallies.replace(1, 4);
        assert_eq!([0, 1].map(|event| raw(&tallies, event)), [Some(3), Some(4)]);
        let tally = tallies.tally(0).unwrap();
        assert_eq!((tally.estimate.low, tally.estimate.high, tally.duty), (3.0, 3.0, 1.0));
        assert!(!tally.is_scaled && tallies.slices() == 0);
    }

    #[test]
    fn formulas_see_every_event_in_its_place() {
        let tallies = Tallies::exact(vec![Some(6), None, Some(3)]);
        let ratio = tallies.derive(|counts| Some(counts[0] / counts[2])).unwrap();
        assert_eq!((ratio.value, ratio.low, ratio.high), (2.0, 2.0, 2.0));
        assert_eq!(tallies.derive(|counts| Some(counts[0] / counts[1])), None);
        assert_eq!(tallies.derive(|_| None), None);
    }
}
