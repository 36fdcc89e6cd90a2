// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rejects invalid requests before anything is started.

use crate::{Per, Request, Simulator, StatError, What};
use linerate_doctor::host_facts::HostFacts;
use linerate_machine::parse_cpu_list;
use linerate_record::{Body, Tier};

/// Checks that a request's options are valid, individually and in combination.
pub(crate) fn check(request: &Request, around: &HostFacts) -> Result<(), StatError> {
    let wrong = numbers(request)
        .or_else(|| together(request))
        .or_else(|| simulated(request))
        .or_else(|| hot(request));
    match wrong {
        Some(reason) => Err(StatError::BadRequest { reason: reason.to_owned() }),
        None => processors(request, around),
    }
}

fn numbers(request: &Request) -> Option<&'static str> {
    let Request { what, per, threshold, .. } = request;
    match what {
        What::Command { argv } if argv.is_empty() => return Some("the command is missing"),
        What::Cpus(cpus) if cpus.is_empty() => return Some("the CPU list is empty"),
        _ => {}
    }
    match per {
        Some(Per::Units(units)) if !(units.is_finite() && *units > 0.0) => {
            return Some("the number of units of work must be above 0");
        }
        _ => {}
    }
    if request.interval.is_some_and(|interval| interval.is_zero()) {
        return Some("an interval must be longer than 0");
    }
    if request.slice.is_zero() {
        return Some("a slice must be longer than 0");
    }
    if request.repeat == 0 {
        return Some("a command must run at least once");
    }
    (!(threshold.is_finite() && *threshold >= 0.0)).then_some("the threshold must be 0 or more")
}

fn together(request: &Request) -> Option<&'static str> {
    let is_command = matches!(request.what, What::Command { .. });
    let is_repeated = request.repeat > 1;
    if is_repeated && !is_command {
        return Some("only a command can be repeated");
    }
    if is_repeated && (request.interval.is_some() || request.threads) {
        return Some("--interval and --threads apply to a single run: drop --repeat");
    }
    if request.threads && matches!(request.what, What::Cpus(_)) {
        return Some("--threads applies to a command or a process, not to CPUs");
    }
    match &request.baseline {
        Some(record) if !matches!(record.body, Body::Stat(_)) => {
            Some("the baseline is not a record of `linerate stat`")
        }
        _ => None,
    }
}

fn simulated(request: &Request) -> Option<&'static str> {
    let is_simulated = request.tier == Some(Tier::Sim);
    if request.tier == Some(Tier::Model) {
        return Some("events cannot be counted on tier model: choose hw, user, sw or sim");
    }
    if !is_simulated && request.caches.is_some() {
        return Some("--caches applies to simulation only: add --tier sim");
    }
    if is_simulated && !matches!(request.what, What::Command { .. }) {
        return Some("only a command can be simulated, and only from its start");
    }
    (is_simulated && (request.interval.is_some() || request.threads))
        .then_some("the simulator counts neither per interval nor per thread")
}

fn hot(request: &Request) -> Option<&'static str> {
    request.hot.as_ref()?;
    if request.tier != Some(Tier::Sim) {
        return Some("--hot applies to simulation only: add --tier sim");
    }
    if request.repeat > 1 {
        return Some("--hot applies to a single run: drop --repeat");
    }
    (request.simulator == Some(Simulator::Valgrind) || request.plugin.is_none()).then_some(
        "only QEMU counts by function: drop --hot, or drop --simulator valgrind and any baseline \
         simulated by Valgrind",
    )
}

/// Checks that the CPUs exist. If the kernel does not report which CPUs are online, they are
/// assumed to exist.
fn processors(request: &Request, around: &HostFacts) -> Result<(), StatError> {
    let What::Cpus(cpus) = &request.what else { return Ok(()) };
    let file = around.root().join("sys/devices/system/cpu/online");
    let Ok(text) = std::fs::read_to_string(file) else { return Ok(()) };
    let Ok(online) = parse_cpu_list(text.trim()) else { return Ok(()) };
    match cpus.iter().find(|cpu| !online.contains(cpu)) {
        None => Ok(()),
        Some(cpu) => {
            let reason = format!("CPU {cpu} is not online; online: {}", text.trim());
            Err(StatError::NoTarget { reason })
        }
    }
}
