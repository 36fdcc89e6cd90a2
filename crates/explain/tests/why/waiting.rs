// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that wait for a CPU: how often, and whether something ran there in the meantime.

use crate::example::explain;
use crate::example::{cpu, observation, thread};
use crate::seeds::cpu_contention;
use linerate_record::why::Cause::{CannotTell, CpuContention};
use linerate_record::why::ThreadState::{Asleep, User, Waiting};
use linerate_record::why::{Observation, RanInstead, ThreadActivity, Unread};

/// Returns an observation of a thread that waits 40 % of the time, 40 ms at a time, on CPUs with
/// these idle fractions.
fn held_back(idle: &[f64]) -> Observation {
    let worker = ThreadActivity {
        ran_on: (0..).take(idle.len()).collect(),
        involuntary_switches: 50,
        ..thread("worker", 100, &[(User, 0.5), (Waiting, 0.4), (Asleep, 0.1)])
    };
    let cpus = (0..).zip(idle).map(|(number, idle)| cpu(number, 1.0 - idle, 0.0, 0.0)).collect();
    Observation { cpus, ..observation(vec![worker]) }
}

#[test]
fn a_thread_whose_cpu_is_idle_does_not_compete_for_it() {
    let finding = explain(&held_back(&[0.5])).remove(0);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(
        finding.sentence.contains("CPU 0, where it ran, was idle for at least 85 % of that time"),
        "{}",
        finding.sentence
    );
    // Another program ran while it waited.
    let finding = explain(&held_back(&[0.1])).remove(0);
    assert_eq!(finding.cause, CpuContention, "{}", finding.sentence);
    // The CPUs have idle time, but one of them was always busy: with this thread or another one.
    let finding = explain(&held_back(&[0.5, 0.6])).remove(0);
    assert_eq!(finding.cause, CpuContention, "{}", finding.sentence);
    // On both CPUs, no other program ran.
    let finding = explain(&held_back(&[0.75, 0.75])).remove(0);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
}

#[test]
fn what_was_traced_on_the_cpu_is_believed() {
    let mut seen = held_back(&[0.5]);
    seen.unread.clear();
    seen.threads[0].ran_instead = vec![RanInstead {
        name: "dpkg".to_owned(),
        tid: Some(9),
        pid: Some(9),
        seconds: 1.9,
        times: 40,
        longest_s: 0.05,
    }];
    let finding = explain(&seen).remove(0);
    assert_eq!(finding.cause, CpuContention, "{}", finding.sentence);
}

#[test]
fn in_a_container_the_host_shows_what_ran_instead() {
    let mut seen = cpu_contention();
    seen.threads[0].ran_instead.clear();
    seen.unread = vec![Unread {
        what: "scheduler_of_host".to_owned(),
        reason: "scheduler events have the thread IDs of the host".to_owned(),
        fix: Some("run linerate on the host".to_owned()),
    }];
    let finding = explain(&seen).remove(0);
    assert_eq!(finding.cause, CpuContention, "{}", finding.sentence);
    let words = "; run linerate on the host, to see what ran on that CPU instead.";
    assert!(finding.sentence.contains(words), "{}", finding.sentence);
}

#[test]
fn waits_that_were_not_traced_count_too() {
    // A thread that waited 10,000 times for 200 us, of which tracing counted this many.
    let with = |traced: u64, other_cpus: bool| {
        let mut seen = held_back(&[0.1]);
        seen.threads[0].voluntary_switches = 9_950;
        seen.threads[0].waits_us_log2 = vec![0, 0, 0, 0, 0, 0, 0, traced];
        if other_cpus {
            seen.cpus = (0..70).map(|number| cpu(number, 0.9, 0.0, 0.0)).collect();
            seen.threads[0].ran_on = vec![69];
            let what = "scheduler_of_other_cpus".to_owned();
            seen.unread.push(Unread { what, reason: "64 of 70".to_owned(), fix: None });
        }
        explain(&seen).remove(0)
    };
    // Some events are missing, but not enough for a doubt: 357 us.
    let finding = with(5_600, false);
    assert_eq!(finding.cause, CpuContention, "{}", finding.sentence);
    for (traced, other_cpus) in [(10_000, false), (1_000, false), (5_600, true)] {
        let finding = with(traced, other_cpus);
        assert_ne!(finding.cause, CpuContention, "{traced}: {}", finding.sentence);
    }
}
