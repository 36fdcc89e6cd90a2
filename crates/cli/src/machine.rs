// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines the processor of a record or an input, and its cache miss costs.

use crate::failure::Failure;
use crate::input;
use linerate_cmt::processor::Processor;
use linerate_exchange::EventCode;
use linerate_explain::cpi::{EventCosts, costs_from};
use linerate_memory::profile;
use linerate_plan::footprint::{KnownMemory, Unknown};
use std::path::Path;

/// Returns the built-in processor with this name or, if there is none, the processor described in
/// the file with this name.
pub(crate) fn named(name: &str) -> Result<Processor, Failure> {
    match Processor::named(name) {
        Some(processor) => Ok(processor),
        None => from_file(name),
    }
}

/// Returns the file that describes the processor; `None` if `name` is a known processor.
pub(crate) fn file(name: &str) -> Option<&Path> {
    let is_known = name == "this" || Processor::named(name).is_some();
    (!is_known).then(|| Path::new(name))
}

fn from_file(name: &str) -> Result<Processor, Failure> {
    let names = Processor::names().collect::<Vec<_>>().join(", ");
    let text = input::text(Path::new(name), input::TOML).map_err(|error| {
        Failure::new(format!(
            "--machine {name}: expected 'this', {names} or a readable file: {error}"
        ))
    })?;
    Processor::from_toml(&text)
        .map_err(|error| Failure::new(format!("invalid processor file {name}: {error}")))
}

/// Returns a processor's event codes. Each code has the event's portable name, if requested and
/// available, or else the name in the processor file.
pub(crate) fn codes(processor: &Processor, is_portable: bool) -> Vec<EventCode> {
    let events = processor.events.iter();
    let code = events.map(|event| EventCode {
        code: event.code,
        name: match &event.portable {
            Some(portable) if is_portable => portable.clone(),
            _ => event.name.clone(),
        },
        native: event.native.clone(),
    });
    code.collect()
}

/// Returns the cache miss costs in this machine's profile for `cpus`, or for those that this
/// process may run on; `None` without a profile.
///
/// # Errors
/// Returns an error if the profile cannot be used.
pub(crate) fn costs_here(cpus: Option<&[u32]>) -> Result<Option<EventCosts>, String> {
    let stored = cpus.map_or_else(profile::load_for_process, profile::load);
    let stored = stored.map_err(|error| error.to_string())?;
    Ok(stored.map(|stored| {
        let source = format!("this machine's profile, measured {} ago", stored.age());
        costs_from(&stored.profile.report, &source)
    }))
}

/// Returns the memory hierarchy in this machine's profile for `cpus`.
pub(crate) fn memory(cpus: &[u32]) -> Result<KnownMemory, Unknown> {
    let stored = profile::load(cpus).map_err(|error| Unknown::CannotTell(error.to_string()))?;
    let stored = stored.ok_or(Unknown::NoProfile)?;
    Ok(KnownMemory { age: stored.age(), report: stored.profile.report })
}
