// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes since an earlier record, with verdicts.
//!
//! Every figure in both records is compared. Only *costs* can regress: events and the elapsed time.
//! If both records have counts per unit of work, those are the costs rather than the totals, and
//! the elapsed time is a cost only if both had the same number of units. A cost that only one of
//! the records has a value for is listed without a change. A cost has regressed if the intervals
//! show that it grew by at least the threshold:
//!
//! ```text
//! low(now) >= high(before) * (1 + threshold)    and    value(now) > value(before)
//! ```
//!
//! Simulated counts are exact: both ends of the interval equal the count. Any other count without
//! an interval may vary by more than the threshold between runs, so it gets no verdict, and a
//! warning says how to get one. Counts from different tiers or with different simulated caches get
//! no verdict either. If no cost could be compared, there is no verdict at all, which is a failure,
//! not a pass. Metrics get no verdict, since higher may be better.

use linerate_record::derive::per_unit_name;
use linerate_record::stat::{BaselineChange, BaselineOf, Judged, StatReport, UnitOfWork};
use linerate_record::{Body, Figure, Figures, Record, Tier};

/// Tolerance for rounding errors, because exact counts are divided and then multiplied again.
const ROUNDING: f64 = 1e-12;

/// Returns the earlier record's target, tier, caches and environment; `None` if it is not a record
/// of counts.
pub(crate) fn baseline_of(before: &Record) -> Option<BaselineOf> {
    let Body::Stat(report) = &before.body else { return None };
    Some(BaselineOf {
        target: report.target.clone(),
        tier: report.tier,
        caches: report.caches.clone(),
        environment: report.environment,
    })
}

/// Compares `figures`, which belong to `report`, by name with those in `before`. The result
/// contains the figures with values in both and, of the costs, also those with a value in only one.
pub(crate) fn compare(
    report: &StatReport,
    figures: &Figures,
    before: &Record,
    threshold: f64,
) -> Vec<BaselineChange> {
    let before_figures = before.figures();
    let costs = costs(report, figures, before, &before_figures);
    let same_caches = matches!(&before.body, Body::Stat(old) if old.caches == report.caches);
    let change = |(name, now): (&String, &Figure)| {
        let then = before_figures.get(name);
        let (new, old) = (now.as_number(), then.and_then(Figure::as_number));
        let judged = match costs.contains(name) {
            true if new.is_none() && old.is_none() => return None,
            true => judged(now, then, same_caches),
            false if new.is_none() || old.is_none() => return None,
            false => Judged::NoCost,
        };
        let is_worse = || {
            let (low, high) = (low(now)?, high(then?)?);
            Some(new? > old? && low >= high * (1.0 + threshold) * (1.0 - ROUNDING))
        };
        Some(BaselineChange {
            name: name.clone(),
            before: old,
            now: new,
            change: new.zip(old).filter(|(_, old)| *old != 0.0).map(|(new, old)| new / old - 1.0),
            is_regression: judged == Judged::Yes && is_worse() == Some(true),
            judged,
        })
    };
    figures.iter().filter_map(change).collect()
}

/// Determines whether a cost can get a verdict and, if not, why not.
fn judged(now: &Figure, then: Option<&Figure>, same_caches: bool) -> Judged {
    let then = then.filter(|then| then.as_number().is_some());
    match (now.as_number(), then) {
        (None, _) => Judged::NotCountedNow,
        (_, None) => Judged::NotCountedBefore,
        (_, Some(then)) if now.tier != then.tier => Judged::OtherTier,
        _ if now.tier == Tier::Sim && !same_caches => Judged::OtherCaches,
        (_, Some(then)) if low(now).is_none() || high(then).is_none() => Judged::NoInterval,
        _ => Judged::Yes,
    }
}

/// Returns why no cost got a verdict; `None` if at least one did.
pub(crate) fn failure(changes: &[BaselineChange]) -> Option<String> {
    if changes.iter().any(|change| change.judged == Judged::Yes) {
        return None;
    }
    let costs = changes.iter().filter(|change| change.judged != Judged::NoCost).count();
    Some(format!(
        "cannot tell whether there is a regression: 0 of {costs} figures are comparable with the \
         baseline; record both with the same events, --tier and --caches, and either simulate \
         (--tier sim) or pass --repeat 6 or more"
    ))
}

/// Returns the names of the costs, i.e. of the figures in `now` that are worse when higher.
fn costs(report: &StatReport, now: &Figures, before: &Record, then: &Figures) -> Vec<String> {
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
        let per_unit = unit.map(|unit| per_unit_name(name, &unit.name));
        per_unit
            .filter(|name| now.contains_key(name) && then.contains_key(name))
            .unwrap_or_else(|| name.clone())
    };
    let time = is_same_work.then(|| super::ELAPSED.to_owned());
    report.events.iter().map(|event| cost(&event.name)).chain(time).collect()
}

/// Returns whether a figure was simulated and equal in every run, in which case it has no
/// confidence. A median of too few runs has a confidence, although it has no interval.
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
    use linerate_record::stat::{CacheShape, EventCount, SimulatedCaches, UnitOfWork};
    use linerate_record::stats::Estimate;
    use linerate_record::{Derive, Provenance, Warning, fixtures};

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
            tier: Tier::Sim,
            tier_asked: true,
            events: vec![event("instructions", instructions)],
            environment: None,
            metrics: Vec::new(),
            times: Figures::new(),
            ..fixtures::stat()
        }
    }

    fn record(figures: &[(&str, Figure)]) -> Record {
        let report = StatReport { times: named(figures), ..report(&figures[0].1) };
        Record { provenance: Provenance::default(), body: Body::Stat(Box::new(report)) }
    }

    /// Returns the warnings that these changes cause.
    fn warnings(changes: &[BaselineChange]) -> Vec<Warning> {
        let report = StatReport { baseline: changes.to_vec(), ..report(&exact(1.0)) };
        report.warnings(&Provenance::default())
    }

    fn named(figures: &[(&str, Figure)]) -> Figures {
        figures.iter().map(|(name, figure)| ((*name).to_owned(), figure.clone())).collect()
    }

    /// Returns the verdict on `instructions`, if any.
    fn verdict(before: Figure, now: Figure) -> Option<bool> {
        let before = record(&[("instructions", before)]);
        let figures = [("instructions", now)];
        let changes = compare(&report(&figures[0].1), &named(&figures), &before, 0.001);
        assert_eq!(changes.len(), 1);
        let BaselineChange { judged, is_regression, .. } = changes[0];
        assert_eq!(judged == Judged::Yes, warnings(&changes).is_empty());
        assert_eq!(judged == Judged::Yes, failure(&changes).is_none());
        (judged == Judged::Yes).then_some(is_regression)
    }

    #[test]
    fn an_exact_cost_is_judged_to_the_last_digit() {
        // Exactly 0.1 % more, then slightly less than that; then numbers without an exact binary
        // representation.
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
        // Disjoint intervals, but only 0.05 % apart; overlapping intervals; an improvement.
        assert_eq!(verdict(before(), spread(1030.0, 1010.5, 1050.0)), Some(false));
        assert_eq!(verdict(before(), spread(1030.0, 1009.0, 1050.0)), Some(false));
        assert_eq!(verdict(before(), spread(500.0, 490.0, 510.0)), Some(false));
        // Counts that were equal in all runs.
        let equal = |count| spread(count, count, count);
        assert_eq!(verdict(equal(120.0), equal(240.0)), Some(true));
        assert_eq!(verdict(equal(120.0), equal(120.0)), Some(false));
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
            let changes = compare(&report, &named(now), &before, 0.001);
            changes.iter().map(|change| change.is_regression).collect()
        };
        assert_eq!(regressions(&figures(3000.0, 10.0)), [false, false]);
        assert_eq!(regressions(&figures(900.0, 11.0)), [false, true]);
        // A baseline without a unit of work.
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
    fn more_work_is_not_a_regression() {
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
            let changes = compare(&report, &named(&figures(2.0)), &before, 0.001);
            changes.iter().any(|change| change.is_regression)
        };
        assert!(is_slower(100.0) && !is_slower(200.0));
    }

    #[test]
    fn a_cost_that_one_record_has_alone_is_warned_of() {
        let absent = Figure::absent("events", Tier::Hw, "counted", "no counter");
        let warned = |before: Figure, now: &[(&str, Figure)]| {
            let before = record(&[("instructions", before)]);
            warnings(&compare(&report(&exact(1.0)), &named(now), &before, 0.001))
        };
        let names = vec!["instructions".to_owned()];
        let warning = [Warning::NoVerdictWithoutCount { names }];
        assert_eq!(warned(exact(1.0), &[("instructions", absent.clone())]), warning);
        assert_eq!(warned(absent.clone(), &[("instructions", exact(1.0))]), warning);
        assert_eq!(warned(absent.clone(), &[("instructions", absent)]), []);
        // No warning for a missing figure that was not requested or is not a cost.
        assert_eq!(warned(exact(1.0), &[("ipc", exact(1.0))]), []);
    }

    #[test]
    fn metrics_change_without_a_verdict() {
        let before = record(&[("instructions", exact(1.0)), ("ipc", exact(1.0))]);
        let now = named(&[("instructions", exact(1.0)), ("ipc", exact(2.0)), ("new", exact(1.0))]);
        let all = compare(&report(&exact(1.0)), &now, &before, 0.001);
        let changes: Vec<(&str, Option<f64>, bool)> = all
            .iter()
            .map(|change| (change.name.as_str(), change.change, change.is_regression))
            .collect();
        assert_eq!(changes, [("instructions", Some(0.0), false), ("ipc", Some(1.0), false)]);
        assert_eq!(all[1].judged, Judged::NoCost);
        assert!(warnings(&all).is_empty());
    }

    /// A regression gate must not pass because nothing was compared.
    #[test]
    fn every_cost_has_a_verdict_and_none_fails() {
        let absent = Figure::absent("events", Tier::Hw, "counted", "no counter");
        let once = Figure::exact("events", 7.0, Tier::Sw, "counted");
        let before = record(&[("instructions", exact(1e6)), ("page_faults", once.clone())]);
        let now = [("instructions", absent), ("page_faults", once), ("elapsed_s", exact(1.0))];
        let mut report = report(&now[0].1);
        report.events.push(event("page_faults", &now[1].1));
        let changes = compare(&report, &named(&now), &before, 0.001);
        let judged: Vec<_> = changes.iter().map(|c| (c.name.as_str(), c.judged)).collect();
        let wanted = [
            ("elapsed_s", Judged::NotCountedBefore),
            ("instructions", Judged::NotCountedNow),
            ("page_faults", Judged::NoInterval),
        ];
        assert_eq!(judged, wanted);
        assert_eq!((changes[1].before, changes[1].now, changes[1].change), (Some(1e6), None, None));
        assert!(failure(&changes).unwrap().contains("0 of 3 figures are comparable"));
        // No verdict either if the records have nothing in common.
        assert_eq!(compare(&report, &named(&[("ipc", exact(1.0))]), &before, 0.001), []);
        assert!(failure(&[]).is_some());
    }

    #[test]
    fn distinguishes_other_caches_from_another_tier() {
        let before = record(&[("instructions", exact(1.0))]);
        let now = named(&[("instructions", exact(2.0))]);
        let mut report = report(&exact(2.0));
        let shape = CacheShape { bytes: 1024, ways: 1, line_bytes: 64 };
        report.caches = Some(SimulatedCaches {
            name: "other".to_owned(),
            i1: shape,
            d1: shape,
            ll: shape,
            note: String::new(),
            machine: None,
        });
        let judged = |now| compare(&report, &now, &before, 0.001)[0].judged;
        assert_eq!(judged(now), Judged::OtherCaches);
        assert_eq!(judged(named(&[("instructions", spread(2.0, 1.0, 3.0))])), Judged::OtherTier);
        let of = baseline_of(&before).unwrap();
        assert_eq!((of.tier, of.caches, of.environment), (Tier::Sim, None, None));
    }
}
