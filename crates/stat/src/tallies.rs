// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run's counts from all sources, indexed by requested event.

use linerate_counters::rotation::{Counts, EventTally};
use linerate_record::stats::{CONFIDENCE, Estimate};

/// Counts of the requested events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tallies {
    /// Counts from a perf session, which may lack some of the events.
    counts: Option<Counts>,
    /// Index of each requested event in `counts`.
    places: Vec<Option<usize>>,
    /// Counts from other sources, which take precedence over the session's.
    exact: Vec<Option<u64>>,
}

impl Tallies {
    /// Creates tallies from a perf session's counts. `places` maps each requested event to its
    /// index in `counts`.
    pub(crate) fn counted(counts: Counts, places: &[Option<usize>]) -> Self {
        Self { counts: Some(counts), places: places.to_vec(), exact: vec![None; places.len()] }
    }

    /// Creates tallies from another source's exact counts.
    pub(crate) fn exact(exact: Vec<Option<u64>>) -> Self {
        Self { counts: None, places: vec![None; exact.len()], exact }
    }

    /// Replaces an event's count with one from another source.
    pub(crate) fn replace(&mut self, event: usize, count: u64) {
        self.exact[event] = Some(count);
    }

    /// Returns an event's count, if any.
    pub(crate) fn tally(&self, event: usize) -> Option<EventTally> {
        match self.exact[event] {
            Some(raw) => {
                let estimate = exactly(raw as f64);
                Some(EventTally { raw, estimate, is_scaled: false, duty: 1.0, periods: 0 })
            }
            None => self.counts.as_ref()?.events[self.places[event]?],
        }
    }

    /// Computes a value from all events' counts. Events without a count are passed as NaN.
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

    /// Returns the number of counted slices.
    pub(crate) fn slices(&self) -> u64 {
        self.counts.as_ref().map_or(0, |counts| counts.slices)
    }
}

/// Returns the estimate of a value that is exact because it was not scaled.
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
