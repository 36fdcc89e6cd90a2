// SPDX-License-Identifier: MIT OR Apache-2.0
//! Upper bounds on the formula's predictions for a mapping.
//!
//! ```text
//! limit(mapping) = min(line rate, workers x alone, quota x alone)
//! alone          = the rate of one worker that runs all stages without rings between them, if each
//!                  stage takes the shortest time measured for it
//! ```
//!
//! The upper end of a prediction interval results from random draws with low costs and a fast
//! machine, and may be a rate that this machine cannot reach.

use crate::costs::{Costs, StageCost};
use crate::model::Environment;
use linerate_record::stats::Estimate;
use linerate_record::units::{Kpps, counted, three_digits};

/// What limits a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Line rate of all ports.
    Line,
    /// CPU quota of the workers.
    Quota,
    /// Rate of the workers if every stage takes its shortest measured time.
    Seen,
}

/// Upper bounds on a path's predicted rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Line rate over all flows, in kpps.
    line_kpps: Option<f64>,
    /// CPU quota of the workers, in CPUs; `None` without a quota.
    quota: Option<f64>,
    /// Time per packet of a single worker that runs all stages, in seconds, if each stage takes its
    /// shortest measured time. Holds for the burst size at which the costs were measured.
    least_s: f64,
    /// Fixed time per burst, in seconds; 0 if not measured.
    burst_s: f64,
    /// Burst size at which the costs were measured.
    burst: u32,
}

impl Limits {
    /// Derives a path's limits from its costs. `line_kpps` is the line rate over all flows.
    pub fn new(
        line_kpps: Option<f64>,
        quota: Option<f64>,
        costs: &Costs,
        env: &Environment,
    ) -> Self {
        let all = costs.stages.iter().chain([&costs.source, &costs.sink]);
        let is_measured = env.burst_ticks.n > 0;
        Self {
            line_kpps,
            quota,
            least_s: all.map(least_ticks).sum::<f64>() / env.ticks_per_s,
            burst_s: if is_measured { env.burst_ticks.high / env.ticks_per_s } else { 0.0 },
            burst: costs.burst,
        }
    }

    /// Returns the rate of a single worker that runs the whole path, in kpps, at a burst size, from
    /// the shortest measured times; `None` if there are none.
    fn alone_kpps(&self, burst: u32) -> Option<f64> {
        let spread = 1.0 / f64::from(burst) - 1.0 / f64::from(self.burst);
        let least_s = self.least_s + self.burst_s * spread.min(0.0);
        (least_s > 0.0 && least_s.is_finite()).then(|| 1e-3 / least_s)
    }

    /// Returns the lowest limit on a mapping with `workers` workers at a burst size, in kpps, and
    /// its kind; `None` if no limit is known.
    pub fn of(&self, workers: usize, burst: u32) -> Option<(f64, Bound)> {
        let alone = self.alone_kpps(burst);
        let times = |cpus: f64| alone.map(|kpps| kpps * cpus);
        let quota = self.quota.filter(|cpus| *cpus < workers as f64).and_then(times);
        let all = [
            (self.line_kpps, Bound::Line),
            (quota, Bound::Quota),
            (times(workers as f64), Bound::Seen),
        ];
        let known = all.into_iter().filter_map(|(kpps, bound)| Some((kpps?, bound)));
        known.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Returns the fraction of a CPU that the quota grants each of `workers` workers, 0 to 1.
    fn granted(&self, workers: usize) -> f64 {
        self.quota.map_or(1.0, |cpus| (cpus / workers as f64).min(1.0))
    }

    /// Returns the fraction of an uncapped predicted rate, in kpps over all flows, that line rate
    /// lets through, 0 to 1; 1 if another limit is lower. The busiest worker is busy for this
    /// fraction of the time that it is granted.
    pub fn passed_by_line(&self, kpps: f64, workers: usize, burst: u32) -> f64 {
        match self.of(workers, burst) {
            Some((most, Bound::Line)) => (most / (kpps * self.granted(workers))).min(1.0),
            _ => 1.0,
        }
    }

    /// Scales a predicted rate by the CPU quota, if any, and caps it at the lowest limit on a
    /// mapping with `workers` workers.
    pub fn cap(&self, kpps: Estimate, workers: usize, burst: u32) -> Estimate {
        let kpps = kpps.scale(self.granted(workers));
        let Some((most, _)) = self.of(workers, burst) else { return kpps };
        let [value, low, high] = [kpps.value, kpps.low, kpps.high].map(|kpps| kpps.min(most));
        Estimate { value, low, high, ..kpps }
    }

    /// Returns a sentence about the limits that an uncapped predicted rate exceeds; `None` if there
    /// are none.
    pub fn sentence(&self, kpps: Estimate, workers: usize, burst: u32) -> Option<String> {
        let (most, bound) = self.of(workers, burst)?;
        let alone = self.alone_kpps(burst).map_or(String::new(), |kpps| Kpps(kpps).to_string());
        match bound {
            Bound::Line if kpps.value > most => {
                Some(format!("the line rate of {} caps all predictions", Kpps(most)))
            }
            Bound::Quota => Some(format!(
                "the CPU quota of {} CPUs limits any mapping to {}, because one worker with a \
                 full CPU reaches {alone}",
                three_digits(self.quota.unwrap_or_default()),
                Kpps(most),
            )),
            Bound::Seen if kpps.value > most => Some(format!(
                "at the shortest measured stage times, one worker reaches {alone}, so {} can reach \
                 at most {}",
                counted(workers as u64, "worker"),
                Kpps(most),
            )),
            _ => None,
        }
    }
}

/// Returns the shortest measured time of a stage, in ticks per packet entering the path: the lower
/// end of its interval, or of its interval with cached data if that is lower.
fn least_ticks(cost: &StageCost) -> f64 {
    let low = |ticks: &Estimate| if ticks.low.is_finite() { ticks.low } else { ticks.value };
    let hot = cost.hot_ticks.as_ref().map_or(f64::INFINITY, low);
    low(&cost.ticks).min(hot).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the limits of a path with a shortest measured time of 0.9 us per packet.
    fn limits(line_kpps: Option<f64>, quota: Option<f64>) -> Limits {
        Limits { line_kpps, quota, least_s: 0.9e-6, burst_s: 0.0, burst: 32 }
    }

    fn rate(value: f64, low: f64, high: f64) -> Estimate {
        Estimate { value, low, high, ..Estimate::exactly(0.0) }
    }

    #[test]
    fn nothing_is_predicted_beyond_what_was_seen_of_a_worker() {
        let capped = limits(None, None).cap(rate(2000.0, 1000.0, 9000.0), 2, 32);
        assert_eq!((capped.value, capped.low), (2000.0, 1000.0));
        assert!((capped.high - 2.0 / 0.9e-3).abs() < 1e-6, "{capped:?}");
    }

    #[test]
    fn nothing_is_predicted_beyond_the_line() {
        let limits = limits(Some(1500.0), None);
        let capped = limits.cap(rate(2000.0, 1000.0, 9000.0), 2, 32);
        assert_eq!((capped.value, capped.low, capped.high), (1500.0, 1000.0, 1500.0));
        let sentence = limits.sentence(rate(2000.0, 1000.0, 9000.0), 2, 32);
        assert!(sentence.is_some_and(|text| text.starts_with("the line rate")));
    }

    #[test]
    fn only_the_line_leaves_the_busiest_worker_idle() {
        let passed = |line, quota, kpps| limits(line, quota).passed_by_line(kpps, 2, 32);
        assert_eq!(passed(None, None, 2000.0), 1.0);
        assert_eq!(passed(Some(1500.0), None, 2000.0), 0.75);
        assert_eq!(passed(Some(1500.0), None, 1000.0), 1.0);
        // With half a CPU per worker, 2000 kpps become 1000.
        assert_eq!(passed(Some(500.0), Some(1.0), 2000.0), 0.5);
        assert_eq!(passed(Some(1500.0), Some(1.0), 2000.0), 1.0, "the quota is lower");
    }

    #[test]
    fn a_quota_holds_however_many_workers_there_are() {
        let limits = limits(Some(1500.0), Some(0.2));
        for workers in [1, 2, 8] {
            let most = limits.of(workers, 32);
            assert!(
                most.is_some_and(|(kpps, bound)| {
                    (kpps - 0.2 / 0.9e-3).abs() < 1e-6 && bound == Bound::Quota
                }),
                "{most:?}"
            );
        }
        let capped = limits.cap(rate(1000.0, 500.0, 9000.0), 2, 32);
        assert_eq!((capped.value, capped.low), (100.0, 50.0), "a tenth for each of two workers");
        let sentence = limits.sentence(rate(100.0, 50.0, 150.0), 1, 32).expect("it holds");
        assert!(sentence.contains("0.2 CPUs"), "{sentence}");
        // A quota of one CPU per worker does not limit anything.
        assert_eq!(Limits { quota: Some(2.0), ..limits }.of(2, 32).map(|m| m.1), Some(Bound::Line));
    }

    #[test]
    fn a_measured_cost_of_bursts_lets_larger_ones_be_faster() {
        let limits = Limits { burst_s: 6.4e-6, ..limits(None, None) };
        let [small, as_seen, large] = [8, 32, 256].map(|burst| limits.of(1, burst));
        assert_eq!(small, as_seen);
        assert!(large.is_some_and(|large| as_seen.is_some_and(|seen| large.0 > 1.2 * seen.0)));
    }
}
