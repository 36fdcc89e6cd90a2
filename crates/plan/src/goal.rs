// SPDX-License-Identifier: MIT OR Apache-2.0
//! Judges a measured rate or latency against the user's goal. A goal within the confidence interval
//! is neither met nor missed.

use linerate_record::Figure;
use linerate_record::run::{DeadEnd, RunReport};

/// Whether a goal is met.
#[derive(Clone, Debug, PartialEq)]
pub enum Judged {
    /// Met, with this value.
    Met(f64),
    /// Missed, with this value.
    Missed(f64),
    /// The measurement does not decide.
    CannotTell(Doubt),
}

/// Why a measurement does not decide whether a goal is met.
#[derive(Clone, Debug, PartialEq)]
pub enum Doubt {
    /// There is no value, for this reason if known.
    NotMeasured(Option<String>),
    /// The value's interval is unknown at one end or both.
    NoInterval,
    /// The goal is within the interval.
    Within {
        /// Low end of the interval.
        low: f64,
        /// High end of the interval.
        high: f64,
    },
    /// No packet is delivered, so that a high rate may be due to a mistake in the path.
    DeadEnd(DeadEnd),
}

/// Judges whether a run's `rate` reaches `wanted_kpps`, both in kpps. The rate includes packets
/// dropped by stages, so a path that delivers none is not judged. A rate without an interval is
/// compared by its value.
pub fn reaches(wanted_kpps: f64, rate: &Figure, run: &RunReport) -> Judged {
    if let Some(end) = run.dead_end() {
        return Judged::CannotTell(Doubt::DeadEnd(end));
    }
    judged(rate, wanted_kpps, |kpps| kpps >= wanted_kpps)
}

/// Judges whether p99 latency is at most `limit_ns`, both in ns. Only a latency whose interval is
/// known is judged.
pub fn is_prompt(limit_ns: f64, p99: &Figure) -> Judged {
    match (p99.as_number(), p99.low, p99.high) {
        (Some(_), None, _) | (Some(_), _, None) => Judged::CannotTell(Doubt::NoInterval),
        _ => judged(p99, limit_ns, |ns| ns <= limit_ns),
    }
}

/// Judges a figure by `is_met`, unless `goal` is strictly within its interval.
fn judged(figure: &Figure, goal: f64, is_met: impl Fn(f64) -> bool) -> Judged {
    let Some(value) = figure.as_number() else {
        return Judged::CannotTell(Doubt::NotMeasured(figure.reason.clone()));
    };
    match figure.low.zip(figure.high) {
        Some((low, high)) if low < goal && goal < high => {
            Judged::CannotTell(Doubt::Within { low, high })
        }
        _ if is_met(value) => Judged::Met(value),
        _ => Judged::Missed(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::stats::Estimate;
    use linerate_record::{Provenance, Tier, fixtures};

    /// Returns a figure of 100, with an interval from 95 to 105.
    fn hundred(unit: &str) -> Figure {
        let estimate = Estimate { value: 100.0, low: 95.0, high: 105.0, confidence: 0.95, n: 20 };
        Figure::number(unit, estimate, Tier::Sw, "a test")
    }

    /// Returns `+` for met, `-` for missed, `?` for neither.
    fn sign(judged: Judged) -> char {
        match judged {
            Judged::Met(_) => '+',
            Judged::Missed(_) => '-',
            Judged::CannotTell(_) => '?',
        }
    }

    #[test]
    fn a_goal_within_the_interval_is_neither_met_nor_missed() {
        let goals = [90.0, 95.0, 96.0, 100.0, 104.0, 105.0, 110.0];
        let rate = |goal| sign(reaches(goal, &hundred("kpps"), &fixtures::run()));
        assert_eq!(goals.map(rate), ['+', '+', '?', '?', '?', '-', '-']);
        let latency = |limit| sign(is_prompt(limit, &hundred("ns")));
        assert_eq!(goals.map(latency), ['-', '-', '?', '?', '?', '+', '+']);
        let within = Doubt::Within { low: 95.0, high: 105.0 };
        assert_eq!(is_prompt(99.0, &hundred("ns")), Judged::CannotTell(within));
    }

    #[test]
    fn a_latency_without_interval_is_not_judged() {
        let short = Figure { low: None, ..hundred("ns") };
        assert_eq!(is_prompt(500.0, &short), Judged::CannotTell(Doubt::NoInterval));
        let absent = Figure::absent("ns", Tier::Sw, "a test", "too few samples");
        let why = Doubt::NotMeasured(Some("too few samples".to_owned()));
        assert_eq!(is_prompt(500.0, &absent), Judged::CannotTell(why));
    }

    #[test]
    fn a_rate_without_interval_is_compared_by_its_value() {
        let exact = Figure::exact("kpps", 100.0, Tier::Sw, "a test");
        let of = |goal| sign(reaches(goal, &exact, &fixtures::run()));
        assert_eq!([99.0, 100.0, 101.0].map(of), ['+', '+', '-']);
    }

    /// Packets that stages drop count towards the goal with a quota as they do without.
    #[test]
    fn under_a_quota_the_rate_includes_stops_and_dropped_packets() {
        // Without the kernel's counters, the quota is assumed to throttle the workers.
        let run = RunReport { quotas: None, ..fixtures::run() };
        let of = |cpu_quota| {
            let provenance = fixtures::record("run").provenance;
            run.sustained_kpps(&Provenance { cpu_quota, ..provenance })
        };
        assert_eq!(of(None), run.processed_kpps);
        let (held, delivered) = (of(Some(0.2)), run.delivered_kpps());
        let number = |figure: &Figure| figure.as_number().expect("a rate");
        assert!(number(&held) > number(&delivered), "{held:?} {delivered:?}");
        let between = (number(&held) + number(&delivered)) / 2.0;
        assert_eq!(sign(reaches(between, &held, &run)), '+');
    }
}
