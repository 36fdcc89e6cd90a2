// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explains why events are not counted, with commands that enable them.
//!
//! `linerate-counters` reports its failures as a [`Refusal`]. An [`Explainer`] interprets a refusal
//! based on the kernel's settings. This module contains the wording of all explanations.

mod kernel;
mod pmu;
mod registers;

use crate::host_facts::{Facts, HostFacts, Installer};
use linerate_counters::event::{Class, Event};
use linerate_counters::refusal::Refusal;
use linerate_machine::format_cpu_list;
pub(crate) use pmu::instead_of_nothing;
pub(crate) use registers::examine;

/// The reason why an event is not counted, and a fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Machine-readable cause.
    pub cause: Cause,
    /// The reason as a sentence, with the values found.
    pub sentence: String,
    /// Shell command that enables the event or an alternative on this machine, if there is one.
    /// Manual steps, and commands for another machine, follow `#`.
    pub fix: Option<String>,
}

/// Reason why an event cannot be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// A virtual machine without a virtual PMU.
    NoVirtualPmu,
    /// The processor may have counters, but the kernel has no driver for them or did not find them.
    NoPmuDriver,
    /// The device tree has no PMU node, or an empty one.
    DeviceTreeWithoutPmu,
    /// `kernel.perf_event_paranoid` is too high for the request.
    Paranoid,
    /// A seccomp filter forbids the system call.
    Seccomp,
    /// A capability is missing, and lowering the paranoid level would not help.
    MissingCapability,
    /// `kernel.perf_user_access` is off (arm64), which forbids reads from user space.
    UserAccessOff,
    /// The kernel watchdog holds a counter.
    WatchdogHoldsCounter,
    /// Only some of the processor's core types have the event.
    HybridCores,
    /// The processor has no event table, and the event is not an architectural event.
    UnknownProcessor,
    /// More events were requested at the same time than there are counters.
    TooManyEvents,
    /// The kernel supports the processor, but not this event on it.
    UnsupportedEvent,
    /// According to the event table, this processor cannot count the event.
    NotInTable,
    /// The simulator does not model the event.
    NotSimulated,
    /// Valgrind is not installed.
    NoValgrind,
    /// The kernel was built without perf events.
    NoPerfEvents,
    /// Another program holds the counters exclusively.
    CountersBusy,
    /// File descriptor limit reached.
    NoDescriptors,
    /// The process has exited.
    TargetGone,
    /// The event was opened but never got a counter.
    NeverScheduled,
    /// User access to the PMU registers was not enabled by a module, or has been disabled again.
    RegistersClosed,
    /// The thread that would read the registers is not pinned to a single CPU.
    NotOnOneCpu,
    /// The module that opened the registers has selected other events.
    NotSelected,
    /// Any other cause. The sentence of the explanation includes the error number.
    Other,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 24] = [
        Self::NoVirtualPmu,
        Self::NoPmuDriver,
        Self::DeviceTreeWithoutPmu,
        Self::Paranoid,
        Self::Seccomp,
        Self::MissingCapability,
        Self::UserAccessOff,
        Self::WatchdogHoldsCounter,
        Self::HybridCores,
        Self::UnknownProcessor,
        Self::TooManyEvents,
        Self::UnsupportedEvent,
        Self::NotInTable,
        Self::NotSimulated,
        Self::NoValgrind,
        Self::NoPerfEvents,
        Self::CountersBusy,
        Self::NoDescriptors,
        Self::TargetGone,
        Self::NeverScheduled,
        Self::RegistersClosed,
        Self::NotOnOneCpu,
        Self::NotSelected,
        Self::Other,
    ];

    /// Returns the cause's keyword, for scripts.
    pub fn word(self) -> &'static str {
        match self {
            Self::NoVirtualPmu => "no_virtual_pmu",
            Self::NoPmuDriver => "no_pmu_driver",
            Self::DeviceTreeWithoutPmu => "device_tree_without_pmu",
            Self::Paranoid => "paranoid",
            Self::Seccomp => "seccomp",
            Self::MissingCapability => "missing_capability",
            Self::UserAccessOff => "user_access_off",
            Self::WatchdogHoldsCounter => "watchdog_holds_counter",
            Self::HybridCores => "hybrid_cores",
            Self::UnknownProcessor => "unknown_processor",
            Self::TooManyEvents => "too_many_events",
            Self::UnsupportedEvent => "unsupported_event",
            Self::NotInTable => "not_in_table",
            Self::NotSimulated => "not_simulated",
            Self::NoValgrind => "no_valgrind",
            Self::NoPerfEvents => "no_perf_events",
            Self::CountersBusy => "counters_busy",
            Self::NoDescriptors => "no_descriptors",
            Self::TargetGone => "target_gone",
            Self::NeverScheduled => "never_scheduled",
            Self::RegistersClosed => "registers_closed",
            Self::NotOnOneCpu => "not_on_one_cpu",
            Self::NotSelected => "not_selected",
            Self::Other => "other",
        }
    }
}

/// Explains refusals on one machine.
#[derive(Clone, Copy, Debug)]
pub struct Explainer<'a> {
    /// This process's host. Its facts are read when the first refusal is explained.
    pub host_facts: &'a HostFacts,
    /// Whether there is an event table for the processor.
    pub is_known_processor: bool,
    /// Whether the caller can read counter registers. If so, the fix may be to load `pmu_user`.
    pub takes_registers: bool,
}

impl<'a> Explainer<'a> {
    /// Creates an explainer for callers that do not read counter registers.
    pub fn new(host_facts: &'a HostFacts, is_known_processor: bool) -> Self {
        Self { host_facts, is_known_processor, takes_registers: false }
    }

    /// Explains why `event` was refused.
    ///
    /// If the cause is the machine rather than the event, the sentence does not name the event, so
    /// that a report can print it once for many events.
    pub fn explain(&self, refusal: &Refusal, event: &Event) -> Explanation {
        match refusal {
            Refusal::NotOpened(attempt) => {
                let explanation = kernel::explain(attempt, event, self);
                match event.class == Class::Hardware && self.takes_registers {
                    true => registers::or_by_module(explanation),
                    false => explanation,
                }
            }
            Refusal::NeverScheduled => never_scheduled(event, self.host_facts),
            Refusal::HeldByModule => registers::held(),
            Refusal::KernelOnly => kernel_only(event),
            Refusal::NoTarget => nothing_to_count(),
            Refusal::WholeUnits { unit_cpus } => whole_units(event, unit_cpus),
            Refusal::Register(why) => registers::explain(why, event, self.host_facts),
        }
    }
}

/// Prefix of suggested commands that require hardware counters.
pub const BY_HARDWARE: &str = "linerate stat --tier hw";

impl Explanation {
    /// Marks the fix as a command for another machine if it requires hardware counters and this
    /// machine has none.
    pub fn elsewhere(mut self, facts: &Facts) -> Self {
        let is_missing = facts.core_units.is_empty();
        if let Some(fix) = self.fix.as_mut().filter(|fix| fix.starts_with(BY_HARDWARE)) {
            if is_missing {
                *fix = format!("# on a machine with counters: {fix}");
            }
        }
        self
    }

    /// Adapts a fix that simulates to one event: names the event or, if no simulator counts it,
    /// leaves only what the comment says about counters.
    #[must_use]
    pub fn for_event(mut self, name: &str, is_simulated: bool) -> Self {
        let Some((before, rest)) = self.fix.as_deref().and_then(|fix| fix.split_once(SIMULATE))
        else {
            return self;
        };
        self.fix = if is_simulated {
            Some(format!("{before}{BY_SIMULATION} -e {name} -- COMMAND{rest}"))
        } else {
            let comment = rest.trim_start_matches("  # ").trim_start_matches(NEEDS);
            let way = comment.trim_start_matches("; ").trim_start_matches("simulates; ");
            (!way.is_empty()).then(|| format!("# {way}"))
        };
        self
    }

    fn new(cause: Cause, sentence: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { cause, sentence: sentence.into(), fix: Some(fix.into()) }
    }
}

/// Prefix of suggested commands that simulate.
const BY_SIMULATION: &str = "linerate stat --tier sim";

/// Comment on a simulation if no package manager is known that could install a simulator.
const NEEDS: &str = "needs qemu-user or Valgrind";

/// Command that simulates the events; works on any machine with a simulator.
const SIMULATE: &str = "linerate stat --tier sim -- COMMAND";

/// Returns the simulation command. If no simulator is installed, the command first installs one or,
/// without a known package manager, says in a comment that one is needed.
fn simulate(facts: &Facts) -> String {
    match (has_simulator(facts), facts.installer) {
        (true, _) => SIMULATE.to_owned(),
        (false, Some(installer)) => {
            format!("{} {} && {SIMULATE}", installer.command, simulator_package(installer))
        }
        (false, None) => format!("{SIMULATE}  # {NEEDS}"),
    }
}

/// Returns the simulation command, followed by a shell comment.
fn simulate_with(facts: &Facts, comment: &str) -> String {
    let command = simulate(facts);
    let mark = if command.contains("  # ") { "; " } else { "  # " };
    format!("{command}{mark}{comment}")
}

fn has_simulator(facts: &Facts) -> bool {
    facts.qemu.is_some() || facts.valgrind.is_some()
}

/// Returns the package with a simulator: QEMU if one package has all its user-mode emulators,
/// otherwise Valgrind.
fn simulator_package(installer: Installer) -> &'static str {
    match installer.program {
        "apt-get" | "pacman" => "qemu-user",
        _ => "valgrind",
    }
}

/// Returns the command that sets `kernel.perf_event_paranoid`; in a user namespace, where root may
/// not change it, returns the simulation command, with the sysctl command as a comment.
pub(crate) fn lower_paranoid(facts: &Facts, level: i32) -> String {
    let command = format!("sudo sysctl kernel.perf_event_paranoid={level}");
    match facts.is_in_user_namespace {
        true => simulate_with(facts, &format!("simulates; or on the host: {command}")),
        false => command,
    }
}

/// Explains why an event never got a counter, although it was opened and its target ran.
fn never_scheduled(event: &Event, around: &HostFacts) -> Explanation {
    if event.class == Class::Hardware && around.pmu_user().is_some() {
        return registers::held();
    }
    let facts = around.facts();
    let name = &event.name;
    if let Some(unit) = facts.hybrid_unit(event.selector.kind) {
        let (on, list) = (kernel::cpus_of(unit), kernel::list_of(unit));
        return Explanation::new(
            Cause::HybridCores,
            format!(
                "`{name}` is counted only on {on} ({}), but the target did not run there",
                unit.name
            ),
            format!("taskset -c {list} linerate stat -e {name} -- COMMAND"),
        );
    }
    let units = facts.hybrid_units(event.selector.kind);
    if !units.is_empty() {
        let named: Vec<String> = units
            .iter()
            .map(|unit| format!("{} on {}", unit.name, kernel::cpus_of(unit)))
            .collect();
        let command = |unit| {
            format!("taskset -c {} linerate stat -e {name} -- COMMAND", kernel::list_of(unit))
        };
        let commands: Vec<String> = units.iter().map(command).collect();
        return Explanation::new(
            Cause::HybridCores,
            format!(
                "`{name}` is counted only on one type of core, on which the target may not have \
                 run (PMUs: {})",
                named.join(", ")
            ),
            commands.join("  # or: "),
        );
    }
    if facts.is_watchdog_on {
        return Explanation::new(
            Cause::WatchdogHoldsCounter,
            format!(
                "`{name}` never got a counter: the kernel's NMI watchdog (kernel.nmi_watchdog = 1) \
                 holds one on every CPU"
            ),
            "sudo sysctl kernel.nmi_watchdog=0",
        );
    }
    Explanation::new(
        Cause::NeverScheduled,
        format!(
            "`{name}` never got a counter: other events held all counters, or this event got no \
             time slice"
        ),
        format!("linerate stat -e {name} -- COMMAND  # count it alone, or for longer"),
    )
}

/// Explains why a kernel event cannot be counted for user mode only.
fn kernel_only(event: &Event) -> Explanation {
    let name = &event.name;
    Explanation::new(
        Cause::UnsupportedEvent,
        format!("`{name}` occurs only in the kernel, never in user mode"),
        format!("linerate stat -e {} -- COMMAND  # without :u", name.trim_end_matches(":u")),
    )
}

fn nothing_to_count() -> Explanation {
    Explanation::new(Cause::TargetGone, "no CPU was given", "linerate stat --cpu 0")
}

/// Explains why an event that counts whole units is not counted on a list of CPUs.
fn whole_units(event: &Event, unit_cpus: &[u32]) -> Explanation {
    let (name, list) = (&event.name, format_cpu_list(unit_cpus));
    Explanation::new(
        Cause::UnsupportedEvent,
        format!(
            "`{name}` counts per unit, such as a package, not per CPU, and several of the CPUs may \
             share a unit; {} all units",
            match unit_cpus {
                [one] => format!("CPU {one} covers"),
                _ => format!("CPUs {list} cover"),
            }
        ),
        format!("linerate stat --cpu {list} -e {name}"),
    )
}

/// Explains why programs cannot read counters from user space; `None` if no setting forbids it.
pub(crate) fn user_access_off(facts: &Facts) -> Option<Explanation> {
    let access = facts.user_access.as_ref().filter(|access| !access.is_on)?;
    let setting = &access.setting;
    let fix = match setting.starts_with('/') {
        true => format!("echo 1 | sudo tee {setting}"),
        false => format!("sudo sysctl {setting}=1"),
    };
    let sentence = format!("{setting} is 0: programs may not read counters without a system call");
    Some(Explanation::new(Cause::UserAccessOff, sentence, fix))
}

/// Explains why the simulator is not available; `None` if it is.
pub fn no_valgrind(facts: &Facts) -> Option<Explanation> {
    if facts.valgrind.is_some() {
        return None;
    }
    let fix = match facts.installer {
        Some(installer) => format!("{} {}", installer.command, simulator_package(installer)),
        None => "export PATH=\"$PATH:DIR\"  # DIR has qemu-user's emulators or Valgrind".to_owned(),
    };
    let sentence = "neither QEMU's user-mode emulator (package qemu-user) nor Valgrind, which \
                    simulate instructions and caches, is in PATH";
    Some(Explanation::new(Cause::NoValgrind, sentence, fix))
}

/// Explains that this processor does not count an event, according to its event table and for the
/// given `reason`.
pub fn not_in_table(event: &str, table: &str, reason: &str) -> Explanation {
    Explanation::new(
        Cause::NotInTable,
        format!("`{event}` is not counted on this processor (table {table}): {reason}"),
        "linerate stat --list",
    )
}

#[cfg(test)]
mod tests;
