// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts running processes, their threads, and CPUs.

use crate::rig::{error, event, events, figure, number, pretending, run, run_with, shell};
use linerate_record::Derive;
use linerate_stat::{Request, StatError, What};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const CLOCK: [&str; 2] = ["task_clock_ns", "context_switches"];

/// A process that is killed when the test ends.
struct Killed(Child);

impl Killed {
    fn sh(script: &str) -> Self {
        Self(Command::new("sh").args(["-c", script]).spawn().unwrap())
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn counts_a_process_for_a_time_without_stopping_it() {
    let mut busy = Killed::sh("while :; do :; done");
    let at_most = Some(Duration::from_millis(100));
    let request = Request { at_most, ..Request::new(What::Process(busy.0.id())) };
    let outcome = run(&events(request, &CLOCK));
    assert_eq!((outcome.status, outcome.report.ended), (0, None));
    let clock = number(figure(&outcome, "task_clock_ns"));
    assert!(clock > 0.0 && clock <= outcome.report.elapsed_s * 1.01e9, "{clock}");
    assert_eq!(busy.0.try_wait().unwrap(), None);
}

#[test]
fn counting_ends_with_the_process() {
    let short = Killed::sh("sleep 0.2");
    let outcome = run(&events(Request::new(What::Process(short.0.id())), &CLOCK));
    assert_eq!(outcome.status, 0);
    assert!(outcome.report.elapsed_s < 30.0);
}

#[test]
fn what_is_not_there_is_not_counted() {
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    for what in [What::Process(gone.id()), What::Process(u32::MAX), What::Cpus(vec![99_999])] {
        let error = error(&events(Request::new(what.clone()), &CLOCK));
        assert!(matches!(error, StatError::NoTarget { .. }), "{what:?}: {error:?}");
        assert_eq!(error.status(), 125);
    }
}

#[test]
fn a_processor_is_counted() {
    let at_most = Some(Duration::from_millis(100));
    let request = Request { at_most, ..Request::new(What::Cpus(vec![0])) };
    let outcome = run(&events(request, &["cpu_clock_ns", "page_faults"]));
    let clock = event(&outcome, "cpu_clock_ns");
    match clock.raw {
        Some(ns) => assert!(ns as f64 >= 0.09e9, "{ns} ns of processor 0 in 100 ms"),
        // Without permission to count whole CPUs.
        None => assert!(clock.fix.is_some() && clock.count.reason.is_some()),
    }
    assert!(!outcome.report.figures().contains_key("cpus_used"));
}

#[test]
fn threads_and_the_others_add_up_to_the_process() {
    let stop = AtomicBool::new(false);
    let busy = || {
        while !stop.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    };
    let outcome = std::thread::scope(|scope| {
        let spawn = |name: &str| {
            std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, busy).unwrap();
        };
        ["busy-1", "busy-2"].into_iter().for_each(spawn);
        let at_most = Some(Duration::from_millis(150));
        let what = What::Process(std::process::id());
        let request = Request { at_most, threads: true, ..Request::new(what) };
        let outcome = run(&events(request, &CLOCK));
        stop.store(true, Ordering::Relaxed);
        outcome
    });
    let rows = &outcome.report.threads;
    for name in ["busy-1", "busy-2"] {
        let row = rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{rows:?}"));
        assert!(number(&row.counts[0]) > 0.0, "{row:?}");
    }
    let last = rows.last().unwrap();
    assert_eq!((last.tid, last.name.as_str()), (0, "(others)"));
    // A running thread is read slightly earlier than the total that includes it.
    let sum: f64 = rows.iter().map(|row| number(&row.counts[0])).sum();
    let whole = number(figure(&outcome, "task_clock_ns"));
    assert!((sum / whole - 1.0).abs() < 0.05, "{sum} of {whole}");
}

#[test]
fn the_threads_of_a_command_are_counted_from_its_start() {
    let request = Request { threads: true, ..shell("sh -c :; sh -c :; exit 0") };
    let outcome = run(&events(request, &["page_faults"]));
    let rows = &outcome.report.threads;
    assert_eq!(rows.len(), 2, "{rows:?}");
    let (shell, others) = (number(&rows[0].counts[0]), number(&rows[1].counts[0]));
    assert!(shell > 0.0 && others > 0.0);
    assert_eq!(shell + others, number(figure(&outcome, "page_faults")));
}

/// With six counters, four events can be counted for the process, but not for its threads too.
#[test]
fn the_events_of_threads_take_turns_with_those_of_the_process() {
    let names = ["cycles", "instructions", "branches", "branch_misses"];
    // Long enough for each of them to have its turn.
    let command = "i=0; while [ $i -lt 200 ]; do sh -c :; i=$((i + 1)); done";
    let counted = |threads| {
        let request = Request { threads, ..events(shell(command), &names) };
        run_with(&request, &pretending(6)).unwrap().report
    };
    assert_eq!(counted(false).rotation, None);
    let report = counted(true);
    let sets = report.rotation.expect("the events take turns").sets;
    assert_eq!(sets, [["branches"], ["branch_misses"]]);
    let others = report.threads.last().unwrap();
    assert!(others.counts[0].as_number().is_some(), "{others:?}");
    let reason = others.counts[3].reason.as_ref().unwrap();
    assert!(reason.contains("cannot be subtracted"), "{reason}");
}
