// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimates for events, and for metrics computed from them, based on sums over slices.

use super::sums::{SetSums, Variance};
use super::{AlwaysCount, LOST_MOST, Plan, Slices, Whole};
use linerate_record::stats::{CONFIDENCE, Estimate, student_quantile};

/// Probability that the true value is beyond one end of an interval.
pub(super) const TAIL: f64 = (1.0 - CONFIDENCE) / 2.0;

/// Raw count and estimate of one event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventTally {
    /// Raw count, before scaling: occurrences while the event was on a counter.
    pub raw: u64,
    /// Whole-run estimate with a 95 % interval; both ends equal the value if nothing was scaled.
    pub estimate: Estimate,
    /// Whether `estimate` is scaled up from `raw`.
    pub is_scaled: bool,
    /// Fraction of time that the event was on a counter, 0 to 1.
    pub duty: f64,
    /// Slices in which the event was counted; 0 if not multiplexed.
    pub periods: u64,
}

/// Counts of all events, with the data needed to compute the variance of any function of these
/// counts.
#[derive(Clone, Debug)]
pub struct Counts {
    /// Result for each requested event; `None` if refused or never counted.
    pub events: Vec<Option<EventTally>>,
    /// Total slices over all event sets.
    pub slices: u64,
    /// Estimate for each requested event; NaN if there is none.
    values: Vec<f64>,
    /// Scaling of each set whose counts are scaled.
    scalings: Vec<Scaling>,
    /// Number of multiplexed sets.
    sets: usize,
}

/// How the events of one set are scaled.
#[derive(Clone, Debug)]
struct Scaling {
    /// Indices of the set's events in the list of requested events.
    events: Vec<usize>,
    sums: SetSums,
    duty: f64,
    /// Increase in the scaling base over the whole run, divided by its increase in the set's
    /// slices.
    factor: f64,
}

/// Raw count below which the interval allows for missed rare events, in addition to the differences
/// between slices. See [`Scaling::chance`].
const FEW: u64 = 30;

impl Counts {
    pub(super) fn new(slices: &Slices, events: usize, plan: &Plan, whole: &Whole<'_>) -> Self {
        let mut counts = Self {
            events: vec![None; events],
            slices: slices.slices,
            values: vec![f64::NAN; events],
            scalings: Vec::new(),
            sets: plan.sets.len(),
        };
        for (&event, count) in plan.always.iter().zip(whole.always) {
            count.iter().for_each(|count| counts.add_always(event, count));
        }
        for (events, sums) in plan.sets.iter().zip(&slices.sets) {
            counts.add_set(events, sums, whole);
        }
        counts
    }

    /// Adds an event that is not multiplexed. It is scaled only if another user of the PMU took its
    /// counter for some time, during which the count is unknown.
    fn add_always(&mut self, event: usize, count: &AlwaysCount) {
        let &AlwaysCount { raw, enabled_ns, running_ns } = count;
        let Some(duty) = share(running_ns, enabled_ns) else { return };
        let is_scaled = duty < 1.0;
        let value = raw as f64 / duty;
        let at_least = Estimate { low: raw as f64, ..unbounded(value, 1) };
        let estimate = if is_scaled { at_least } else { exact(value, 1) };
        self.values[event] = value;
        self.events[event] = Some(EventTally { raw, estimate, is_scaled, duty, periods: 0 });
    }

    fn add_set(&mut self, events: &[usize], sums: &SetSums, whole: &Whole<'_>) {
        let Some(duty) = share(sums.running_ns, whole.enabled_ns) else { return };
        let is_scaled = duty < 1.0;
        // If the base did not increase in the set's slices, scale by time instead.
        let factor = if sums.base > 0.0 { whole.base / sums.base } else { 1.0 / duty };
        let factor = if is_scaled { factor } else { 1.0 };
        for (&event, &raw) in events.iter().zip(&sums.counts) {
            self.values[event] = raw as f64 * factor;
        }
        if is_scaled {
            self.scalings.push(Scaling {
                events: events.to_vec(),
                sums: sums.clone(),
                duty,
                factor,
            });
        }
        for (&event, &raw) in events.iter().zip(&sums.counts) {
            let periods = sums.periods;
            let estimate = match is_scaled {
                true => self.scaled(event, raw, periods),
                false => exact(raw as f64, periods),
            };
            self.events[event] = Some(EventTally { raw, estimate, is_scaled, duty, periods });
        }
    }

    /// Estimates the count of a scaled event. The interval's lower end is never below the raw
    /// count.
    fn scaled(&self, event: usize, raw: u64, periods: u64) -> Estimate {
        let value = self.values[event];
        let mut gradient = vec![0.0; self.values.len()];
        gradient[event] = 1.0;
        let estimate = match self.variance(&gradient) {
            Some(variance) => interval(value, variance, true, periods),
            None => unbounded(value, periods),
        };
        Estimate { low: estimate.low.max(raw as f64), ..estimate }
    }

    /// Computes a value from the counts, with its 95 % interval. `formula` gets one value per
    /// requested event, NaN for those not counted. It is called several times and must have no side
    /// effects. Both ends of the interval equal the value if nothing was scaled, and are infinite
    /// if there is too little data. `None` if the formula gives no finite value.
    pub fn derive(&self, formula: impl Fn(&[f64]) -> Option<f64>) -> Option<Estimate> {
        let at = |values: &[f64]| formula(values).filter(|value| value.is_finite());
        let value = at(&self.values)?;
        let used = self.used(&at, value);
        let n = used.iter().map(|&event| self.periods(event)).min().unwrap_or(1);
        if used.is_empty() {
            return Some(exact(value, n));
        }
        let Some(variance) = self.gradient(&at, &used).and_then(|slope| self.variance(&slope))
        else {
            return Some(unbounded(value, n));
        };
        Some(interval(value, variance, self.is_never_negative(&at, &used), n))
    }

    fn periods(&self, event: usize) -> u64 {
        self.events[event].map_or(0, |tally| tally.periods)
    }

    /// Returns the scaled events that a formula depends on. `value` is its value at the estimates.
    fn used(&self, formula: &impl Fn(&[f64]) -> Option<f64>, value: f64) -> Vec<usize> {
        let is_scaled = |event: &usize| self.events[*event].is_some_and(|tally| tally.is_scaled);
        let depends = |&event: &usize| {
            let moved = |by: f64| formula(&self.with(event, self.values[event] + by));
            let step = self.step(event);
            moved(step) != Some(value) || moved(-step) != Some(value)
        };
        (0..self.values.len()).filter(is_scaled).filter(depends).collect()
    }

    fn with(&self, event: usize, value: f64) -> Vec<f64> {
        let mut values = self.values.clone();
        values[event] = value;
        values
    }

    /// Returns a step size for finite differences: small compared with the value, but large
    /// compared with rounding errors.
    fn step(&self, event: usize) -> f64 {
        1e-4 * self.values[event].abs().max(1.0)
    }

    /// Returns a formula's partial derivatives with respect to each event; 0 for events not in
    /// `used`.
    fn gradient(
        &self,
        formula: &impl Fn(&[f64]) -> Option<f64>,
        used: &[usize],
    ) -> Option<Vec<f64>> {
        let mut gradient = vec![0.0; self.values.len()];
        for &event in used {
            let (value, step) = (self.values[event], self.step(event));
            let above = formula(&self.with(event, value + step))?;
            let below = formula(&self.with(event, value - step))?;
            gradient[event] = (above - below) / (2.0 * step);
        }
        Some(gradient)
    }

    /// Returns whether a formula is non-negative and stays so if any of its events is multiplied or
    /// divided by a thousand: true for products and quotients, but not for differences.
    fn is_never_negative(&self, formula: &impl Fn(&[f64]) -> Option<f64>, used: &[usize]) -> bool {
        let is_not = |values: &[f64]| formula(values).is_some_and(|value| value >= 0.0);
        // Replace 0 by 1; scaling 0 would not test anything.
        let scaled = |event: usize, by: f64| self.with(event, self.values[event].max(1.0) * by);
        is_not(&self.values)
            && used.iter().all(|&event| [1e-3, 1e3].iter().all(|&by| is_not(&scaled(event, by))))
    }

    /// Returns the variance of the `slope`-weighted sum of all events; `None` if any event's
    /// variance is unknown.
    fn variance(&self, slope: &[f64]) -> Option<Variance> {
        let (mut sum, mut roots, mut uncertainty) = (0.0, 0.0, 0.0);
        for scaling in &self.scalings {
            if scaling.events.iter().all(|&event| slope[event] == 0.0) {
                continue;
            }
            let Variance { value, freedom } = scaling.variance(slope)?;
            sum += value;
            roots += f64::sqrt(value);
            uncertainty += value * value / freedom;
        }
        // Half of the maximum correlation between sets within a round; see `super`.
        let common = if self.sets > 1 { 0.5 / (self.sets - 1) as f64 } else { 0.0 };
        let value = sum + common * (roots * roots - sum);
        let freedom = if uncertainty > 0.0 { sum * sum / uncertainty } else { f64::INFINITY };
        Some(Variance { value, freedom })
    }
}

impl Scaling {
    /// Returns this set's contribution to the variance of the `slope`-weighted sum of all events;
    /// `None` if it is unknown, for example because time was lost within slices.
    fn variance(&self, slope: &[f64]) -> Option<Variance> {
        if self.sums.lost() > LOST_MOST {
            return None;
        }
        let mut variance = self.of_slices(slope)?;
        for (&event, &raw) in self.events.iter().zip(&self.sums.counts) {
            if slope[event] != 0.0 && raw < FEW {
                let mut alone = vec![0.0; slope.len()];
                alone[event] = 1.0;
                let missing = self.chance(raw)? - self.of_slices(&alone)?.value;
                variance.value += slope[event] * slope[event] * missing.max(0.0);
            }
        }
        Some(variance)
    }

    /// Computes the variance from the differences between slices. The estimates are the sampled
    /// sums times `factor`. The base contributes because it is sampled too.
    fn of_slices(&self, slope: &[f64]) -> Option<Variance> {
        if self.sums.base <= 0.0 {
            return None;
        }
        let mut combination: Vec<f64> = self.events.iter().map(|&event| slope[event]).collect();
        let rates = self.sums.counts.iter().map(|&count| count as f64 / self.sums.base);
        let base: f64 = rates.zip(&combination).map(|(rate, slope)| rate * slope).sum();
        combination.push(-base);
        let Variance { value, freedom } = self.sums.variance(&combination, self.duty)?;
        Some(Variance { value: value * self.factor * self.factor, freedom })
    }

    /// Returns a lower bound on an event's variance for a small raw count `raw`. Each of a few
    /// independent occurrences was counted with probability `duty`, so the raw count has variance
    /// `raw * (1 - duty)`, whatever the few differences between slices suggest. If none was
    /// counted, the upper end of the interval is the number of occurrences for which the
    /// probability of counting none is 2.5 %.
    fn chance(&self, raw: u64) -> Option<f64> {
        if raw > 0 {
            return Some(raw as f64 * (1.0 - self.duty) * self.factor * self.factor);
        }
        let most = TAIL.ln() / (-self.duty).ln_1p();
        let nothing = vec![0.0; self.events.len() + 1];
        let freedom = self.sums.variance(&nothing, self.duty)?.freedom;
        Some((most / student_quantile(freedom, TAIL)).powi(2))
    }
}

/// Returns the fraction of time on a counter; 1 if no time elapsed, `None` if never on a counter.
fn share(running_ns: u64, enabled_ns: u64) -> Option<f64> {
    if running_ns >= enabled_ns {
        return Some(1.0);
    }
    (running_ns > 0).then(|| running_ns as f64 / enabled_ns as f64)
}

fn exact(value: f64, n: u64) -> Estimate {
    Estimate { value, low: value, high: value, confidence: CONFIDENCE, n }
}

fn unbounded(value: f64, n: u64) -> Estimate {
    Estimate::of_ends(value, None, None, n)
}

/// Returns the interval around a value with this variance. If the value cannot be negative, the
/// interval is symmetric on a log scale. This keeps its lower end above 0, and its upper end high
/// enough even if an event was by chance counted less often than expected, which lowers both its
/// estimate and its variance.
fn interval(value: f64, variance: Variance, is_never_negative: bool, n: u64) -> Estimate {
    let half = student_quantile(variance.freedom, TAIL) * variance.value.sqrt();
    let (low, high) = match (is_never_negative, value > 0.0) {
        (true, true) => {
            let factor = (half / value).exp();
            (value / factor, value * factor)
        }
        (true, false) => (value, value + half),
        (false, _) => (value - half, value + half),
    };
    Estimate { value, low, high, confidence: CONFIDENCE, n }
}
