// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data that `linerate why` can read about running programs on this host, and commands that enable
//! access to the rest.

mod asleep;

use crate::host_facts::HostFacts;
use crate::kernel_names::hidden_names;
use crate::namespaces;
use crate::refusal;
use crate::settings::tracepoints;
use crate::tiers::Trial;
use linerate_machine::Root;
use linerate_record::doctor::{Observation, Section, Verdict};
use std::fs::File;
use std::io::Read;

const PROGRAMS: Section = Section::Programs;

/// Checks the settings that determine which data about programs can be observed.
pub(super) fn observe(trial: &Trial, around: &HostFacts) -> Vec<Observation> {
    let root = Root::new(around.root());
    vec![
        others(around),
        waits(&root),
        asleep::observe(&root, around.facts()),
        samples(trial),
        names(around, trial),
        events(around),
        demo(&root),
    ]
}

fn others(around: &HostFacts) -> Observation {
    const NAME: &str = "programs_of_others";
    match around.facts().may_trace_others() {
        true => PROGRAMS.good(NAME, "readable", "programs of all users can be watched"),
        false => PROGRAMS.advice(
            NAME,
            "not readable",
            "only this user's programs can be watched",
            Some("sudo linerate why PID".to_owned()),
        ),
    }
}

/// Checks the scheduler's per-thread accounting. Without it, waiting for a CPU cannot be
/// distinguished from sleep.
fn waits(root: &Root) -> Observation {
    const NAME: &str = "time_waiting";
    let text = root.text("proc/self/schedstat").unwrap_or_default();
    let times = text.split_whitespace().nth(2).and_then(|times| times.parse::<u64>().ok());
    match times {
        Some(1..) => PROGRAMS.good(NAME, "counted", "the kernel records run-queue delay"),
        Some(0) => PROGRAMS.missing(
            NAME,
            "not counted",
            "this kernel was built without CONFIG_SCHED_INFO, so run-queue delay looks like sleep",
            None,
        ),
        None => PROGRAMS.unknown(NAME, "/proc/self/schedstat is missing or has no run-queue delay"),
    }
}

fn samples(trial: &Trial) -> Observation {
    const NAME: &str = "program_samples";
    match (&trial.software_both, &trial.software) {
        (Ok(()), _) => {
            PROGRAMS.good(NAME, "user, kernel", "program and kernel functions can be sampled")
        }
        (Err(refusal), Ok(())) => {
            let sentence = format!(
                "program functions can be sampled, but kernel functions cannot: {}",
                refusal.sentence
            );
            PROGRAMS.advice(NAME, "user", &sentence, refusal.fix.clone())
        }
        (_, Err(refusal)) => PROGRAMS.missing(NAME, "none", &refusal.sentence, refusal.fix.clone()),
    }
}

/// Checks whether kernel symbols can be resolved. /proc/kallsyms may show only zero addresses to
/// unprivileged users.
fn names(around: &HostFacts, trial: &Trial) -> Observation {
    const NAME: &str = "kernel_names";
    let root = Root::new(around.root());
    // Only the first line of this multi-megabyte file is needed.
    let mut start = [0; 16];
    let read = File::open(root.path("proc/kallsyms")).and_then(|mut f| f.read_exact(&mut start));
    match (read, trial.software_both.is_ok()) {
        (Err(_), _) => PROGRAMS.unknown(NAME, "/proc/kallsyms cannot be read"),
        (Ok(()), false) => PROGRAMS.fact(NAME, "-", "needed only for kernel samples"),
        (Ok(()), true) if start == [b'0'; 16] => {
            let hidden = hidden_names(around);
            PROGRAMS.advice(NAME, "hidden", &hidden.reason, hidden.fix)
        }
        (Ok(()), true) => PROGRAMS.good(NAME, "readable", "kernel symbols are readable"),
    }
}

/// Checks access to kernel events, which requires tracepoints and permission to trace all programs.
fn events(around: &HostFacts) -> Observation {
    const NAME: &str = "kernel_events";
    const WHAT: &str = "preempting threads, drop reasons, system calls and locks";
    let facts = around.facts();
    let points = tracepoints(around);
    let may = facts.may_count_everything() || facts.paranoid.is_some_and(|level| level < 0);
    match (points.verdict, may) {
        (Verdict::Good, true) => PROGRAMS.good(NAME, "readable", &format!("{WHAT} are visible")),
        (Verdict::Good, false) => {
            let sentence = format!("{WHAT} are not visible without CAP_PERFMON");
            let fix = refusal::lower_paranoid(facts, -1);
            PROGRAMS.advice(NAME, "refused", &sentence, Some(fix))
        }
        (_, true) => {
            let sentence = format!("{WHAT} are not visible: tracepoints are {}", shown(&points));
            PROGRAMS.advice(NAME, "no tracepoints", &sentence, points.fix)
        }
        (_, false) => PROGRAMS.advice(
            NAME,
            "refused",
            &format!("{WHAT} are visible to root only"),
            Some("sudo linerate why PID".to_owned()),
        ),
    }
}

fn shown(points: &Observation) -> &str {
    points.value.as_deref().unwrap_or("not there")
}

fn demo(root: &Root) -> Observation {
    const NAME: &str = "user_namespaces";
    match namespaces::setting(root) {
        None => PROGRAMS.good(NAME, "permitted", "`linerate why --demo` runs without root"),
        Some(obstacle) => {
            let sentence = format!("`linerate why --demo` does not work: {}", obstacle.sentence);
            PROGRAMS.advice(NAME, "refused", &sentence, Some(obstacle.fix))
        }
    }
}
