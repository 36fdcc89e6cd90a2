// SPDX-License-Identifier: MIT OR Apache-2.0
//! Says whether a measurement meets the user's goals, a rate and a latency limit, and sets the exit
//! status accordingly. `plan::goal` judges.

use crate::emit::{Answer, say};
use crate::failure::Failure;
use linerate_plan::goal::{self, Doubt, Judged};
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

/// Says whether p99 latency is within the limit, if there is one. Returns `No` if it is not,
/// otherwise `met`. If the measurement does not decide, returns an error, unless `met` is `No`,
/// which the latency cannot change.
pub(crate) fn is_prompt(
    met: Answer,
    p99: &Figure,
    limit_ns: Option<f64>,
    advice: &Advice,
) -> Result<Answer, Failure> {
    let Some(limit_ns) = limit_ns else { return Ok(met) };
    let limit = Nanos(limit_ns);
    let (answer, verb, p99_ns) = match goal::is_prompt(limit_ns, p99) {
        Judged::Met(ns) => (met, "met", ns),
        Judged::Missed(ns) => (Answer::No, "missed", ns),
        Judged::CannotTell(_) if met == Answer::No => return Ok(Answer::No),
        Judged::CannotTell(doubt) => {
            let why = match doubt {
                Doubt::NotMeasured(reason) => reason.unwrap_or_else(|| "not measured".to_owned()),
                Doubt::Within { low, high } => format!(
                    "{limit} is within the confidence interval of the measured latency, {} to {}; \
                     {}",
                    Nanos(low),
                    Nanos(high),
                    advice.unclear
                ),
                Doubt::NoInterval | Doubt::DeadEnd(_) => advice.short.to_owned(),
            };
            return Err(Failure::new(format!("cannot tell whether --p99 is met: {why}")));
        }
    };
    say(&format!("linerate: p99 of at most {limit}: {verb}, with {} measured\n", Nanos(p99_ns)));
    Ok(answer)
}

/// Says whether a run's `rate` (in kpps) reaches the goal, if there is one. Returns an error if the
/// measurement does not decide.
pub(crate) fn reaches(
    goal_kpps: Option<f64>,
    rate: &Figure,
    run: &RunReport,
) -> Result<Answer, Failure> {
    let Some(wanted) = goal_kpps else { return Ok(Answer::Done) };
    let goal = Kpps(wanted);
    let (answer, verb, kpps) = match goal::reaches(wanted, rate, run) {
        Judged::Met(kpps) => (Answer::Done, "met", kpps),
        Judged::Missed(kpps) => (Answer::No, "missed", kpps),
        Judged::CannotTell(doubt) => {
            let why = match doubt {
                Doubt::DeadEnd(end) => format!(", because {}: {end}", end.outcome()),
                Doubt::Within { low, high } => format!(
                    ": {goal} is within the confidence interval of the measured rate, {} to {}; \
                     measure for longer (--time)",
                    Kpps(low),
                    Kpps(high)
                ),
                Doubt::NotMeasured(_) | Doubt::NoInterval => ": no rate was measured".to_owned(),
            };
            return Err(Failure::new(format!("cannot tell whether the goal is met{why}")));
        }
    };
    let dropped = if run.ends_packets() { " (including packets dropped or consumed)" } else { "" };
    say(&format!("linerate: goal {goal}: {verb}, with {} processed{dropped}\n", Kpps(kpps)));
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::stats::Estimate;
    use linerate_record::{Tier, fixtures};

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
    fn a_verdict_sets_the_exit_status() {
        let of = |goal| status(reaches(goal, &hundred("kpps"), &fixtures::run()));
        assert_eq!([None, Some(90.0), Some(100.0), Some(110.0)].map(of), [0, 0, 2, 1]);
        let of = |limit| status(is_prompt(Answer::Done, &hundred("ns"), limit, &Advice::RUN));
        assert_eq!([None, Some(90.0), Some(100.0), Some(110.0)].map(of), [0, 1, 2, 0]);
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
}
