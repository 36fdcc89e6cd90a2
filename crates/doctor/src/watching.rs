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
    if !["proc/self", "proc/sys"].iter().any(|entry| root.exists(entry)) {
        return without_proc();
    }
    vec![
        others(around),
        waits(&root),
        asleep::observe(&root, around.facts()),
        samples(trial),
        names(around, trial),
        events(around),
        demo(around),
    ]
}

/// Describes a system without /proc, which has all data about programs.
fn without_proc() -> Vec<Observation> {
    const SENTENCE: &str = "/proc is not mounted: no program can be watched, and this machine's \
                            settings are unknown";
    let fix = Some("mount -t proc proc /proc".to_owned());
    vec![PROGRAMS.missing("programs_of_others", "not readable", SENTENCE, fix)]
}

fn others(around: &HostFacts) -> Observation {
    const NAME: &str = "programs_of_others";
    let fix = || Some("sudo linerate why PID".to_owned());
    match (around.facts().may_read_others(), around.facts().may_trace_others()) {
        (true, _) => PROGRAMS.good(NAME, "readable", "programs of all users can be watched"),
        (false, true) => PROGRAMS.advice(
            NAME,
            "in part",
            "other users' programs can be sampled, but their sockets and files need CAP_SYS_PTRACE",
            fix(),
        ),
        (false, false) => {
            PROGRAMS.advice(NAME, "not readable", "only this user's programs can be watched", fix())
        }
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

/// Checks whether kernel symbols can be resolved.
fn names(around: &HostFacts, trial: &Trial) -> Observation {
    const NAME: &str = "kernel_names";
    let root = Root::new(around.root());
    match (are_names_hidden(&root), trial.software_both.is_ok()) {
        (None, _) => PROGRAMS.unknown(NAME, "/proc/kallsyms cannot be read"),
        (Some(_), false) => PROGRAMS.fact(NAME, "-", "needed only for kernel samples"),
        (Some(true), true) => {
            let hidden = hidden_names(around);
            PROGRAMS.advice(NAME, "hidden", &hidden.reason, hidden.fix)
        }
        (Some(false), true) => PROGRAMS.good(NAME, "readable", "kernel symbols are readable"),
    }
}

/// Returns whether /proc/kallsyms shows 0 for every address, as it may to unprivileged users;
/// `None` if it cannot be read. On x86-64 before Linux 6.15, the list begins with a few per-CPU
/// symbols whose addresses are 0 for root too.
fn are_names_hidden(root: &Root) -> Option<bool> {
    /// Number of bytes to read of this multi-megabyte file: about 80 symbols.
    const PART: u64 = 4096;
    let file = File::open(root.path("proc/kallsyms")).ok()?;
    let mut part = Vec::new();
    file.take(PART).read_to_end(&mut part).ok()?;
    // The last line may be cut off.
    let whole = part.iter().rposition(|&byte| byte == b'\n')?;
    let is_zero = |line: &[u8]| {
        let address = line.split(|&byte| byte == b' ').next().unwrap_or_default();
        address.iter().all(|&digit| digit == b'0')
    };
    Some(part[..whole].split(|&byte| byte == b'\n').all(is_zero))
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

fn demo(around: &HostFacts) -> Observation {
    const NAME: &str = "user_namespaces";
    match namespaces::setting(around) {
        None => PROGRAMS.good(NAME, "permitted", "`linerate why --demo` runs without root"),
        Some(obstacle) => {
            let sentence = format!("`linerate why --demo` does not work: {}", obstacle.sentence);
            PROGRAMS.advice(NAME, "refused", &sentence, Some(obstacle.fix))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_facts::Facts;
    use std::path::Path;

    /// Returns whether a list that begins with these lines is hidden.
    fn is_hidden(lines: &str) -> Option<bool> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        std::fs::write(folder.path().join("proc/kallsyms"), lines).unwrap();
        are_names_hidden(&Root::new(folder.path()))
    }

    #[test]
    fn symbols_at_address_0_are_not_hidden_symbols() {
        // As root, on Linux 6.1 and on 6.18.
        let per_cpu = "0000000000000000 A fixed_percpu_data\n0000000000000000 A __per_cpu_start\n\
                       0000000000001000 A cpu_debug_store\n";
        assert_eq!(is_hidden(per_cpu), Some(false));
        assert_eq!(is_hidden("ffffffff81000000 T _stext\n"), Some(false));
        let hidden = "0000000000000000 A fixed_percpu_data\n".repeat(200);
        assert_eq!(is_hidden(&hidden), Some(true));
        // A line that the end of the part cuts off counts for nothing.
        assert_eq!(is_hidden("0000000000000000 T _text\n000000000000"), Some(true));
        assert_eq!(is_hidden("c0"), None);
    }

    #[test]
    fn addresses_of_32_bits_have_8_digits() {
        assert_eq!(is_hidden("00000000 t __vectors_start\n00000000 T stext\n"), Some(true));
        assert_eq!(is_hidden("c0008000 T stext\n"), Some(false));
    }

    /// Compares with the whole list of this kernel.
    #[test]
    fn the_names_of_this_kernel_are_hidden_if_all_addresses_are_0() {
        let root = Root::new(Path::new("/"));
        let Some(text) = root.text("proc/kallsyms") else {
            return println!("SKIP: no /proc/kallsyms");
        };
        let is_zero =
            |line: &str| line.split(' ').next().is_some_and(|a| a.trim_matches('0').is_empty());
        assert_eq!(are_names_hidden(&root), Some(text.lines().all(is_zero)));
    }

    #[test]
    fn without_proc_no_other_reason_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let around = HostFacts::from(folder.path());
        let found = crate::examine(&linerate_counters::opener::Kernel, &around);
        let about = found.observations.iter().filter(|one| one.section == PROGRAMS);
        let about: Vec<&Observation> = about.collect();
        assert_eq!(about.len(), 1, "{about:?}");
        assert!(about[0].sentence.starts_with("/proc is not mounted"), "{about:?}");
        assert_eq!(about[0].fix.as_deref(), Some("mount -t proc proc /proc"));
    }

    #[test]
    fn who_may_sample_others_may_not_read_their_files() {
        let with = |capabilities: u64| {
            let facts = Facts { capabilities: Some(capabilities), ..Facts::default() };
            let Observation { verdict, value, .. } = others(&HostFacts::from_facts(facts));
            (verdict, value.unwrap())
        };
        assert_eq!(with(0), (Verdict::Advice, "not readable".to_owned()));
        // CAP_PERFMON; CAP_SYS_ADMIN; CAP_SYS_PTRACE.
        assert_eq!(with(1 << 38), (Verdict::Advice, "in part".to_owned()));
        assert_eq!(with(1 << 21), (Verdict::Advice, "in part".to_owned()));
        assert_eq!(with(1 << 19), (Verdict::Good, "readable".to_owned()));
    }
}
