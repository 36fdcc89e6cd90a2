// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of the counters, one at a time.

use super::tiers::Trial;
use crate::host_facts::{Facts, HostFacts};
use crate::refusal;
use linerate_counters::catalog::Catalog;
use linerate_linux::private_tracefs;
use linerate_machine::{Root, name_cpus};
use linerate_record::doctor::{COUNTERS_AT_ONCE, Observation, Section};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

const COUNTERS: Section = Section::Counters;

pub(super) fn observe(trial: &Trial, around: &HostFacts, catalog: &Catalog) -> Vec<Observation> {
    let facts = around.facts();
    let has_units = !facts.core_units.is_empty();
    let always = [
        Some(units(facts, trial)),
        Some(table(catalog)),
        Some(at_once(trial)),
        Some(paranoid(facts)),
        Some(filter(facts)),
        Some(software(trial)),
        Some(tracepoints(around)),
        has_units.then(|| watchdog(facts)),
        has_units.then(|| user_access(facts, trial)),
        Some(simulator(trial)),
    ];
    always.into_iter().flatten().collect()
}

fn units(facts: &Facts, trial: &Trial) -> Observation {
    const NAME: &str = "counter_units";
    if facts.core_units.is_empty() {
        return match &trial.user {
            Ok(()) => COUNTERS.unknown(NAME, "events count, but the kernel lists no unit for it"),
            Err(refusal) => COUNTERS.missing(NAME, "none", &refusal.sentence, refusal.fix.clone()),
        };
    }
    let named = |cpus: &Option<Vec<u32>>, name: &str| match cpus {
        Some(cpus) if facts.core_units.len() > 1 => {
            format!("{name} ({})", name_cpus(cpus))
        }
        _ => name.to_owned(),
    };
    let units: Vec<String> =
        facts.core_units.iter().map(|unit| named(&unit.cpus, &unit.name)).collect();
    let sentence = match units.len() {
        1 => "the kernel drives the counters of the cores",
        _ => "cores of several kinds: an event of one unit counts on its CPUs only",
    };
    COUNTERS.fact(NAME, units.join(", "), sentence)
}

fn table(catalog: &Catalog) -> Observation {
    if catalog.is_known_processor() {
        let sentence = "events have the names and codes of this very processor";
        return COUNTERS.good("event_table", catalog.table(), sentence);
    }
    COUNTERS.advice(
        "event_table",
        catalog.table(),
        "this processor is in none of the tables: events are those the architecture or the kernel \
         defines for all",
        Some("linerate stat --list  # shows them; others by code: -e rCODE".to_owned()),
    )
}

fn at_once(trial: &Trial) -> Observation {
    match (trial.at_once, &trial.user) {
        (Some(count), _) => {
            let sentence = "hardware events that count at the same time; more are multiplexed";
            COUNTERS.fact(COUNTERS_AT_ONCE, count.to_string(), sentence)
        }
        (None, Err(refusal)) => COUNTERS.unknown(COUNTERS_AT_ONCE, &refusal.sentence),
        (None, Ok(())) => COUNTERS.unknown(COUNTERS_AT_ONCE, "it was not tried"),
    }
}

fn paranoid(facts: &Facts) -> Observation {
    const NAME: &str = "perf_event_paranoid";
    let Some(level) = facts.paranoid else {
        return COUNTERS.unknown(NAME, "the kernel shows no kernel.perf_event_paranoid");
    };
    let fix = Some(refusal::lower_paranoid(facts, 1));
    let value = level.to_string();
    match level {
        _ if facts.may_count_everything() => COUNTERS.good(
            NAME,
            value,
            "this process has CAP_PERFMON or CAP_SYS_ADMIN, so it does not matter",
        ),
        ..=0 => COUNTERS.good(NAME, value, "any process may count, including whole CPUs"),
        1 => {
            COUNTERS.good(NAME, value, "any process may count itself in both modes; --cpu needs 0")
        }
        2 => COUNTERS.advice(NAME, value, "without CAP_PERFMON only user mode is counted", fix),
        _ => COUNTERS.missing(NAME, value, "without CAP_PERFMON nothing is counted", fix),
    }
}

fn filter(facts: &Facts) -> Observation {
    match facts.has_seccomp_filter {
        Some(true) => COUNTERS.fact(
            "seccomp",
            "filtered",
            "system calls of this process are filtered; whether counters are shows in the tiers",
        ),
        Some(false) => COUNTERS.good("seccomp", "none", "no filter forbids system calls"),
        None => COUNTERS.unknown("seccomp", "/proc/self/status does not say"),
    }
}

fn software(trial: &Trial) -> Observation {
    const NAME: &str = "software_events";
    match (&trial.software, &trial.software_both) {
        (Ok(()), Ok(())) => COUNTERS.good(NAME, "counted", "the kernel counts its own events"),
        (Ok(()), Err(refusal)) => {
            let sentence = format!(
                "clocks and page faults are counted; what happens in the kernel alone, as \
                 migrations and tracepoints do, is not: {}",
                refusal.sentence
            );
            COUNTERS.advice(NAME, "in part", &sentence, refusal.fix.clone())
        }
        (Err(refusal), _) => {
            COUNTERS.missing(NAME, "refused", &refusal.sentence, refusal.fix.clone())
        }
    }
}

/// Paths of the kernel's tracepoints, the older one last.
const TRACEFS: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// Every kernel with tracepoints has this one. Folders may be open while their files are not.
const SOME_POINT: &str = "events/sched/sched_switch/id";

pub(super) fn tracepoints(around: &HostFacts) -> Observation {
    const NAME: &str = "tracepoints";
    let root = Root::new(around.root());
    if TRACEFS.iter().any(|at| root.number::<u64>(&format!("{at}/{SOME_POINT}")).is_some()) {
        let sentence = "unmodified programs can be counted per packet";
        return COUNTERS.good(NAME, "readable", sentence);
    }
    let own = (around.root() == Path::new("/")).then(private_tracefs).flatten();
    if own.is_some_and(|own| own.join(SOME_POINT).is_file()) {
        let sentence = "unmodified programs can be counted per packet (tracefs is not mounted; \
                        this user may read it all the same)";
        return COUNTERS.good(NAME, "readable", sentence);
    }
    let sentence = "events of the form subsystem:tracepoint cannot be looked up";
    let [folder, _] = TRACEFS.map(|at| root.path(at));
    match fs::read(folder.join(SOME_POINT)).map_err(|error| error.kind()) {
        Err(ErrorKind::PermissionDenied) => COUNTERS.missing(
            NAME,
            "not readable",
            sentence,
            Some("sudo linerate stat -e SUBSYSTEM:TRACEPOINT -- COMMAND".to_owned()),
        ),
        _ if folder.is_dir() => COUNTERS.missing(
            NAME,
            "not mounted",
            sentence,
            Some("sudo mount -t tracefs nodev /sys/kernel/tracing".to_owned()),
        ),
        _ => {
            let sentence = format!("{sentence}: this kernel, or container, shows none");
            COUNTERS.missing(NAME, "none", &sentence, None)
        }
    }
}

fn watchdog(facts: &Facts) -> Observation {
    match facts.is_watchdog_on {
        true => COUNTERS.advice(
            "nmi_watchdog",
            "on",
            "the kernel may watch itself with a counter of every CPU: then one fewer at once",
            Some("sudo sysctl kernel.nmi_watchdog=0".to_owned()),
        ),
        false => COUNTERS.good("nmi_watchdog", "off", "the kernel's watchdog holds no counter"),
    }
}

fn user_access(facts: &Facts, trial: &Trial) -> Observation {
    const NAME: &str = "user_access";
    if let Some(refusal) = refusal::user_access_off(facts) {
        return COUNTERS.advice(NAME, "off", &refusal.sentence, refusal.fix);
    }
    match trial.reads_counters {
        Some(true) => COUNTERS.good(NAME, "on", "regions read counters without a system call"),
        Some(false) => COUNTERS.fact(
            NAME,
            "no",
            "this kernel lets no program read counters here: regions read them by system calls",
        ),
        None => COUNTERS.unknown(NAME, "no counter was there to try"),
    }
}

fn simulator(trial: &Trial) -> Observation {
    match &trial.valgrind {
        Ok(version) => COUNTERS.good("valgrind", version, "simulates instructions and caches"),
        Err(refusal) => {
            COUNTERS.missing("valgrind", "none", &refusal.sentence, refusal.fix.clone())
        }
    }
}
