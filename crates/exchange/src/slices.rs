// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time slices, the contents of a dump. During each slice, a strand counted a pair of events.
//! Slices can also be generated from totals, as if the events had been counted one after the other.

use crate::{CannotWrite, EventCode, INSTRUCTIONS, Processor};
use linerate_record::strands::{Place, Slice};

/// Maximum counter value in a dump.
pub(crate) const COUNT_MAX: u64 = u32::MAX as u64;

/// A strand to write to a dump, with its CPUID in the dump.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Strand name in the record.
    pub name: String,
    /// Strand CPUID in the dump.
    pub number: u32,
    /// Slices with their counter readings.
    pub slices: Vec<Slice>,
}

/// A strand's totals, from which slices are generated as if the events had been multiplexed.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals {
    /// Packets.
    pub packets: u64,
    /// Ticks.
    pub ticks: u64,
    /// Instructions.
    pub instructions: u64,
    /// Counts of other events by name.
    pub events: Vec<(String, u64)>,
}

/// Generates slices from `totals`. Each slice counts instructions and at most one other event.
///
/// Packets, ticks and instructions add up exactly to the totals. As with multiplexing, each event
/// is counted in only some of the slices. Its count in a slice is its total, multiplied by the
/// slice's share of the instructions and rounded, so that its rate agrees with the overall rate to
/// within half a count per slice. Events without a code on this processor are omitted; their names
/// are returned.
///
/// # Errors
/// Returns an error if the processor has no event code for instructions.
pub fn slices(
    totals: &Totals,
    processor: &Processor,
) -> Result<(Vec<Slice>, Vec<String>), CannotWrite> {
    let code = |name: &str| processor.codes.iter().find(|event| event.name == name);
    let instructions = code(INSTRUCTIONS).ok_or_else(|| {
        CannotWrite(
            "the processor has no event code that counts instructions: name another processor with \
             --machine".into(),
        )
    })?;
    let coded: Vec<(&EventCode, u64)> =
        totals.events.iter().filter_map(|(name, count)| Some((code(name)?, *count))).collect();
    let left_out = totals.events.iter().map(|(name, _)| name.clone());
    let left_out = left_out.filter(|name| code(name).is_none()).collect();
    // A slice counts a pair of events: without another event, both count instructions.
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
        // Scaled so that the event's rate in this slice equals the overall rate.
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
            "an event's count would exceed 32 bits within a slice, although the instruction \
             count would not"
                .to_owned(),
        ));
    }
    Ok((slices, left_out))
}

/// Returns a reading that contains only time and packets, without event counts.
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
