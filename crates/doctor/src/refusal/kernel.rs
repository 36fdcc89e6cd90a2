// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps a perf_event_open(2) error number to a cause.
//!
//! The kernel has about ten error numbers for about twenty causes, so an error number is
//! interpreted together with the request and the facts about the host. For each error number,
//! possible causes are listed in the order in which they are checked:
//!
//! ```text
//! ENOSYS                 seccomp filter, if other signs of perf events exist; else no perf events
//! EPERM, EACCES          seccomp filter (EPERM only); process of another user; paranoid level;
//!                        missing capability; else perhaps a security module. If there is no
//!                        core PMU, that is reported instead: privileges would not help
//! ESRCH                  no such process
//! EMFILE, ENFILE         no file descriptors
//! EBUSY                  counters held exclusively by another user
//! EINVAL, E2BIG, ENOSPC  in a group: the group is full
//! ENODEV for a CPU       the CPU is offline
//! these and all others   no core PMU; or an event unknown to this PMU, core type, processor or
//!                        kernel
//! ```

use super::{Cause, Explainer, Explanation, lower_paranoid, pmu};
use crate::host_facts::{CoreUnit, Facts, HostFacts, Stranger};
use linerate_counters::event::{Class, Event};
use linerate_counters::refusal;
use linerate_linux::errno;
use linerate_linux::perf::{OpenError, RAW, Request, Target};
use linerate_machine::{format_cpu_list, name_cpus};

/// A refused attempt to open an event: the event, the request and the target.
#[derive(Clone, Copy, Debug)]
struct Attempt<'a> {
    event: &'a Event,
    request: &'a Request,
    target: Target,
    group_len: usize,
    is_known_processor: bool,
}

/// Explains why the kernel refused.
pub(super) fn explain(
    refused: &refusal::Attempt,
    event: &Event,
    explainer: &Explainer<'_>,
) -> Explanation {
    let refusal::Attempt { error, ref request, target, group_len } = *refused;
    let Explainer { host_facts: around, is_known_processor, .. } = *explainer;
    let attempt = &Attempt { event, request, target, group_len, is_known_processor };
    let facts = around.facts();
    let is_denied = matches!(error.errno, errno::ENOSYS | errno::EPERM | errno::EACCES);
    if is_denied && asks_cores(attempt.event, facts) && facts.has_units && has_no_core(facts) {
        return pmu::why_none(facts);
    }
    match error.errno {
        errno::ENOSYS => no_such_call(facts),
        errno::EPERM | errno::EACCES => forbidden(error, attempt, around),
        errno::ESRCH => target_gone(attempt.target),
        errno::EMFILE | errno::ENFILE => no_descriptors(error),
        errno::EBUSY => Explanation::new(
            Cause::CountersBusy,
            "another program holds this processor's counters exclusively",
            "pgrep -a 'perf|likwid|pcm|vtune|emon|oprofile'  # lists likely holders",
        ),
        errno::EINVAL | errno::E2BIG | errno::ENOSPC if attempt.group_len > 0 => too_many(attempt),
        errno::EINVAL | errno::ENODEV | errno::ENOENT | errno::ENXIO | errno::EOPNOTSUPP => {
            not_there(error, attempt, facts)
        }
        _ => other(error, attempt),
    }
}

/// Explains ENOSYS. A kernel with settings for perf events has the system call, so a seccomp filter
/// must have denied it.
fn no_such_call(facts: &Facts) -> Explanation {
    if facts.paranoid.is_some() || facts.has_units {
        return seccomp();
    }
    no_perf_events("the kernel was built without perf events")
}

fn no_perf_events(sentence: &str) -> Explanation {
    let fix = "zgrep CONFIG_PERF_EVENTS /proc/config.gz /boot/config-$(uname -r)  # boot a kernel \
               built with CONFIG_PERF_EVENTS=y";
    Explanation::new(Cause::NoPerfEvents, sentence, fix)
}

fn seccomp() -> Explanation {
    Explanation::new(
        Cause::Seccomp,
        "a seccomp filter blocks perf_event_open(2), as the default container profile does",
        "docker run --cap-add PERFMON IMAGE  # on the host; before Docker 23, and with podman, \
         also --security-opt seccomp=unconfined; for a systemd service: \
         SystemCallFilter=perf_event_open",
    )
}

fn forbidden(error: OpenError, attempt: &Attempt<'_>, around: &HostFacts) -> Explanation {
    let facts = around.facts();
    let has_filter = facts.has_seccomp_filter == Some(true);
    // EPERM comes from a seccomp filter: if the paranoid level is too high, the kernel itself
    // returns EACCES (perf_allow_kernel and similar functions in include/linux/perf_event.h).
    // Lowering the level does not help against a filter.
    if has_filter && error.errno == errno::EPERM {
        return seccomp();
    }
    // Checked before the paranoid level. The kernel checks the level first, but lowering it would
    // not give access to another user's process.
    if let Some(refusal) = of_another_user(attempt.target, around) {
        return refusal;
    }
    if let Some(limit) = paranoid_limit(attempt, facts) {
        return paranoid(limit, attempt, facts);
    }
    match attempt.target {
        Target::Thread(id) if !facts.may_trace_others() => Explanation::new(
            Cause::MissingCapability,
            format!("process {id} belongs to another user, and CAP_SYS_PTRACE is missing"),
            TRACE,
        ),
        _ if !facts.may_count_everything() && facts.capabilities.is_some() => Explanation::new(
            Cause::MissingCapability,
            format!("`{}` needs CAP_PERFMON, which this process lacks", attempt.event.name),
            "sudo setcap cap_perfmon=ep \"$(command -v linerate)\"",
        ),
        _ if has_filter => seccomp(),
        _ => other(error, attempt),
    }
}

/// Command that lifts all restrictions on counting other processes.
const TRACE: &str = "sudo setcap cap_perfmon,cap_sys_ptrace=ep \"$(command -v linerate)\"";

/// Explains the refusal if the target belongs to another user and this process lacks the capability
/// to trace other users' processes.
fn of_another_user(target: Target, around: &HostFacts) -> Option<Explanation> {
    let Target::Thread(id) = target else { return None };
    if around.facts().may_trace_in_namespace() {
        return None;
    }
    let Stranger { kind, theirs, own } = around.stranger(id)?;
    let sentence = format!(
        "process {id} runs as {kind} {theirs} and this process as {own}, so access requires \
         CAP_SYS_PTRACE"
    );
    let fix = match kind {
        "user" => {
            format!("{TRACE}  # or as its user: sudo -u '#{theirs}' linerate stat --pid {id}")
        }
        _ => TRACE.to_owned(),
    };
    Some(Explanation::new(Cause::MissingCapability, sentence, fix))
}

/// Returns the highest `kernel.perf_event_paranoid` level that allows this attempt, if the current
/// level is higher. System-wide events need level 0, kernel mode 1, all other events 2 (kernel
/// documentation, admin-guide/perf-security and sysctl/kernel; levels from 3 on are distribution
/// patches).
fn paranoid_limit(attempt: &Attempt<'_>, facts: &Facts) -> Option<i32> {
    let limit = match attempt.target {
        Target::Cpu(_) => 0,
        _ if attempt.request.exclude_kernel => 2,
        _ => 1,
    };
    let is_forbidden = facts.paranoid? > limit && !facts.may_count_everything();
    is_forbidden.then_some(limit)
}

fn paranoid(limit: i32, attempt: &Attempt<'_>, facts: &Facts) -> Explanation {
    let level = facts.paranoid.unwrap_or(limit + 1);
    let what = match (attempt.target, limit) {
        (Target::Cpu(_), _) => "counting whole CPUs",
        (_, 1) => "counting in kernel mode",
        _ => "counting at all",
    };
    let whom = match facts.is_in_user_namespace {
        true => "every process in a user namespace",
        false => "processes without CAP_PERFMON",
    };
    Explanation::new(
        Cause::Paranoid,
        format!("kernel.perf_event_paranoid is {level}, which keeps {whom} from {what}"),
        lower_paranoid(facts, limit),
    )
}

fn target_gone(target: Target) -> Explanation {
    let sentence = match target {
        Target::Thread(id) => format!("process or thread {id} does not exist or has just exited"),
        Target::CurrentThread | Target::Cpu(_) => "the target is gone".to_owned(),
    };
    Explanation::new(
        Cause::TargetGone,
        sentence,
        "linerate stat -- COMMAND  # counts from process start",
    )
}

fn offline(cpu: u32) -> Explanation {
    Explanation::new(
        Cause::TargetGone,
        format!("CPU {cpu} is offline or does not exist"),
        format!("echo 1 | sudo tee /sys/devices/system/cpu/cpu{cpu}/online"),
    )
}

fn no_descriptors(error: OpenError) -> Explanation {
    let (who, fix) = match error.errno {
        errno::EMFILE => ("this process has", "ulimit -n \"$(ulimit -Hn)\""),
        _ => ("the system has", "sudo sysctl fs.file-max=\"$(($(sysctl -n fs.file-max) * 2))\""),
    };
    let sentence = format!("{who} no file descriptors left; each event needs one");
    Explanation::new(Cause::NoDescriptors, sentence, fix)
}

fn too_many(attempt: &Attempt<'_>) -> Explanation {
    let Attempt { event, group_len, .. } = attempt;
    let events = if *group_len == 1 { "event" } else { "events" };
    let sentence = format!(
        "`{}` does not fit on the counters alongside {group_len} other {events}",
        event.name
    );
    let fix = format!(
        "linerate stat -e {} -- COMMAND  # with at most {group_len} {events} at once",
        event.name
    );
    Explanation::new(Cause::TooManyEvents, sentence, fix)
}

/// Explains that the event, or the PMU that would count it, does not exist.
fn not_there(error: OpenError, attempt: &Attempt<'_>, facts: &Facts) -> Explanation {
    let Attempt { event, target, .. } = attempt;
    match (event.class, target) {
        (Class::Software | Class::Tracepoint, Target::Cpu(cpu))
            if error.errno == errno::ENODEV && facts.has_units =>
        {
            offline(*cpu)
        }
        (Class::Software | Class::Tracepoint, _) => not_of_kernel(error, attempt, facts),
        (Class::Hardware, _) if !asks_cores(event, facts) => not_of_unit(attempt),
        (Class::Hardware, _) if has_no_core(facts) => pmu::why_none(facts),
        (Class::Hardware, Target::Cpu(cpu)) if error.errno == errno::ENODEV => offline(*cpu),
        (Class::Hardware, _) => not_of_processor(error, attempt, facts),
    }
}

fn not_of_kernel(error: OpenError, attempt: &Attempt<'_>, facts: &Facts) -> Explanation {
    // Sandboxes with their own kernel implementation return ENODEV for every event.
    if error.errno == errno::ENODEV && !facts.has_units {
        return no_perf_events(
            "the sandbox kernel (gVisor or similar) does not implement perf events",
        );
    }
    Explanation::new(
        Cause::UnsupportedEvent,
        format!(
            "this kernel is too old for `{}` or was built without support for it",
            attempt.event.name
        ),
        "linerate stat --list",
    )
}

/// Returns whether this is a core event, as opposed to an event of an uncore PMU with its own type
/// number, such as a memory controller or a link.
fn asks_cores(event: &Event, facts: &Facts) -> bool {
    // 5 is the type number for breakpoints; dynamically registered PMUs have higher numbers.
    let kind = event.selector.kind;
    let is_unit = kind > RAW + 1;
    let is_core = facts.core_units.iter().any(|unit| unit.kind == kind);
    event.class == Class::Hardware && (!is_unit || is_core)
}

/// Returns whether the kernel has no driver for the core counters.
fn has_no_core(facts: &Facts) -> bool {
    facts.core_units.is_empty()
}

fn not_of_unit(attempt: &Attempt<'_>) -> Explanation {
    let name = &attempt.event.name;
    let is_cpu = matches!(attempt.target, Target::Cpu(_));
    let (sentence, fix) = match is_cpu {
        true => (
            format!("the PMU that counts `{name}` is not available on this CPU"),
            "cat /sys/bus/event_source/devices/*/cpumask  # lists each PMU's CPUs, for --cpu",
        ),
        false => (
            format!("`{name}` is an uncore event, which cannot be counted per process"),
            "linerate stat --cpu 0 -e EVENT  # counts whole CPUs",
        ),
    };
    Explanation::new(Cause::UnsupportedEvent, sentence, fix.replace("EVENT", name))
}

/// Explains that the machine has counters, but cannot count this event.
fn not_of_processor(error: OpenError, attempt: &Attempt<'_>, facts: &Facts) -> Explanation {
    let Attempt { event, request, target, .. } = attempt;
    let name = &event.name;
    if let (Some(unit), Target::Cpu(cpu)) = (facts.hybrid_unit(event.selector.kind), target) {
        if !counts_on(unit, *cpu) {
            let (unit, on, list) = (&unit.name, cpus_of(unit), list_of(unit));
            return Explanation::new(
                Cause::HybridCores,
                format!(
                    "`{name}` is an event of PMU {unit}, which counts on {on}, not on CPU \
                    {cpu}"
                ),
                format!("linerate stat --cpu {list} -e {name}"),
            );
        }
    }
    let excludes = request.exclude_kernel || request.exclude_user || request.exclude_hypervisor;
    if excludes && counts_all_modes(error, facts) {
        return Explanation::new(
            Cause::UnsupportedEvent,
            format!(
                "this processor's counters cannot filter by privilege mode, as `{name}` requires"
            ),
            format!("linerate stat -e {} -- COMMAND  # without :u", name.trim_end_matches(":u")),
        );
    }
    if attempt.is_known_processor {
        return Explanation::new(
            Cause::UnsupportedEvent,
            format!("the kernel's PMU driver does not support `{name}` on this processor"),
            "linerate stat --list",
        );
    }
    Explanation::new(
        Cause::UnknownProcessor,
        format!(
            "linerate has no event table for this processor, and the kernel does not support \
             `{name}` on it either"
        ),
        "linerate stat -e rCODE -- COMMAND  # find the hexadecimal code in the vendor's manual",
    )
}

fn counts_on(unit: &CoreUnit, cpu: u32) -> bool {
    unit.cpus.as_ref().is_none_or(|cpus| cpus.contains(&cpu))
}

/// Returns whether the event was refused because its counters cannot exclude a privilege mode. This
/// applies to the ARMv6 counters, and to all PMUs for which the kernel returns EOPNOTSUPP.
fn counts_all_modes(error: OpenError, facts: &Facts) -> bool {
    let is_armv6 = facts.core_units.iter().any(|unit| unit.name.starts_with("armv6"));
    error.errno == errno::EOPNOTSUPP || (is_armv6 && error.errno == errno::EINVAL)
}

/// Formats a PMU's CPUs for a sentence, such as `CPUs 0-3`.
pub(super) fn cpus_of(unit: &CoreUnit) -> String {
    unit.cpus.as_ref().map_or("all CPUs".to_owned(), |cpus| name_cpus(cpus))
}

/// Formats a PMU's CPUs in command-line syntax, such as `0-3`.
pub(super) fn list_of(unit: &CoreUnit) -> String {
    unit.cpus.as_ref().map_or("LIST".to_owned(), |cpus| format_cpu_list(cpus))
}

fn other(error: OpenError, attempt: &Attempt<'_>) -> Explanation {
    let (name, errno) = (&attempt.event.name, error.errno);
    Explanation::new(
        Cause::Other,
        format!(
            "the kernel refuses `{name}` for an unknown reason (errno {errno}: {error}); a \
             security module may have denied it"
        ),
        "sudo dmesg | tail; sudo ausearch -m avc -ts recent  # show what was denied",
    )
}
