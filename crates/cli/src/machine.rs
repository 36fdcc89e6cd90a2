// SPDX-License-Identifier: MIT OR Apache-2.0
//! The processor of a record or an input, and what misses cost on it.

use crate::failure::Failure;
use crate::input;
use linerate_cmt::processor::Processor;
use linerate_exchange::EventCode;
use linerate_explain::cpi::{EventCosts, costs_from};
use linerate_memory::profile;
use linerate_plan::footprint::{KnownMemory, Unknown};
use std::path::Path;

/// The built-in processor with this name, or the processor described in the file with this name.
pub(crate) fn named(name: &str) -> Result<Processor, Failure> {
    match Processor::named(name) {
        Some(processor) => Ok(processor),
        None => from_file(name),
    }
}

/// The file that describes the processor; `None` if `name` is that of a known processor.
pub(crate) fn file(name: &str) -> Option<&Path> {
    let is_known = name == "this" || Processor::named(name).is_some();
    (!is_known).then(|| Path::new(name))
}

fn from_file(name: &str) -> Result<Processor, Failure> {
    let names = Processor::names().collect::<Vec<_>>().join(", ");
    let text = input::text(Path::new(name), input::TOML).map_err(|error| {
        Failure::new(format!(
            "--machine {name}: expected this, {names} or a readable file: {error}"
        ))
    })?;
    Processor::from_toml(&text)
        .map_err(|error| Failure::new(format!("invalid processor file {name}: {error}")))
}

/// The codes of a processor's events. Each comes with the event's name in the processor's file or,
/// if requested, with its portable name where there is one.
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

/// Cost of misses on this machine, from its profile; `None` without a profile.
///
/// # Errors
/// The profile cannot be read.
pub(crate) fn costs_here() -> Result<Option<EventCosts>, String> {
    let stored = profile::load().map_err(|error| error.to_string())?;
    Ok(stored.map(|stored| {
        let source = format!("the profile of this machine, measured {} ago", stored.age());
        costs_from(&stored.profile.report, &source)
    }))
}

/// Memory hierarchy of this machine, from its profile.
pub(crate) fn memory() -> Result<KnownMemory, Unknown> {
    let stored = profile::load().map_err(|error| Unknown::CannotTell(error.to_string()))?;
    let stored = stored.ok_or(Unknown::NoProfile)?;
    Ok(KnownMemory { age: stored.age(), report: stored.profile.report })
}
