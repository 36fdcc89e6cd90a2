// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens PMU registers for a thread to read. The module must have made the registers accessible on
//! the thread's CPU, and must have selected the thread's events.

use super::module::{self, Cpu, Module, PmuUser};
use super::processor::Processor;
use super::{Bank, Registers};
use crate::event::{Class, Event};
use crate::reading::Outcome;
use crate::refusal::{Refusal, RegisterRefusal};
use linerate_linux::allowed_cpus;

/// Opens the PMU registers for the hardware events among `events` on the calling thread. For each
/// of these events that has not been refused yet, stores its tier or the reason for refusing it in
/// `outcomes`.
pub(crate) fn open(
    pmu_user: &PmuUser,
    events: &[Event],
    user_only: bool,
    outcomes: &mut [Outcome],
) -> Option<Registers> {
    let places: Vec<usize> = (0..events.len())
        .filter(|&place| events[place].class == Class::Hardware && outcomes[place].is_ok())
        .collect();
    if places.is_empty() {
        return None;
    }
    let opened = opened(pmu_user);
    let mut counters = Vec::new();
    for &place in &places {
        let event = &events[place];
        let user_only = user_only || event.is_user_only;
        let counter = opened.as_ref().map_err(Clone::clone);
        let counter = counter.and_then(|(module, cpu)| module.counter_of(cpu, event, user_only));
        outcomes[place] = counter.map_err(Refusal::Register).map(|(number, tier)| {
            counters.push((place, number));
            tier
        });
    }
    let refuse = |outcomes: &mut [Outcome], counters: &[(usize, u32)], why: &RegisterRefusal| {
        let refused = || Err(Refusal::Register(why.clone()));
        counters.iter().for_each(|(place, _)| outcomes[*place] = refused());
    };
    let processor = match Processor::new() {
        Ok(processor) => processor,
        Err(why) => {
            refuse(outcomes, &counters, &RegisterRefusal::Unreadable(why));
            return None;
        }
    };
    let is_still = |(place, number): &(usize, u32)| {
        module::never_stops(&events[*place]) && stands_still(&processor, *number)
    };
    let (still, moving): (Vec<_>, Vec<_>) = counters.into_iter().partition(is_still);
    refuse(outcomes, &still, &RegisterRefusal::StandsStill);
    if moving.is_empty() {
        return None;
    }
    let registers = Registers::new(processor, &moving);
    if registers.is_none() {
        let why = RegisterRefusal::Unreadable("access was disabled in the meantime".to_owned());
        refuse(outcomes, &moving, &why);
    }
    registers
}

/// Returns whether two consecutive reads of a counter are equal, which means that it is stuck.
pub(super) fn stands_still(bank: &impl Bank, number: u32) -> bool {
    let first = bank.counter(number);
    first.is_some() && first == bank.counter(number)
}

/// Returns the module's state, and the only CPU that the calling thread may run on.
fn opened(pmu_user: &PmuUser) -> Result<(&Module, Cpu), RegisterRefusal> {
    let module = pmu_user.as_ref().map_err(|malformed| RegisterRefusal::NotUnderstood {
        line: malformed.line,
        reason: malformed.reason,
    })?;
    let allowed = allowed_cpus().map_err(|error| RegisterRefusal::Unreadable(error.to_string()))?;
    match allowed[..] {
        [cpu] => Ok((module, module.open_on(cpu)?)),
        _ => Err(RegisterRefusal::NotOnOneCpu { allowed }),
    }
}
