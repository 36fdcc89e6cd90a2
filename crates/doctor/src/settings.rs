// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the settings and facts that determine whether events can be counted, and returns one
//! observation for each.

use super::tiers::Trial;
use crate::host_facts::{Facts, HostFacts};
use crate::refusal;
use linerate_counters::catalog::{Catalog, tracepoint};
use linerate_machine::{Root, name_cpus};
use linerate_record::doctor::{COUNTERS_AT_ONCE, Observation, Section};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

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
            Ok(()) => COUNTERS.unknown(NAME, "events can be counted, but the kernel lists no PMU"),
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
        1 => "the kernel has a driver for the core PMU",
        _ => "hybrid cores: each PMU counts only on its own CPUs",
    };
    COUNTERS.fact(NAME, units.join(", "), sentence)
}

fn table(catalog: &Catalog) -> Observation {
    if catalog.is_known_processor() {
        let sentence = "event names and codes are specific to this processor";
        return COUNTERS.good("event_table", catalog.table(), sentence);
    }
    COUNTERS.advice(
        "event_table",
        catalog.table(),
        "no event table for this processor: linerate recognizes only architectural and generic \
         kernel events",
        Some("linerate stat --list  # lists the events; use -e rCODE for others".to_owned()),
    )
}

fn at_once(trial: &Trial) -> Observation {
    match (trial.at_once, &trial.user) {
        (Some(count), _) => {
            let sentence = "hardware events that can be counted at once; more events are \
                            multiplexed";
            COUNTERS.fact(COUNTERS_AT_ONCE, count.to_string(), sentence)
        }
        (None, Err(refusal)) => COUNTERS.unknown(COUNTERS_AT_ONCE, &refusal.sentence),
        (None, Ok(())) => COUNTERS.unknown(COUNTERS_AT_ONCE, "not tried"),
    }
}

fn paranoid(facts: &Facts) -> Observation {
    const NAME: &str = "perf_event_paranoid";
    let Some(level) = facts.paranoid else {
        return COUNTERS.unknown(NAME, "kernel.perf_event_paranoid does not exist");
    };
    let fix = Some(refusal::lower_paranoid(facts, 1));
    let value = level.to_string();
    match level {
        _ if facts.may_count_everything() => {
            COUNTERS.good(NAME, value, "no effect: this process has CAP_PERFMON or CAP_SYS_ADMIN")
        }
        ..=0 => COUNTERS.good(NAME, value, "any process may count events, even on whole CPUs"),
        1 => COUNTERS.good(
            NAME,
            value,
            "any process may count its own events in user and kernel mode; --cpu needs level 0",
        ),
        2 => {
            COUNTERS.advice(NAME, value, "without CAP_PERFMON, only user mode can be counted", fix)
        }
        _ => COUNTERS.missing(NAME, value, "counting requires CAP_PERFMON", fix),
    }
}

fn filter(facts: &Facts) -> Observation {
    match facts.has_seccomp_filter {
        Some(true) => COUNTERS.fact(
            "seccomp",
            "filtered",
            "a seccomp filter is active; the list of tiers shows whether it blocks counters",
        ),
        Some(false) => COUNTERS.good("seccomp", "none", "no seccomp filter"),
        None => COUNTERS.unknown("seccomp", "not shown in /proc/self/status"),
    }
}

fn software(trial: &Trial) -> Observation {
    const NAME: &str = "software_events";
    match (&trial.software, &trial.software_both) {
        (Ok(()), Ok(())) => COUNTERS.good(NAME, "counted", "kernel software events can be counted"),
        (Ok(()), Err(refusal)) => {
            let sentence = format!(
                "clocks and page faults can be counted, but not events inside the kernel, such as \
                 migrations and tracepoints: {}",
                refusal.sentence
            );
            COUNTERS.advice(NAME, "in part", &sentence, refusal.fix.clone())
        }
        (Err(refusal), _) => {
            COUNTERS.missing(NAME, "refused", &refusal.sentence, refusal.fix.clone())
        }
    }
}

/// A tracepoint that exists in every kernel with tracepoints. The check reads a file, because a
/// directory may be readable even if its files are not.
const SOME_POINT: &str = "sched/sched_switch/id";

pub(super) fn tracepoints(around: &HostFacts) -> Observation {
    const NAME: &str = "tracepoints";
    let has_number = |events: PathBuf| {
        let text = fs::read_to_string(events.join(SOME_POINT));
        text.is_ok_and(|text| text.trim().parse::<u64>().is_ok())
    };
    if tracepoint::events(&around.root().join("sys")).is_ok_and(has_number) {
        let sentence = "tracepoints give per-packet counts for unmodified programs";
        return COUNTERS.good(NAME, "readable", sentence);
    }
    let sentence = "tracepoint events (subsystem:name) cannot be looked up";
    let folder = Root::new(around.root()).path("sys/kernel/tracing");
    match fs::read(folder.join("events").join(SOME_POINT)).map_err(|error| error.kind()) {
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
            let sentence = format!("{sentence}: this kernel or container does not expose tracefs");
            COUNTERS.missing(NAME, "none", &sentence, None)
        }
    }
}

fn watchdog(facts: &Facts) -> Observation {
    match facts.is_watchdog_on {
        true => COUNTERS.advice(
            "nmi_watchdog",
            "on",
            "the NMI watchdog may take one counter on every CPU",
            Some("sudo sysctl kernel.nmi_watchdog=0".to_owned()),
        ),
        false => COUNTERS.good("nmi_watchdog", "off", "the NMI watchdog does not use a counter"),
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
            "this kernel does not allow user-mode counter reads: regions use system calls",
        ),
        None => COUNTERS.unknown(NAME, "no counter was available for the test"),
    }
}

/// Checks for a simulator: QEMU or, if QEMU is missing, Valgrind, which simulates less.
fn simulator(trial: &Trial) -> Observation {
    if let Some(emulator) = &trial.qemu {
        let sentence = "simulates the instructions, cache levels and TLBs of any architecture";
        return COUNTERS.good("qemu_user", emulator.clone(), sentence);
    }
    match &trial.valgrind {
        Ok(version) => COUNTERS.good("valgrind", version, "simulates instructions and caches"),
        Err(refusal) => {
            COUNTERS.missing("valgrind", "none", &refusal.sentence, refusal.fix.clone())
        }
    }
}
