// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests simulated counts through the same request interface. Without Valgrind, checks that the
//! reason is reported.

use crate::rig::{command, event, events, figure, number, run, shell, watch};
use linerate_linux::signal::{Caught, KILL, Pending};
use linerate_record::stat::Judged;
use linerate_record::{Body, Derive, Provenance, Record, Tier, Warning};
use linerate_stat::sim::Geometry;
use linerate_stat::{Outcome, Request, StatError};

/// Runs the request; `None` if there is no simulator.
fn simulated(request: Request) -> Option<Outcome> {
    let request = Request { tier: Some(Tier::Sim), ..request };
    match request.run(&watch(&Pending::new())) {
        Ok(outcome) => Some(outcome),
        Err(error @ StatError::NoSimulator { .. }) => {
            assert!(error.to_string().contains("valgrind"), "{error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn count_to(n: u32) -> Request {
    let script = format!("i=0; while [ $i -lt {n} ]; do i=$((i+1)); done; exit 0");
    events(shell(&script), &["instructions", "cycles"])
}

fn record(outcome: &Outcome) -> Box<Record> {
    Box::new(Record {
        provenance: Provenance::default(),
        body: Body::Stat(Box::new(outcome.report.clone())),
    })
}

fn warnings(outcome: &Outcome) -> Vec<Warning> {
    outcome.report.warnings(&Provenance::default())
}

#[test]
fn a_tenth_of_a_percent_more_is_a_regression_and_less_is_not() {
    let Some(before) = simulated(count_to(5000)) else { return };
    let instructions = event(&before, "instructions");
    assert_eq!((instructions.count.tier, instructions.count.low), (Tier::Sim, None));
    let cycles = event(&before, "cycles");
    assert!(cycles.raw.is_none() && cycles.count.reason.is_some());
    let compared = |n: u32| {
        let baseline = Some(record(&before));
        simulated(Request { baseline, ..count_to(n) }).unwrap()
    };
    // The numbers have equally many digits, so that only the loop differs: 0.2 % longer, 0.04 %
    // longer, equal.
    let (more, little, same) = (compared(5010), compared(5002), compared(5000));
    assert_eq!((more.status, little.status, same.status), (1, 0, 0));
    let change = &more.report.baseline[0];
    assert_eq!((change.name.as_str(), change.is_regression), ("instructions", true));
    assert!(change.change.unwrap() >= 0.001, "{change:?}");
    assert_eq!(same.report.baseline[0].change, Some(0.0));
    assert_eq!(warnings(&same), []);
}

/// Kills the simulator as the kernel does when it is out of memory.
#[test]
fn a_simulator_that_was_killed_leaves_a_report() {
    let pending = Pending::new();
    pending.put(Caught { number: KILL, is_from_kernel: false });
    let tier = Some(Tier::Sim);
    let request =
        Request { tier, ..events(command(&["sleep", "60"]), &["instructions", "cycles"]) };
    let outcome = match request.run(&watch(&pending)) {
        Err(StatError::NoSimulator { .. }) => return,
        outcome => outcome.unwrap(),
    };
    assert_eq!((outcome.status, outcome.failure.as_deref()), (128 + KILL, None));
    let reason = |name| event(&outcome, name).count.reason.clone().unwrap();
    assert!(reason("instructions").contains("killed"), "{}", reason("instructions"));
    assert!(reason("cycles").contains("no clock"), "{}", reason("cycles"));
}

#[test]
fn other_caches_are_no_ground_for_a_verdict() {
    let misses = || events(command(&["true"]), &["instructions", "l1d_misses"]);
    let Some(before) = simulated(misses()) else { return };
    let (caches, baseline) = (Geometry::named("arm1176").ok(), Some(record(&before)));
    let outcome = simulated(Request { caches, baseline, ..misses() }).unwrap();
    let names = vec!["instructions".to_owned(), "l1d_misses".to_owned()];
    assert_eq!(warnings(&outcome), [Warning::NoVerdictOnOtherGrounds { names }]);
    assert_eq!(outcome.status, 125);
    assert!(outcome.failure.as_ref().unwrap().contains("0 of 2 figures"), "{:?}", outcome.failure);
    assert!(outcome.report.baseline.iter().all(|change| change.judged == Judged::OtherCaches));
    assert_eq!(outcome.report.caches.as_ref().unwrap().name, "arm1176");
    let (now, then) = (figure(&outcome, "l1d_misses"), figure(&before, "l1d_misses"));
    assert!(number(now) > number(then), "a 16 KiB cache misses more often than this machine's");
}

/// A regression gate must not pass because `--tier sim` was forgotten.
#[test]
fn no_verdict_between_different_tiers() {
    let Some(before) = simulated(events(command(&["true"]), &["instructions"])) else { return };
    let baseline = Some(record(&before));
    let outcome = run(&Request { baseline: baseline.clone(), ..command(&["true"]) });
    assert_eq!(outcome.status, 125);
    assert!(outcome.failure.as_ref().unwrap().contains("0 of "), "{:?}", outcome.failure);
    let of = outcome.report.baseline_of.as_ref().unwrap();
    assert_eq!((of.tier, of.environment), (Tier::Sim, outcome.report.environment));
    assert_eq!(run(&Request { baseline, ..shell("exit 3") }).status, 3, "the command's own");
}

#[test]
fn the_time_of_a_simulation_may_be_up() {
    let at_most = Some(std::time::Duration::from_millis(1));
    let Some(outcome) = simulated(Request { at_most, ..count_to(100_000_000) }) else { return };
    assert!(outcome.report.is_time_up && outcome.status == 128 + 15, "{}", outcome.status);
}

#[test]
fn the_commands_own_status_comes_through_the_simulator() {
    let Some(outcome) = simulated(shell("exit 7")) else { return };
    assert_eq!((outcome.status, outcome.report.tier), (7, Tier::Sim));
    assert!(number(figure(&outcome, "l1d_misses")) > 0.0);
    assert_eq!(figure(&outcome, "elapsed_s").as_number(), None);
    let outcome = simulated(command(&["no-such-command-anywhere"])).unwrap();
    assert_eq!(outcome.status, 127);
    assert_eq!(figure(&outcome, "instructions").as_number(), None);
}

#[test]
fn strict_accepts_no_event_that_is_not_simulated() {
    let request = events(command(&["true"]), &["instructions", "dtlb_misses"]);
    let request = Request { tier: Some(Tier::Sim), strict: true, ..request };
    match request.run(&watch(&Pending::new())).unwrap_err() {
        StatError::Refused { reason } => assert!(reason.contains("dtlb_misses: "), "{reason}"),
        StatError::NoSimulator { .. } => {}
        error => panic!("{error}"),
    }
}
