// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contents of a dump: time slices in which a strand had a pair of events counted, generated
//! from totals as if the events had been counted one after another.

use crate::{CannotWrite, EventCode, INSTRUCTIONS, Processor};
use linerate_record::strands::{Place, Slice};

/// Maximum value of a counter in a dump.
pub(crate) const COUNT_MAX: u64 = u32::MAX as u64;

/// A strand to be written, with its number in the dump.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Name in the record.
    pub name: String,
    /// CPUID.
    pub number: u32,
    /// Readings.
    pub slices: Vec<Slice>,
}

/// Totals of a strand, to be written as if the events had been multiplexed.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals {
    /// Packets.
    pub packets: u64,
    /// Ticks.
    pub ticks: u64,
    /// Instructions.
    pub instructions: u64,
    /// Events by name.
    pub events: Vec<(String, u64)>,
}

/// Slices that add up to `totals`, with one event each.
///
/// Packets, ticks and instructions add up exactly. The slices of an event have a count in
/// proportion to their share of the instructions, rounded: the event's rate is the overall rate to
/// within half a count. Events for which the processor has no code are left out; their names are
/// returned.
///
/// # Errors
/// The processor has no event code for instructions.
pub fn slices(
    totals: &Totals,
    processor: &Processor,
) -> Result<(Vec<Slice>, Vec<String>), CannotWrite> {
    let code = |name: &str| processor.codes.iter().find(|event| event.name == name);
    let instructions = code(INSTRUCTIONS).ok_or_else(|| {
        CannotWrite(
            "the processor has no event code for instructions: name another with --machine".into(),
        )
    })?;
    let coded: Vec<(&EventCode, u64)> =
        totals.events.iter().filter_map(|(name, count)| Some((code(name)?, *count))).collect();
    let left_out = totals.events.iter().map(|(name, _)| name.clone());
    let left_out = left_out.filter(|name| code(name).is_none()).collect();
    // Without an event, the instructions still need a second code: that of instructions itself.
    let turns: Vec<(u64, u64)> = match coded.as_slice() {
        [] => vec![(instructions.code, totals.instructions)],
        coded => coded.iter().map(|(event, count)| (event.code, *count)).collect(),
    };
    let most = turns.iter().map(|(_, count)| *count).max().unwrap_or(0).max(totals.instructions);
    let pieces = most / COUNT_MAX + 1;
    let steps = turns.len() as u64 * pieces;
    let part = |all: u64, step: u64| u128::from(all) * u128::from(step) / u128::from(steps);
    let mut slices = vec![reading(0, 0)];
    for step in 0..steps {
        let (code, count) = turns[(step % turns.len() as u64) as usize];
        let share = |all: u64| (part(all, step + 1) - part(all, step)) as u64;
        let executed = share(totals.instructions);
        // The event's rate in this slice equals the overall rate.
        let count = match totals.instructions {
            0 => share(count),
            all => {
                let all = u128::from(all);
                ((u128::from(count) * u128::from(executed) + all / 2) / all) as u64
            }
        };
        slices.push(Slice {
            from_ticks: Some(part(totals.ticks, step) as u64),
            code_hi: Some(instructions.code),
            code_lo: Some(code),
            count_hi: executed,
            count_lo: count,
            is_first: false,
            ..reading(part(totals.ticks, step + 1) as u64, part(totals.packets, step + 1) as u64)
        });
    }
    if slices.iter().any(|slice| slice.count_lo > COUNT_MAX) {
        return Err(CannotWrite(
            "an event overflows its 32-bit counter within a slice sized for instructions"
                .to_owned(),
        ));
    }
    Ok((slices, left_out))
}

/// A reading that has only time and packets.
pub(crate) fn reading(to_ticks: u64, user: u64) -> Slice {
    Slice {
        line: 0,
        from_ticks: None,
        to_ticks,
        code_hi: None,
        code_lo: None,
        count_hi: 0,
        count_lo: 0,
        overflow: 0,
        user,
        is_first: true,
        from: Place::default(),
        to: Place::default(),
    }
}
