// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of values, absent values with their reasons, and derived figures.

use crate::rig::{
    command, error, event, events, figure, grant, number, pretending, run, run_watched, run_with,
    shell,
};
use linerate_counters::scripted::{Scripted, refusing};
use linerate_linux::errno::{EACCES, ENOENT};
use linerate_linux::perf::{self, Selector};
use linerate_linux::signal::Pending;
use linerate_record::{Figure, Scalar, Tier};
use linerate_stat::sim::Geometry;
use linerate_stat::{Outcome, Per, Progress, Request, StatError, Watch};
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// Asserts that a missing count has a reason, and is neither 0 nor text.
fn check_absent(figure: &Figure) {
    assert_eq!(figure.value, Scalar::Absent, "{figure:?}");
    assert!(figure.reason.as_ref().is_some_and(|reason| !reason.is_empty()), "{figure:?}");
}

/// Asserts that each event, metric and time has a figure with the same name and value.
fn check_figures(outcome: &Outcome) {
    for event in &outcome.report.events {
        assert_eq!(figure(outcome, &event.name), &event.count);
        assert_eq!(event.raw.is_none(), event.count.as_number().is_none(), "{event:?}");
        assert_eq!(event.raw.is_none(), event.duty.is_none(), "{event:?}");
    }
    for metric in &outcome.report.metrics {
        assert_eq!(figure(outcome, &metric.name), &metric.figure);
    }
}

#[test]
fn without_counters_the_rest_is_counted_and_the_report_says_why() {
    let request = command(&["true"]);
    let outcome = run_with(&request, &pretending(0)).unwrap();
    check_figures(&outcome);
    assert_eq!((outcome.status, outcome.report.tier), (0, Tier::Sw));
    for name in ["cycles", "instructions", "branches", "branch_misses"] {
        check_absent(figure(&outcome, name));
    }
    for name in ["task_clock_ns", "context_switches", "migrations", "page_faults"] {
        assert!(number(figure(&outcome, name)) >= 0.0, "{name}");
    }
    for metric in outcome.report.metrics.iter().filter(|metric| metric.formula.contains("cycles")) {
        check_absent(&metric.figure);
    }
}

#[test]
fn without_perf_events_wait4_still_reports_usage() {
    let outcome = run_with(&shell("/bin/true; exit 3"), &refusing(EACCES)).unwrap();
    check_figures(&outcome);
    assert_eq!(outcome.status, 3);
    for name in ["task_clock_ns", "page_faults", "context_switches"] {
        let figure = figure(&outcome, name);
        assert!(number(figure) > 0.0 || name == "context_switches", "{figure:?}");
        assert!(figure.method.contains("wait4"), "{figure:?}");
        assert_eq!(figure.tier, Tier::Sw);
    }
    check_absent(figure(&outcome, "migrations"));
    check_absent(figure(&outcome, "cycles"));
    assert!(number(figure(&outcome, "cpus_used")) > 0.0);
}

#[test]
fn strict_fails_before_the_command_begins() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("begun");
    let request = Request { strict: true, ..command(&["touch", file.to_str().unwrap()]) };
    let request = events(request, &["task_clock_ns", "cycles"]);
    let error = run_with(&request, &pretending(0)).map(|o| o.report).unwrap_err();
    let StatError::Refused { reason } = &error else { panic!("{error:?}") };
    assert!(reason.starts_with("cycles: ") && reason.lines().count() == 1, "{reason}");
    assert_eq!(error.status(), 125);
    assert!(!file.exists());
    assert_eq!(run_with(&request, &pretending(1)).unwrap().status, 0);
    assert!(file.exists());
}

#[test]
fn an_unknown_name_fails_with_suggestions() {
    let StatError::UnknownName { reason } = error(&events(command(&["true"]), &["instrutcions"]))
    else {
        panic!()
    };
    assert!(reason.contains("`instrutcions`") && reason.contains("instructions"), "{reason}");
    let request = events(command(&["true"]), &["cyclse", "page_faults", "no-such-event"]);
    let StatError::UnknownName { reason } = error(&request) else { panic!() };
    assert!(reason.contains("`cyclse`") && reason.contains("`no-such-event`"), "{reason}");
    let sets = vec!["cahce".to_owned()];
    let StatError::UnknownName { reason } = error(&Request { sets, ..command(&["true"]) }) else {
        panic!()
    };
    assert!(reason.contains("cache"), "{reason}");
}

#[test]
fn an_event_of_a_unit_that_is_not_there_leaves_the_rest() {
    let name = "no_such_unit/event=0x08,umask=0x01/";
    let outcome = run(&events(shell("exit 3"), &[name, "task_clock_ns"]));
    check_figures(&outcome);
    assert_eq!(outcome.status, 3);
    check_absent(figure(&outcome, name));
    assert!(number(figure(&outcome, "task_clock_ns")) > 0.0);
    let malformed = error(&events(shell("exit 3"), &["no_such_unit/event=/"]));
    assert!(matches!(malformed, StatError::UnknownName { .. }), "{malformed:?}");
}

/// The kernel's CPU times begin at fork(2), earlier than the elapsed time.
#[test]
fn one_thread_never_uses_more_than_a_processor() {
    for _ in 0..20 {
        let outcome = run(&events(command(&["true"]), &["page_faults"]));
        let used = figure(&outcome, "cpus_used");
        assert!(number(used) <= 1.0 && used.method.contains("fork(2)"), "{used:?}");
    }
}

/// Uses one process that keeps touching new pages and never forks: a child forked while the kernel
/// switches sets would be counted by both sets until the next switch.
#[test]
fn hardware_events_are_counted_with_one_counter_or_many() {
    let names = ["instructions", "cycles", "branches", "branch_misses", "page_faults"];
    let touch = "exec awk 'BEGIN { for (i = 0; i < 400000; i++) a[i] = i }'";
    let request = events(shell(touch), &names);
    for counters in [4, 2, 1] {
        let opener = pretending(counters);
        let outcome =
            run_with(&Request { slice: Duration::from_millis(1), ..request.clone() }, &opener);
        let outcome = outcome.unwrap();
        check_figures(&outcome);
        assert_eq!(outcome.report.tier, Tier::Hw);
        // All hardware events are page faults here, and each page fault is counted by at most one
        // set.
        let mut by_sets = 0.0;
        let truth = number(figure(&outcome, "page_faults"));
        let rotation = &outcome.report.rotation;
        assert_eq!(
            rotation.as_ref().map(|rotation| rotation.sets.len()),
            match counters {
                4 => None,
                counters => Some(4 / counters),
            }
        );
        for name in &names[..4] {
            let event = event(&outcome, name);
            let count = number(&event.count);
            match counters {
                4 => assert_eq!(count, truth),
                // Scaled by the fraction of time during which the event was counted.
                _ => {
                    let scaled = event.raw.unwrap() as f64 / event.duty.unwrap();
                    assert!((count / scaled - 1.0).abs() < 1e-6, "{event:?} {scaled}");
                }
            }
            by_sets += event.raw.unwrap() as f64 / counters as f64;
        }
        assert!(
            if counters == 4 { by_sets == truth } else { by_sets <= truth },
            "{by_sets} {truth}"
        );
    }
}

#[test]
fn the_multiplexing_plan_is_reported_once_before_counting() {
    let told = RefCell::new(Vec::new());
    let tell = |progress: Progress<'_>| {
        told.borrow_mut().push(match progress {
            Progress::Budget { sets, .. } => format!("budget of {}", sets.len()),
            Progress::Run { done, of } => format!("{done} of {of}"),
            _ => "other".to_owned(),
        });
    };
    let pending = Pending::new();
    let request = events(command(&["true"]), &["cycles", "instructions"]);
    let request = Request { repeat: 2, ..request };
    let watch = Watch { signals: &pending, tell: &tell };
    run_watched(&request, &pretending(1), &watch).unwrap();
    assert_eq!(*told.borrow(), ["budget of 2", "1 of 2", "2 of 2"]);
}

#[test]
fn several_runs_give_a_median_with_its_interval() {
    let request = events(shell("/bin/true; exit 0"), &["page_faults", "task_clock_ns"]);
    let outcome = run(&Request { repeat: 7, ..request });
    check_figures(&outcome);
    assert_eq!(outcome.report.repetitions, 7);
    for name in ["page_faults", "task_clock_ns", "elapsed_s"] {
        let figure = figure(&outcome, name);
        let (low, high) = (figure.low.unwrap(), figure.high.unwrap());
        assert!(low <= number(figure) && number(figure) <= high, "{figure:?}");
        assert_eq!((figure.n, figure.confidence), (7, Some(0.95)));
    }
    let elapsed = number(figure(&outcome, "elapsed_s"));
    assert!(outcome.report.elapsed_s > elapsed, "that of the report is the sum");
    // The median of an odd number of exact counts is one of them.
    let faults = event(&outcome, "page_faults");
    assert_eq!(faults.raw.unwrap() as f64, number(&faults.count));
}

#[test]
fn a_count_of_some_runs_says_of_how_many() {
    let is_lost = Cell::new(false);
    let after_two = |progress: Progress<'_>| {
        if matches!(progress, Progress::Run { done: 2, .. }) {
            is_lost.set(true);
        }
    };
    let request = events(command(&["true"]), &["cycles", "page_faults"]);
    let request = Request { repeat: 3, per: Some(Per::Units(2.0)), ..request };
    let watch = Watch { signals: &Pending::new(), tell: &after_two };
    let losing = Scripted::new(|request: &perf::Request, group: &[Selector]| {
        grant(if is_lost.get() { 0 } else { 4 }, request, group)
    });
    let outcome = run_watched(&request, &losing, &watch).unwrap();
    let method = |name| (figure(&outcome, name).n, figure(&outcome, name).method.as_str());
    assert_eq!(method("cycles"), (2, "median of the 2 of 3 runs that counted the event"));
    assert_eq!(method("page_faults"), (3, "median of 3 runs"));
    let per_unit = figure(&outcome, "cycles_per_unit");
    check_absent(per_unit);
    assert!(!per_unit.reason.as_ref().unwrap().contains("units of work"), "{per_unit:?}");
}

#[test]
fn counts_are_given_per_unit_of_work() {
    let request = || events(command(&["true"]), &["page_faults", "task_clock_ns", "cycles"]);
    let outcome =
        run_with(&Request { per: Some(Per::Units(4.0)), ..request() }, &pretending(0)).unwrap();
    let per_unit = figure(&outcome, "page_faults_per_unit");
    assert_eq!(number(per_unit) * 4.0, number(figure(&outcome, "page_faults")));
    assert_eq!(per_unit.unit, "events/unit");
    check_absent(figure(&outcome, "cycles_per_unit"));

    let per = || Some(Per::Event("minor_faults".to_owned()));
    let outcome = run(&Request { per: per(), repeat: 6, ..request() });
    check_figures(&outcome);
    let unit = outcome.report.unit_of_work.as_ref().unwrap();
    assert_eq!(
        (unit.name.as_str(), &unit.count),
        ("minor_faults", figure(&outcome, "minor_faults"))
    );
    // From the sixth run on, all pages are in the page cache, so there are no major faults.
    let ratio = figure(&outcome, "page_faults_per_minor_faults");
    assert_eq!(number(ratio), 1.0);

    let per = Some(Per::Event("emulation_faults".to_owned()));
    let outcome = run(&Request { per, ..request() });
    check_absent(figure(&outcome, "page_faults_per_emulation_faults"));
}

#[test]
fn intervals_follow_one_another_and_add_up() {
    let request = events(shell("sleep 0.1; sleep 0.1; sleep 0.1; exit 0"), &["page_faults"]);
    let told = RefCell::new(0);
    let tell = |progress: Progress<'_>| {
        *told.borrow_mut() += usize::from(matches!(progress, Progress::Interval { .. }));
    };
    let request = Request { interval: Some(Duration::from_millis(50)), ..request };
    let outcome = request.run(&Watch { signals: &Pending::new(), tell: &tell }).unwrap();
    let intervals = &outcome.report.intervals;
    assert_eq!(*told.borrow(), intervals.len());
    assert!(intervals.len() >= 3, "{intervals:?}");
    assert_eq!(intervals[0].from_s, 0.0);
    assert!(
        intervals
            .windows(2)
            .all(|pair| pair[0].to_s == pair[1].from_s && pair[0].to_s > pair[0].from_s)
    );
    assert_eq!(intervals.last().unwrap().to_s, outcome.report.elapsed_s);
    let sum: f64 = intervals.iter().map(|interval| number(&interval.counts[0])).sum();
    assert_eq!(sum, number(figure(&outcome, "page_faults")));
}

#[test]
fn requests_that_make_no_sense_say_so() {
    use linerate_stat::What;
    let good = || command(&["true"]);
    let (pid, second) = (What::Process(1), Some(Duration::from_secs(1)));
    let sim = Some(Tier::Sim);
    let bad = [
        (Request { what: What::Command { argv: vec![] }, ..good() }, "the command is missing"),
        (Request { what: What::Cpus(vec![]), ..good() }, "CPU list is empty"),
        (Request { per: Some(Per::Units(0.0)), ..good() }, "above 0"),
        (Request { per: Some(Per::Units(f64::NAN)), ..good() }, "above 0"),
        (Request { interval: Some(Duration::ZERO), ..good() }, "longer than 0"),
        (Request { slice: Duration::ZERO, ..good() }, "longer than 0"),
        (Request { repeat: 0, ..good() }, "at least once"),
        (Request { threshold: -0.1, ..good() }, "0 or more"),
        (Request { repeat: 2, what: pid.clone(), ..good() }, "only a command can be repeated"),
        (Request { repeat: 2, interval: second, ..good() }, "drop --repeat"),
        (Request { repeat: 2, threads: true, ..good() }, "drop --repeat"),
        (Request { threads: true, what: What::Cpus(vec![0]), ..good() }, "not to CPUs"),
        (Request { tier: Some(Tier::Model), ..good() }, "hw, user, sw or sim"),
        (Request { caches: Geometry::named("arm1176").ok(), ..good() }, "--tier sim"),
        (Request { tier: sim, what: pid, ..good() }, "from its start"),
        (Request { tier: sim, interval: second, ..good() }, "neither per interval"),
        (Request { tier: sim, threads: true, ..good() }, "nor per thread"),
    ];
    for (request, part) in bad {
        let error = error(&request);
        assert!(matches!(error, StatError::BadRequest { .. }), "{request:?}: {error:?}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let opener = refusing(ENOENT);
    let request = Request { tier: Some(Tier::Sw), ..events(good(), &["cycles"]) };
    let outcome = run_with(&request, &opener).unwrap();
    assert!(event(&outcome, "cycles").fix.as_ref().unwrap().contains("--tier sw"));
}
