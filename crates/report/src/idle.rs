// SPDX-License-Identifier: MIT OR Apache-2.0
//! The idle policies that a `tune` record proposes, and what they cost and save.

use crate::Style;
use crate::layout::{Paint, labelled};
use crate::value::{ABSENT, clean, quoted, reason};
use linerate_record::tune::{IdleAdvice, IdleTrial, TuneReport};
use linerate_record::units::{Nanos, three_digits};
use linerate_record::{Figure, Scalar};

/// Formats the proposal for each worker with its reason, the comparison with polling, and whether
/// the policies are written to the tuned path file; empty for a path without a rate.
pub(crate) fn of_tune(report: &TuneReport, style: &Style) -> String {
    let Some(advice) = &report.idle else { return String::new() };
    let mut texts: Vec<String> = advice.workers.iter().map(|one| one.sentence.clone()).collect();
    if let Some(unknown) = &advice.unknown {
        texts.push(format!("cannot tell which idle policy suits this load, because {unknown}"));
    }
    if let Some(trial) = &advice.trial {
        texts.push(compared(trial));
        texts.push(written(advice, trial, report.p99_limit_ns));
    }
    let labels = std::iter::once("idle").chain(std::iter::repeat(""));
    let lines = labels.zip(&texts);
    lines.map(|(label, text)| labelled(label, Paint::Head, &clean(text), style)).collect()
}

/// Formats what the policies save and add.
fn compared(trial: &IdleTrial) -> String {
    let cpus = |figure: &Figure| figure.as_number().map_or(ABSENT.to_owned(), three_digits);
    format!(
        "compared with polling at this rate: {} of CPU time saved ({} instead of {}); p50 {}, \
         p99 {}",
        quoted(&trial.cpus_saved, |value| format!("{} CPUs", three_digits(value))),
        cpus(&trial.cpus),
        cpus(&trial.cpus_polling),
        added(&trial.p50_added),
        added(&trial.p99_added),
    )
}

/// Formats a change in latency.
fn added(figure: &Figure) -> String {
    match figure.as_number() {
        Some(ns) if ns < 0.0 => {
            let negative = |value: Option<f64>| value.map(|value| -value);
            let (low, high) = (negative(figure.high), negative(figure.low));
            let saved = Figure { value: Scalar::Number(-ns), low, high, ..figure.clone() };
            format!("{} lower", quoted(&saved, |ns| Nanos(ns).to_string()))
        }
        Some(_) => format!("{} higher", quoted(figure, |ns| Nanos(ns).to_string())),
        None => format!("{ABSENT} ({})", reason(figure)),
    }
}

/// States whether the policies go to the tuned path file, and if not, why.
fn written(advice: &IdleAdvice, trial: &IdleTrial, limit_ns: Option<f64>) -> String {
    if advice.kept {
        return "--out FILE writes the path with these policies".to_owned();
    }
    let saves = trial.cpus_saved.low.is_some_and(|low| low > 0.0);
    let why = match (saves, limit_ns, trial.p99.as_number()) {
        (false, ..) => "it is not certain that the proposed policies save CPU time".to_owned(),
        (true, Some(limit), None) => {
            let limit = Nanos(limit);
            format!("it is unknown whether p99 would stay below {limit} with the proposed policies")
        }
        (true, Some(limit), Some(p99)) if p99 > limit => {
            let (p99, limit) = (Nanos(p99), Nanos(limit));
            format!("with the proposed policies, p99 is {p99}, over the limit of {limit}")
        }
        (true, ..) => {
            let ratio = trial.rate_ratio.as_number();
            format!(
                "with the proposed policies, the rate is {} times that of polling workers",
                ratio.map_or(ABSENT.to_owned(), three_digits)
            )
        }
    };
    format!("--out FILE leaves the idle policies of the path as they are: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::Tier;

    fn exact(unit: &str, value: f64) -> Figure {
        Figure { low: Some(value), ..Figure::exact(unit, value, Tier::Sw, "by hand") }
    }

    fn trial(saved: f64, p99_us: f64, ratio: f64) -> IdleTrial {
        IdleTrial {
            rounds: 6,
            cpus_polling: exact("CPUs", 2.0),
            cpus: exact("CPUs", 2.0 - saved),
            cpus_saved: exact("CPUs", saved),
            p50_added: exact("ns", -2e3),
            p99_added: exact("ns", 40e3),
            p99: exact("ns", p99_us * 1e3),
            rate_ratio: exact("ratio", ratio),
        }
    }

    fn advice(kept: bool) -> IdleAdvice {
        let wake_up = exact("ns", 25e3);
        IdleAdvice {
            wake_up_p50: wake_up.clone(),
            wake_up_p99: wake_up,
            workers: Vec::new(),
            unknown: None,
            trial: None,
            kept,
        }
    }

    #[test]
    fn savings_and_latency_have_their_direction() {
        let text = compared(&trial(1.5, 60.0, 1.0));
        assert!(text.contains("1.5 CPUs"), "{text}");
        assert!(text.contains("(0.5 instead of 2)"), "{text}");
        assert!(text.contains("p50 2 µs"), "{text}");
        assert!(text.contains("lower, p99 40 µs"), "{text}");
        assert!(text.ends_with("higher"), "{text}");
    }

    #[test]
    fn policies_that_are_not_written_have_their_reason() {
        let of = |trial: &IdleTrial, limit| written(&advice(false), trial, limit);
        assert!(of(&trial(-0.1, 60.0, 1.0), None).contains("not certain"));
        let over = of(&trial(1.5, 60.0, 1.0), Some(50e3));
        assert!(over.ends_with("p99 is 60 µs, over the limit of 50 µs"), "{over}");
        let slow = of(&trial(1.5, 60.0, 0.9), None);
        assert!(slow.ends_with("0.9 times that of polling workers"), "{slow}");
        assert!(written(&advice(true), &trial(1.5, 60.0, 1.0), None).starts_with("--out FILE w"));
    }
}
