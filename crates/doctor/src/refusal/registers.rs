// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explains why counter registers cannot be read directly, with the commands that load
//! `kmod/pmu_user`, the module that makes the registers readable.

use super::{Cause, Explanation};
use crate::host_facts::HostFacts;
use linerate_counters::event::Event;
use linerate_counters::refusal::RegisterRefusal;
use linerate_counters::registers::{
    CAN_BE_OPENED, CYCLE_COUNTER, FILE, Module, Selected, count_cycles, event_number,
};
use linerate_linux::{allowed_cpus, kernel_release};
use linerate_machine::{Root, name_cpus};
use linerate_record::Tier;

/// Explains why perf cannot count an event while the `pmu_user` module holds the counters.
pub(super) fn held() -> Explanation {
    Explanation::new(
        Cause::CountersBusy,
        "the pmu_user module holds the counters, so perf cannot use them",
        "sudo rmmod pmu_user",
    )
}

/// Adds the `pmu_user` module to a fix as an alternative to perf, unless the module would fail for
/// the same reason as perf.
pub(super) fn or_by_module(explanation: Explanation) -> Explanation {
    match CAN_BE_OPENED {
        true => with_module(explanation),
        false => explanation,
    }
}

pub(super) fn with_module(mut explanation: Explanation) -> Explanation {
    let is_perfs_own = matches!(
        explanation.cause,
        Cause::NoPmuDriver
            | Cause::DeviceTreeWithoutPmu
            | Cause::NoPerfEvents
            | Cause::Paranoid
            | Cause::Seccomp
            | Cause::MissingCapability
    );
    if let Some(fix) = explanation.fix.as_mut().filter(|_| is_perfs_own) {
        let behind = if fix.contains("  # ") { ";" } else { "  #" };
        *fix +=
            &format!("{behind} or, to read registers directly: sudo insmod pmu_user.ko {EVENTS}");
    }
    explanation
}

/// Explains why an event's counter register cannot be read.
pub(super) fn explain(why: &RegisterRefusal, event: &Event, around: &HostFacts) -> Explanation {
    let name = &event.name;
    // Read the current state: a command that adds an event must repeat the selected events.
    let module = || around.pmu_user().and_then(Result::ok);
    match why {
        RegisterRefusal::NotUnderstood { line, reason } => not_understood(*line, reason, around),
        RegisterRefusal::NotOnOneCpu { allowed } => stay(allowed, module().as_ref()),
        RegisterRefusal::Closed { cpu, was_opened } => {
            closed_on(*cpu, *was_opened, module().as_ref())
        }
        RegisterRefusal::Unreadable(why) => unreadable(why),
        RegisterRefusal::NoNumber => Explanation::new(
            Cause::NotSelected,
            format!("`{name}` has no PMU event number, so no counter register can count it"),
            "linerate stat --list",
        ),
        RegisterRefusal::NotSelected { user_only } => Explanation::new(
            Cause::NotSelected,
            format!("the pmu_user module has not programmed a counter for `{name}`"),
            selecting(module().as_ref(), event, *user_only),
        ),
        RegisterRefusal::CountsKernelMode => Explanation::new(
            Cause::NotSelected,
            format!(
                "the pmu_user module also counts `{name}` in kernel mode, but only user mode was \
                 requested"
            ),
            reload(module().as_ref(), None, true),
        ),
        RegisterRefusal::Stopped { cpu } => Explanation::new(
            Cause::RegistersClosed,
            format!(
                "another program reconfigured the counter for `{name}` on CPU {cpu}, bypassing the \
                 module"
            ),
            reload(module().as_ref(), None, false),
        ),
        RegisterRefusal::StandsStill => Explanation::new(
            Cause::UnsupportedEvent,
            "the event's counter does not change while instructions execute: the event is not \
             implemented here (QEMU counts instructions only with -icount)",
            "cat /proc/pmu_user  # lists the other selected events",
        ),
    }
}

fn not_understood(line: usize, reason: &str, around: &HostFacts) -> Explanation {
    let path = around.root().join(FILE);
    Explanation::new(
        Cause::RegistersClosed,
        format!(
            "{}: line {line} {reason}; linerate reads the registers only if the module's state \
             is valid",
            path.display()
        ),
        "sudo rmmod pmu_user  # then load the module from this linerate version",
    )
}

/// Returns the advice to pin the thread to one CPU, with the command.
fn stay(allowed: &[u32], module: Option<&Module>) -> Explanation {
    let open = module.map(Module::open_cpus).unwrap_or_default();
    let cpu = allowed.iter().find(|cpu| open.contains(cpu)).or(allowed.first());
    let cpu = cpu.map_or_else(|| "CPU".to_owned(), u32::to_string);
    Explanation::new(
        Cause::NotOnOneCpu,
        format!(
            "counter registers are not saved per thread, so the thread must be pinned to one CPU; \
             it may currently run on {}",
            name_cpus(allowed)
        ),
        format!("taskset -c {cpu} COMMAND"),
    )
}

fn closed_on(cpu: u32, was_opened: bool, module: Option<&Module>) -> Explanation {
    let why = match was_opened {
        true => format!(
            "another program disabled the counters of CPU {cpu}, bypassing the module (perf does \
             so when it counts on that CPU)"
        ),
        false => {
            format!("the module did not make the counters of CPU {cpu} readable from user mode")
        }
    };
    Explanation::new(Cause::RegistersClosed, why, reload(module, None, false))
}

fn unreadable(why: &str) -> Explanation {
    Explanation::new(
        Cause::RegistersClosed,
        format!("the counter registers cannot be read: {why}"),
        "cat /proc/pmu_user  # lists the CPUs with user access",
    )
}

/// Returns the commands that add an event to the selected events or, if no counter is free, replace
/// them.
fn selecting(module: Option<&Module>, event: &Event, user_only: bool) -> String {
    let selected = module.map_or(&[][..], |module| &module.selected);
    let has_names = selected.iter().any(|selected| selected.name.is_some());
    let native = event.native.as_deref().and_then(|native| native.split(' ').next());
    let parameter = native.filter(|_| has_names).map(str::to_owned);
    let number = event_number(event.selector).unwrap_or_default();
    let parameter = parameter.unwrap_or_else(|| format!("{number:#x}"));
    match module.filter(|module| module.selected.len() > module.counters as usize) {
        Some(full) => format!(
            "{} events={parameter}  # and at most {} more, one per counter",
            unload_and_load(module, user_only),
            full.counters.saturating_sub(1)
        ),
        None => reload(module, Some(&parameter), user_only),
    }
}

/// Returns the commands that reload the `pmu_user` module with the selected events and, if given,
/// with the event `adding`.
fn reload(module: Option<&Module>, adding: Option<&str>, user_only: bool) -> String {
    let selected = module.map_or(&[][..], |module| &module.selected);
    let events = selected.iter().filter(|selected| selected.counter != CYCLE_COUNTER);
    let events: Vec<String> = events.map(parameter).chain(adding.map(str::to_owned)).collect();
    match events.is_empty() {
        true => unload_and_load(module, user_only),
        false => format!("{} events={}", unload_and_load(module, user_only), events.join(",")),
    }
}

fn unload_and_load(module: Option<&Module>, user_only: bool) -> String {
    let selected = module.map_or(&[][..], |module| &module.selected);
    let is_user_only = user_only || selected.iter().any(|selected| selected.is_user_only);
    let mode = if is_user_only { " user_only=1" } else { "" };
    format!("sudo rmmod pmu_user && sudo insmod pmu_user.ko{mode}")
}

/// Formats a selected event in the syntax of the module parameter `events`.
fn parameter(selected: &Selected) -> String {
    selected.name.clone().unwrap_or_else(|| format!("{:#x}", selected.event))
}

/// Formats the selected events as a list, such as `CPU_CYCLES, INST_RETIRED in user mode`.
fn counted(module: &Module) -> String {
    let names: Vec<String> = module.selected.iter().rev().map(parameter).collect();
    let is_user_only = module.selected.iter().all(|selected| selected.is_user_only);
    names.join(", ") + if is_user_only { " in user mode" } else { "" }
}

/// Explains that the counter registers are not readable because the module is not loaded.
fn not_loaded(around: &HostFacts) -> Explanation {
    if !CAN_BE_OPENED {
        return other_architecture();
    }
    let release = kernel_release().unwrap_or_default();
    let files = Root::new(around.root());
    let modules = files.text(&format!("lib/modules/{release}/modules.dep")).unwrap_or_default();
    let is_installed = modules.lines().any(|line| line.contains("/pmu_user.ko"));
    if is_installed { only_installed() } else { not_built(&release) }
}

fn other_architecture() -> Explanation {
    let sentence = format!(
        "user-mode register reads through a module are available only on ARMv7 and AArch64, not on \
         {}",
        std::env::consts::ARCH
    );
    Explanation { cause: Cause::RegistersClosed, sentence, fix: None }
}

fn only_installed() -> Explanation {
    Explanation::new(
        Cause::RegistersClosed,
        "the pmu_user module, which makes the registers readable from user mode, is not loaded",
        format!("sudo modprobe pmu_user {EVENTS}"),
    )
}

fn not_built(release: &str) -> Explanation {
    Explanation::new(
        Cause::RegistersClosed,
        format!(
            "the pmu_user module, which makes the registers readable from user mode, is neither \
             loaded nor installed for this kernel ({release})"
        ),
        format!(
            "make -C /lib/modules/{release}/build M=$PWD/kmod/pmu_user modules && sudo insmod \
             kmod/pmu_user/pmu_user.ko {EVENTS}  # in linerate's source tree"
        ),
    )
}

/// Module parameter that selects the events counted by default.
const EVENTS: &str = "events=INST_RETIRED";

/// Counts work of known size with the counter registers of a CPU on which the module has enabled
/// user access. Returns an explanation if this fails; `None` if this processor has no counter
/// registers and no module claims to control them.
pub(crate) fn examine(around: &HostFacts) -> Option<Result<(Tier, String), Explanation>> {
    let pmu_user = around.pmu_user();
    (CAN_BE_OPENED || pmu_user.is_some()).then(|| match pmu_user {
        None => Err(not_loaded(around)),
        Some(Err(wrong)) => Err(not_understood(wrong.line, wrong.reason, around)),
        Some(Ok(module)) => count(&module),
    })
}

fn count(module: &Module) -> Result<(Tier, String), Explanation> {
    let allowed = allowed_cpus().map_err(|error| unreadable(&error.to_string()))?;
    let open = module.open_cpus();
    let Some(&cpu) = allowed.iter().find(|cpu| open.contains(cpu)) else {
        return Err(match module.open_on(allowed[0]) {
            Err(RegisterRefusal::Closed { cpu, was_opened }) => {
                closed_on(cpu, was_opened, Some(module))
            }
            _ => unreadable("no CPU that this program may run on allows user access"),
        });
    };
    count_cycles(cpu).map_err(|why| unreadable(&why))?;
    let sentence = format!(
        "regions are counted without perf, by reading the registers that the pmu_user module made \
         readable on {}: {}; pin each counting thread to one of these CPUs",
        name_cpus(&open),
        counted(module)
    );
    Ok((module.tier(), sentence))
}

#[cfg(test)]
pub(super) mod tests;
