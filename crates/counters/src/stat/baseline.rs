// SPDX-License-Identifier: MIT OR Apache-2.0
//! What changed since an earlier record, and whether it got worse.
//!
//! Every figure that both records have is compared. Worse can only be a *cost*: an event, or the
//! time that passed; where both records have counts per unit of work, these are the costs, not the
//! totals, and the time is one only if both had as many units. A cost that one of the two records
//! has and the other has not is warned of. A cost is a regression when it grew by the threshold or more, beyond doubt:
//!
//! ```text
//! low(now) >= high(before) * (1 + threshold)    and    value(now) > value(before)
//! ```
//!
//! The ends of a simulated count are the count: it is exact. Any other count without an interval
//! may differ by more than the threshold from one run to the next for no reason at all, so there is
//! no verdict, and the warning says how to get one. Nor is there one between tiers, or between
//! caches. Left out: metrics have no verdict, since more of them may be better.

use linerate_record::stat::{BaselineChange, StatReport, UnitOfWork};
use linerate_record::{Body, Figure, Record, Tier, Warning};
use std::collections::BTreeMap;

/// Exact numbers are divided and multiplied again; this is what may get lost.
const ROUNDING: f64 = 1e-12;

/// What came of it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Comparison {
    /// Figures in both, by name.
    pub(super) changes: Vec<BaselineChange>,
    /// Costs without a verdict, and why.
    pub(super) warnings: Vec<Warning>,
}

/// Compares `figures`, which belong to `report`, with those of `before`.
pub(super) fn compare(
    report: &StatReport,
    figures: &BTreeMap<String, Figure>,
    before: &Record,
    threshold: f64,
) -> Comparison {
    let mut comparison = Comparison::default();
    let (mut without_interval, mut on_other_grounds) = (Vec::new(), Vec::new());
    let mut in_one_only = Vec::new();
    let costs = costs(report, figures, before);
    let same_caches = matches!(&before.body, Body::Stat(old) if old.caches == report.caches);
    for (name, now) in figures {
        let then = before.figures.get(name);
        let (new, old) = (now.as_number(), then.and_then(Figure::as_number));
        if costs.contains(name) && new.is_some() != old.is_some() {
            in_one_only.push(name.clone());
        }
        let (Some(new), Some(then), Some(old)) = (new, then, old) else { continue };
        let mut is_regression = false;
        if costs.contains(name) {
            if now.tier != then.tier || now.tier == Tier::Sim && !same_caches {
                on_other_grounds.push(name.clone());
            } else if let (Some(low), Some(high)) = (low(now), high(then)) {
                let limit = high * (1.0 + threshold) * (1.0 - ROUNDING);
                is_regression = new > old && low >= limit;
            } else {
                without_interval.push(name.clone());
            }
        }
        let change = (old != 0.0).then(|| new / old - 1.0);
        let name = name.clone();
        comparison.changes.push(BaselineChange {
            name,
            before: old,
            now: new,
            change,
            is_regression,
        });
    }
    if !without_interval.is_empty() {
        comparison.warnings.push(Warning::NoVerdictWithoutInterval { names: without_interval });
    }
    if !on_other_grounds.is_empty() {
        comparison.warnings.push(Warning::NoVerdictOnOtherGrounds { names: on_other_grounds });
    }
    if !in_one_only.is_empty() {
        comparison.warnings.push(Warning::NoVerdictWithoutCount { names: in_one_only });
    }
    comparison
}

/// The figures of which more is worse.
fn costs(report: &StatReport, now: &BTreeMap<String, Figure>, before: &Record) -> Vec<String> {
    let unit = report.unit_of_work.as_ref();
    let old_unit = match &before.body {
        Body::Stat(old) => old.unit_of_work.as_ref(),
        _ => None,
    };
    let units = |unit: &UnitOfWork| unit.count.as_number();
    let is_same_work = match (unit, old_unit) {
        (Some(unit), Some(old)) => units(unit) == units(old),
        _ => true,
    };
    let cost = |name: &String| {
        let per_unit = unit.map(|unit| super::per_unit_name(name, &unit.name));
        per_unit
            .filter(|name| now.contains_key(name) && before.figures.contains_key(name))
            .unwrap_or_else(|| name.clone())
    };
    let time = is_same_work.then(|| super::ELAPSED.to_owned());
    report.events.iter().map(|event| cost(&event.name)).chain(time).collect()
}

/// Whether it was simulated, and the same in each run: a median of too few runs has no ends either,
/// but a confidence.
fn is_exact(figure: &Figure) -> bool {
    figure.tier == Tier::Sim && figure.confidence.is_none()
}

fn low(figure: &Figure) -> Option<f64> {
    if is_exact(figure) { figure.as_number() } else { figure.low }
}

fn high(figure: &Figure) -> Option<f64> {
    if is_exact(figure) { figure.as_number() } else { figure.high }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::Provenance;
    use linerate_record::stat::{EventCount, StatTarget, UnitOfWork};
    use linerate_record::stats::Estimate;

    fn exact(value: f64) -> Figure {
        Figure::exact("events", value, Tier::Sim, "counted")
    }

    fn spread(value: f64, low: f64, high: f64) -> Figure {
        let estimate = Estimate { value, low, high, confidence: 0.95, n: 7 };
        Figure::number("events", estimate, Tier::Hw, "median of 7 runs")
    }

    fn event(name: &str, count: &Figure) -> EventCount {
        EventCount {
            name: name.to_owned(),
            native: None,
            raw: None,
            count: count.clone(),
            duty: None,
            periods: None,
            per_unit: None,
            fix: None,
        }
    }

    fn report(instructions: &Figure) -> StatReport {
        StatReport {
            target: StatTarget::Command { argv: Vec::new() },
            tier: Tier::Sim,
            tier_asked: true,
            event_table: String::new(),
            is_known_processor: true,
            caches: None,
            elapsed_s: 1.0,
            ended: None,
            is_interrupted: false,
            repetitions: 1,
            unit_of_work: None,
            rotation: None,
            events: vec![event("instructions", instructions)],
            metrics: Vec::new(),
            intervals: Vec::new(),
            threads: Vec::new(),
            baseline: Vec::new(),
        }
    }

    fn record(figures: &[(&str, Figure)]) -> Record {
        let instructions = &figures[0].1;
        Record {
            provenance: Provenance {
                program: String::new(),
                commit: None,
                compiler: String::new(),
                command: String::new(),
                unix_seconds: 0,
                architecture: String::new(),
                cpu: None,
                cpus: Vec::new(),
                kernel: None,
                hypervisor: None,
                emulated: None,
                load_1min: None,
                ticks_per_second: None,
            },
            figures: named(figures),
            warnings: Vec::new(),
            body: Body::Stat(Box::new(report(instructions))),
        }
    }

    fn named(figures: &[(&str, Figure)]) -> BTreeMap<String, Figure> {
        figures.iter().map(|(name, figure)| ((*name).to_owned(), figure.clone())).collect()
    }

    /// The verdict on `instructions`; `None` if there is none.
    fn verdict(before: Figure, now: Figure) -> Option<bool> {
        let before = record(&[("instructions", before)]);
        let figures = [("instructions", now)];
        let comparison = compare(&report(&figures[0].1), &named(&figures), &before, 0.001);
        assert_eq!(comparison.changes.len(), 1);
        comparison.warnings.is_empty().then_some(comparison.changes[0].is_regression)
    }

    #[test]
    fn an_exact_cost_is_judged_to_the_last_digit() {
        // 0.1 % more, exactly and barely less; then numbers that no sum of binary fractions gives.
        assert_eq!(verdict(exact(1_000_000.0), exact(1_001_000.0)), Some(true));
        assert_eq!(verdict(exact(1_000_000.0), exact(1_000_999.0)), Some(false));
        assert_eq!(verdict(exact(1_000_000.0), exact(900_000.0)), Some(false));
        for n in 1..2000_u32 {
            let before = f64::from(n) * 1000.0;
            assert_eq!(verdict(exact(before), exact(before + f64::from(n))), Some(true), "{n}");
        }
        assert_eq!(verdict(exact(0.0), exact(0.0)), Some(false));
        assert_eq!(verdict(exact(0.0), exact(1.0)), Some(true));
    }

    #[test]
    fn intervals_must_be_apart_by_more_than_the_threshold() {
        let before = || spread(1000.0, 990.0, 1010.0);
        assert_eq!(verdict(before(), spread(1030.0, 1012.0, 1050.0)), Some(true));
        // Apart, but by 0.05 %; overlapping; better.
        assert_eq!(verdict(before(), spread(1030.0, 1010.5, 1050.0)), Some(false));
        assert_eq!(verdict(before(), spread(1030.0, 1009.0, 1050.0)), Some(false));
        assert_eq!(verdict(before(), spread(500.0, 490.0, 510.0)), Some(false));
    }

    #[test]
    fn without_an_interval_or_a_common_ground_there_is_no_verdict() {
        let once = |value| Figure::exact("events", value, Tier::Hw, "counted");
        assert_eq!(verdict(once(1000.0), once(2000.0)), None);
        assert_eq!(verdict(spread(1000.0, 990.0, 1010.0), once(2000.0)), None);
        assert_eq!(verdict(exact(1000.0), spread(2000.0, 1990.0, 2010.0)), None);
    }

    #[test]
    fn the_cost_per_unit_of_work_counts_where_both_have_it() {
        let figures = |total: f64, each: f64| {
            [("instructions", exact(total)), ("instructions_per_packets", exact(each))]
        };
        let before = record(&figures(1000.0, 10.0));
        let mut report = report(&exact(3000.0));
        report.unit_of_work = Some(UnitOfWork { name: "packets".to_owned(), count: exact(300.0) });
        let regressions = |now: &[(&str, Figure)]| -> Vec<bool> {
            let comparison = compare(&report, &named(now), &before, 0.001);
            comparison.changes.iter().map(|change| change.is_regression).collect()
        };
        assert_eq!(regressions(&figures(3000.0, 10.0)), [false, false]);
        assert_eq!(regressions(&figures(900.0, 11.0)), [false, true]);
        // Here the baseline has no such unit.
        assert_eq!(regressions(&figures(3000.0, 10.0)[..1]), [true]);
    }

    #[test]
    fn simulated_counts_that_differ_from_run_to_run_are_not_exact() {
        let ends = (f64::NEG_INFINITY, f64::INFINITY);
        let median = |value| Figure { tier: Tier::Sim, ..spread(value, ends.0, ends.1) };
        assert_eq!(verdict(median(1000.0), median(2000.0)), None);
        assert_eq!(verdict(exact(1000.0), median(2000.0)), None);
    }

    #[test]
    fn the_time_of_more_work_is_no_regression() {
        let figures = |time: f64| {
            [
                ("instructions", exact(1000.0)),
                ("instructions_per_unit", exact(10.0)),
                ("elapsed_s", spread(time, time - 0.1, time + 0.1)),
            ]
        };
        let of = |units: f64| UnitOfWork { name: "unit".to_owned(), count: exact(units) };
        let mut before = record(&figures(1.0));
        let Body::Stat(old) = &mut before.body else { panic!("made so") };
        old.unit_of_work = Some(of(100.0));
        let is_slower = |units: f64| {
            let mut report = report(&exact(1000.0));
            report.unit_of_work = Some(of(units));
            let comparison = compare(&report, &named(&figures(2.0)), &before, 0.001);
            comparison.changes.iter().any(|change| change.is_regression)
        };
        assert!(is_slower(100.0) && !is_slower(200.0));
    }

    #[test]
    fn a_cost_that_one_record_has_alone_is_warned_of() {
        let absent = Figure::absent("events", Tier::Hw, "counted", "no counter");
        let warned = |before: Figure, now: &[(&str, Figure)]| {
            let before = record(&[("instructions", before)]);
            compare(&report(&exact(1.0)), &named(now), &before, 0.001).warnings
        };
        let names = vec!["instructions".to_owned()];
        let warning = [Warning::NoVerdictWithoutCount { names }];
        assert_eq!(warned(exact(1.0), &[("instructions", absent.clone())]), warning);
        assert_eq!(warned(absent.clone(), &[("instructions", exact(1.0))]), warning);
        assert_eq!(warned(absent.clone(), &[("instructions", absent)]), []);
        // What was not asked for, or is no cost, is nobody's loss.
        assert_eq!(warned(exact(1.0), &[("ipc", exact(1.0))]), []);
    }

    #[test]
    fn metrics_change_without_a_verdict() {
        let before = record(&[("instructions", exact(1.0)), ("ipc", exact(1.0))]);
        let now = named(&[("instructions", exact(1.0)), ("ipc", exact(2.0)), ("new", exact(1.0))]);
        let comparison = compare(&report(&exact(1.0)), &now, &before, 0.001);
        let changes: Vec<(&str, Option<f64>, bool)> = comparison
            .changes
            .iter()
            .map(|change| (change.name.as_str(), change.change, change.is_regression))
            .collect();
        assert_eq!(changes, [("instructions", Some(0.0), false), ("ipc", Some(1.0), false)]);
        assert!(comparison.warnings.is_empty());
    }
}
