// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that start and end in all possible ways. There is always a report, and the exit status
//! follows env(1).

use crate::rig::{command, event, events, figure, number, run, shell, watch};
use linerate_linux::signal::{Caught, HANG_UP, INTERRUPT, Pending, TERMINATE};
use linerate_record::stat::ExitStatus;
use linerate_stat::{Outcome, Progress, Request, Watch};
use std::time::Duration;

/// Counts a command and checks the invariants that hold however it ends.
fn counted(request: &Request, status: i32) -> Outcome {
    let outcome = run(request);
    assert_eq!(outcome.status, status, "{:?}", outcome.failure);
    assert_eq!(outcome.failure, None);
    assert!(number(figure(&outcome, "task_clock_ns")) > 0.0);
    assert!(number(figure(&outcome, "elapsed_s")) > 0.0);
    outcome
}

#[test]
fn the_status_is_the_commands_own() {
    let outcome = counted(&shell("exit 0"), 0);
    assert_eq!(outcome.report.ended, Some(ExitStatus { status: Some(0), signal: None }));
    counted(&shell("exit 7"), 7);
    // A command's own exit status is passed on even if it coincides with one of env(1)'s.
    counted(&shell("exit 127"), 127);
    let outcome = counted(&shell("kill -9 $$"), 128 + 9);
    assert_eq!(outcome.report.ended, Some(ExitStatus { status: None, signal: Some(9) }));
    assert!(!outcome.report.interrupted);
}

#[test]
fn a_command_that_cannot_start_leaves_a_report_of_nothing() {
    for (name, status) in [("no-such-command-anywhere", 127), ("/etc/passwd", 126), ("/", 126)] {
        let outcome = run(&command(&[name]));
        assert_eq!(outcome.status, status, "{name}");
        let failure = outcome.failure.as_ref().expect(name);
        assert!(failure.starts_with(&format!("cannot run `{name}`: ")), "{failure}");
        assert_eq!(outcome.report.ended, None);
        for event in &outcome.report.events {
            assert_eq!(event.raw, None);
            let reason = event.count.reason.as_deref();
            assert_eq!(reason, Some("the command could not be started"), "{}", event.name);
        }
        assert_eq!(figure(&outcome, "elapsed_s").as_number(), None);
    }
}

#[test]
fn children_count_too_however_many() {
    let faults = |script: &str| {
        number(figure(
            &counted(&events(shell(script), &["page_faults", "task_clock_ns"]), 0),
            "page_faults",
        ))
    };
    let one = faults("/bin/true; exit 0");
    let many = faults("for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done; exit 0");
    assert!(many > 5.0 * one / 2.0, "{one} page faults of one child, {many} of ten");
    // Two hundred children at once, none of them waited for individually.
    let wild = "i=0; while [ $i -lt 200 ]; do (:) & i=$((i+1)); done; wait; exit 0";
    let wild = faults(wild);
    assert!(wild > 200.0 * 10.0, "{wild}");
}

#[test]
fn a_command_that_closes_every_descriptor_is_counted() {
    let close: String = (0..10).map(|fd| format!("exec {fd}<&-; ")).collect();
    counted(&shell(&format!("{close} exit 3")), 3);
    // A command that runs out of descriptors also gets a report.
    counted(&shell("ulimit -n 3; exit 4"), 4);
}

#[test]
fn what_a_command_leaves_behind_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let script = format!("sleep 60 & echo $! > {}; exit 5", file.display());
    let outcome = counted(&shell(&script), 5);
    let pid = std::fs::read_to_string(&file).unwrap();
    std::process::Command::new("kill").arg(pid.trim()).status().unwrap();
    assert!(number(figure(&outcome, "elapsed_s")) < 50.0);
}

/// Returns whether the signal was already ignored when these tests started, for example because of
/// nohup(1) or a shell's `&`; commands inherit this and are not killed by it.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let is_ignored = u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal - 1) & 1 == 1;
    if is_ignored {
        println!("SKIP: signal {signal} is ignored here, and so by every command started here");
    }
    is_ignored
}

/// Runs a script and sends `signal` once it has begun.
fn signalled(script: &str, signal: Caught) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    let request = shell(&script.replace("BEGUN", &format!("echo > {}", begun.display())));
    let pending = Pending::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !begun.exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
            pending.put(signal);
        });
        request.run(&watch(&pending)).unwrap()
    })
}

#[test]
fn signals_are_passed_on_and_the_report_is_there() {
    if is_ignored(TERMINATE) || is_ignored(INTERRUPT) {
        return;
    }
    let from_a_user = |number| Caught { number, is_from_kernel: false };
    let heeds = "trap 'kill $!; exit 9' TERM; sleep 60 & BEGUN; wait";
    let outcome = signalled(heeds, from_a_user(TERMINATE));
    assert_eq!((outcome.status, outcome.report.interrupted), (9, true));
    assert!(number(figure(&outcome, "task_clock_ns")) > 0.0);
    let outcome = signalled("BEGUN; exec sleep 60", from_a_user(INTERRUPT));
    assert_eq!((outcome.status, outcome.report.interrupted), (128 + 2, true));
}

/// The terminal has already delivered the signal to the command, which might interpret a second one
/// differently.
#[test]
fn keys_of_the_terminal_are_not_passed_on() {
    if is_ignored(INTERRUPT) {
        return;
    }
    let signal = Caught { number: INTERRUPT, is_from_kernel: true };
    let outcome = signalled("trap 'exit 9' INT; BEGUN; sleep 0.5; exit 6", signal);
    assert_eq!((outcome.status, outcome.report.interrupted), (6, true));
}

#[test]
fn repetition_ends_with_a_signal() {
    if is_ignored(TERMINATE) {
        return;
    }
    let pending = Pending::new();
    pending.put(Caught { number: TERMINATE, is_from_kernel: false });
    let request = Request { repeat: 1000, ..command(&["sleep", "60"]) };
    let outcome = request.run(&watch(&pending)).unwrap();
    assert_eq!((outcome.status, outcome.report.repetitions), (128 + TERMINATE, 1));
}

/// The signal arrives before the command is started, so it is forwarded even if it came from the
/// terminal.
#[test]
fn a_key_pressed_too_early_ends_the_command_all_the_same() {
    if is_ignored(INTERRUPT) {
        return;
    }
    let pending = Pending::new();
    pending.put(Caught { number: INTERRUPT, is_from_kernel: true });
    let outcome = command(&["sleep", "60"]).run(&watch(&pending)).unwrap();
    assert_eq!((outcome.status, outcome.report.interrupted), (128 + INTERRUPT, true));
}

#[test]
fn keys_are_passed_on_to_a_group_of_its_own() {
    if is_ignored(INTERRUPT) {
        return;
    }
    let signal = Caught { number: INTERRUPT, is_from_kernel: true };
    let outcome = signalled("BEGUN; exec timeout 60 sleep 50", signal);
    // timeout(1) exits by itself, or is killed by the signal if it has not yet installed its
    // handler.
    assert!(outcome.status != 0 && outcome.report.interrupted, "{}", outcome.status);
    assert!(number(figure(&outcome, "elapsed_s")) < 40.0);
}

/// SIGHUP from a closed terminal reaches only the session leader, so it must be forwarded.
#[test]
fn a_lost_terminal_is_passed_on() {
    if is_ignored(HANG_UP) {
        return;
    }
    let signal = Caught { number: HANG_UP, is_from_kernel: true };
    let outcome = signalled("BEGUN; exec sleep 60", signal);
    assert_eq!((outcome.status, outcome.report.interrupted), (128 + HANG_UP, true));
}

/// Counts of an interrupted run are not comparable with those of complete runs.
#[test]
fn the_run_that_was_interrupted_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let counter = folder.path().join("runs");
    let script =
        format!("echo >> {0}; [ $(wc -l < {0}) -lt 4 ] || exec sleep 60", counter.display());
    let pending = Pending::new();
    let put = |progress: Progress<'_>| {
        if matches!(progress, Progress::Run { done: 3, .. }) {
            pending.put(Caught { number: TERMINATE, is_from_kernel: false });
        }
    };
    let request = Request { repeat: 1000, ..shell(&script) };
    let outcome = request.run(&Watch { signals: &pending, tell: &put }).unwrap();
    let report = &outcome.report;
    assert_eq!((report.repetitions, report.interrupted), (3, true));
    assert_eq!(outcome.status, 128 + TERMINATE);
    assert_eq!(figure(&outcome, "task_clock_ns").n, 3);
}

#[test]
fn reports_a_failed_run_among_others() {
    let folder = tempfile::tempdir().unwrap();
    let counter = folder.path().join("runs");
    let script = format!("echo >> {0}; [ $(wc -l < {0}) -ne 2 ] || exit 3", counter.display());
    let outcome = run(&Request { repeat: 4, ..shell(&script) });
    let ended = Some(ExitStatus { status: Some(3), signal: None });
    assert_eq!((outcome.status, outcome.report.ended), (3, ended));
    assert_eq!(outcome.report.repetitions, 4);
}

#[test]
fn a_time_limit_ends_the_command() {
    let at_most = Some(Duration::from_millis(50));
    let outcome = counted(&Request { at_most, ..command(&["sleep", "60"]) }, 128 + TERMINATE);
    assert!(!outcome.report.interrupted && outcome.report.is_time_up);
    assert_eq!(event(&outcome, "task_clock_ns").duty, Some(1.0));
    let outcome =
        counted(&Request { at_most: Some(Duration::from_secs(60)), ..shell("exit 2") }, 2);
    assert!(!outcome.report.is_time_up);
}

#[test]
fn counting_stops_at_the_time_limit_even_if_the_command_continues() {
    let busy = "trap '' TERM; n=0; while [ $n -lt 600000 ]; do n=$((n+1)); done; sleep 0.3; exit 5";
    let whole = counted(&shell(busy), 5);
    let (at_most, interval) = (Some(Duration::from_millis(50)), Some(Duration::from_millis(20)));
    let outcome = counted(&Request { at_most, interval, ..shell(busy) }, 5);
    let report = &outcome.report;
    assert!(report.is_time_up && report.ended == whole.report.ended);
    let elapsed = |outcome: &Outcome| number(figure(outcome, "elapsed_s"));
    assert!(elapsed(&outcome) >= 0.05 && elapsed(&outcome) < elapsed(&whole) - 0.2);
    assert_eq!(report.intervals.last().unwrap().to_s, report.elapsed_s);
    let clock = number(figure(&outcome, "task_clock_ns"));
    assert!(clock <= report.elapsed_s * 1.01e9, "{clock} ns in {} s", report.elapsed_s);
    let user = figure(&outcome, "user_s");
    assert!(user.as_number().is_none() && user.reason.is_some(), "{user:?}");
    assert!(number(figure(&outcome, "cpus_used")) > 0.0);
}
