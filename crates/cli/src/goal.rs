// SPDX-License-Identifier: MIT OR Apache-2.0
//! Judges a measurement against the user's goals: a rate and a latency limit.

use crate::emit::{Answer, say};
use crate::failure::Failure;
use linerate_record::Figure;
use linerate_record::run::RunReport;
use linerate_record::units::{Kpps, Nanos};

/// What to do if a latency has no usable interval. The advice of `tune` differs from that of `run`,
/// because the rounds of `tune` have a fixed length.
pub(crate) struct Advice {
    /// Why the latency has no interval, and what to do.
    pub(crate) short: &'static str,
    /// What to do if the latency limit is within the interval.
    pub(crate) unclear: &'static str,
}

impl Advice {
    pub(crate) const RUN: Self = Self {
        short: "the run is too short for a confidence interval of the latency; measure for longer \
                (--time)",
        unclear: "measure for longer (--time)",
    };
    pub(crate) const TUNE: Self = Self {
        short: "too few rounds timed enough packets for a confidence interval of the latency; \
                measure the path with `linerate run`",
        unclear: "measure the path for longer with `linerate run`",
    };
}

/// Returns `No` if p99 latency exceeds the limit, otherwise `met`. If the limit is within the
/// interval of the latency, or this interval is unknown, returns an error (cannot tell), unless
/// `met` is `No`, which is then returned.
pub(crate) fn is_prompt(
    met: Answer,
    p99: &Figure,
    limit_ns: Option<f64>,
    advice: &Advice,
) -> Result<Answer, Failure> {
    let Some(limit_ns) = limit_ns else { return Ok(met) };
    // If the rate goal is missed, the latency cannot change the answer.
    let cannot_tell = |why: &str| match met {
        Answer::No => Ok(Answer::No),
        _ => Err(Failure::new(format!("cannot tell whether --p99 is met: {why}"))),
    };
    let Some(p99_ns) = p99.as_number() else {
        return cannot_tell(p99.reason.as_deref().unwrap_or("not measured"));
    };
    if p99.low.is_none() || p99.high.is_none() {
        return cannot_tell(advice.short);
    }
    if let Some((low, high)) = within(limit_ns, p99) {
        return cannot_tell(&format!(
            "{} is within the confidence interval of the measured latency, {} to {}; {}",
            Nanos(limit_ns),
            Nanos(low),
            Nanos(high),
            advice.unclear
        ));
    }
    let (answer, verb) = match p99_ns <= limit_ns {
        true => (met, "met"),
        false => (Answer::No, "missed"),
    };
    say(&format!(
        "linerate: p99 of at most {}: {verb}, with {} measured\n",
        Nanos(limit_ns),
        Nanos(p99_ns)
    ));
    Ok(answer)
}

/// Returns whether a run's `rate` (in kpps) reaches the goal, if there is one. The rate includes
/// packets dropped by stages, so the result is an error if no packet reaches the sink: a path that
/// drops all packets by mistake must not pass. If the goal is within the rate's interval, the
/// result is an error as well (cannot tell).
pub(crate) fn reaches(
    goal_kpps: Option<f64>,
    rate: &Figure,
    run: &RunReport,
) -> Result<Answer, Failure> {
    let Some(wanted) = goal_kpps else { return Ok(Answer::Done) };
    let cannot_tell = |why: &str| Failure::new(format!("cannot tell whether the goal is met{why}"));
    if let Some(end) = run.dead_end() {
        return Err(cannot_tell(&format!(", because {}: {end}", end.outcome())));
    }
    let kpps = rate.as_number().ok_or_else(|| cannot_tell(": no rate was measured"))?;
    if let Some((low, high)) = within(wanted, rate) {
        return Err(cannot_tell(&format!(
            ": {} is within the confidence interval of the measured rate, {} to {}; measure for \
             longer (--time)",
            Kpps(wanted),
            Kpps(low),
            Kpps(high)
        )));
    }
    let (is_met, verb) = match kpps >= wanted {
        true => (Answer::Done, "met"),
        false => (Answer::No, "missed"),
    };
    let dropped = if run.ends_packets() { " (including packets dropped or consumed)" } else { "" };
    say(&format!(
        "linerate: goal {}: {verb}, with {} processed{dropped}\n",
        Kpps(wanted),
        Kpps(kpps)
    ));
    Ok(is_met)
}

/// Returns the bounds of the figure's interval if `value` is strictly between them.
fn within(value: f64, figure: &Figure) -> Option<(f64, f64)> {
    figure.low.zip(figure.high).filter(|(low, high)| *low < value && value < *high)
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

    /// Returns the exit status: 0 met, 1 missed, 2 cannot tell.
    fn status(answer: Result<Answer, Failure>) -> u8 {
        match answer {
            Ok(Answer::Done) => 0,
            Ok(Answer::No) => 1,
            Ok(Answer::Status(_)) => unreachable!("a status of another program"),
            Err(_) => 2,
        }
    }

    #[test]
    fn a_goal_within_the_interval_is_neither_met_nor_missed() {
        let of = |goal| status(reaches(Some(goal), &hundred("kpps"), &fixtures::run()));
        assert_eq!([90.0, 95.0, 96.0, 100.0, 104.0, 105.0, 110.0].map(of), [0, 0, 2, 2, 2, 1, 1]);
        let of = |limit| status(is_prompt(Answer::Done, &hundred("ns"), Some(limit), &Advice::RUN));
        assert_eq!([90.0, 95.0, 96.0, 100.0, 104.0, 105.0, 110.0].map(of), [1, 1, 2, 2, 2, 0, 0]);
    }

    #[test]
    fn a_missed_goal_is_missed_whatever_the_latency() {
        let of = |met, figure: &Figure| status(is_prompt(met, figure, Some(100.0), &Advice::RUN));
        let absent = Figure::absent("ns", Tier::Sw, "a test", "too few samples");
        let short = Figure { low: None, ..hundred("ns") };
        for unclear in [hundred("ns"), absent, short] {
            assert_eq!((of(Answer::Done, &unclear), of(Answer::No, &unclear)), (2, 1));
        }
        let missed = is_prompt(Answer::No, &hundred("ns"), Some(110.0), &Advice::RUN);
        assert_eq!(status(missed), 1);
    }

    /// `--time` does not change the rounds of `tune`.
    #[test]
    fn tune_does_not_advise_a_longer_time() {
        let short = Figure { low: None, ..hundred("ns") };
        for figure in [short, hundred("ns")] {
            let text = |advice| match is_prompt(Answer::Done, &figure, Some(100.0), advice) {
                Err(failure) => failure.to_string(),
                Ok(_) => panic!("the interval contains the limit, or there is none"),
            };
            assert!(text(&Advice::RUN).contains("--time"));
            assert!(!text(&Advice::TUNE).contains("--time"));
        }
    }

    #[test]
    fn a_figure_without_interval_is_compared_by_its_value() {
        let exact = Figure::exact("kpps", 100.0, Tier::Sw, "a test");
        let of = |goal| status(reaches(Some(goal), &exact, &fixtures::run()));
        assert_eq!([99.0, 100.0, 101.0].map(of), [0, 0, 1]);
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
        assert_eq!(status(reaches(Some(between), &held, &run)), 0);
    }
}
