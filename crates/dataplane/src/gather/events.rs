// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hardware events per packet, from the counted turns of a strand.

use super::{CONFIDENCE, SEED, WINDOWS_MIN};
use crate::counting::CountedTurns;
use crate::runner::Ended;
use linerate_record::run::CountedEvents;
use linerate_record::stats::block_bootstrap_ratio;
use linerate_record::{Figure, Tier};
use std::collections::BTreeMap;

/// Which events were counted, and how; `None` where none were asked for. All strands of a run open
/// the same events on the same machine: what the first one got stands for all.
pub(super) fn counted(ended: &[Ended<'_, '_>]) -> Option<CountedEvents> {
    let first = ended.first().filter(|strand| !strand.counted.is_empty())?;
    let turns = first.readings.counted.as_ref();
    Some(CountedEvents {
        reading: turns.map(|turns| turns.reading.to_owned()),
        one_turn_in: turns.map_or(0, |turns| turns.one_turn_in),
        events: first.counted.clone(),
    })
}

/// The events of a part per packet, and cycles per instruction; `None` where nothing was counted.
pub(super) fn of_part(ended: &Ended<'_, '_>, part: usize) -> Option<BTreeMap<String, Figure>> {
    let turns = ended.readings.counted.as_ref()?;
    let opened = ended.counted.iter().zip(&turns.tiers).enumerate();
    let opened: Vec<(usize, &str, Tier)> = opened
        .filter_map(|(index, (event, tier))| Some((index, event.name.as_str(), (*tier)?)))
        .collect();
    let packets = turns.packets(part);
    let mut figures: BTreeMap<String, Figure> = opened
        .iter()
        .map(|&(index, name, tier)| {
            let counts = turns.counts(part, index);
            (name.to_owned(), ratio(&counts, &packets, &format!("{name}/packet"), tier, turns))
        })
        .collect();
    let place = |wanted: &str| opened.iter().find(|(_, name, _)| *name == wanted);
    if let (Some(&(cycles, _, tier)), Some(&(instructions, ..))) =
        (place("cycles"), place("instructions"))
    {
        let (above, under) = (turns.counts(part, cycles), turns.counts(part, instructions));
        figures.insert("cpi".to_owned(), ratio(&above, &under, "cycles/instruction", tier, turns));
    }
    Some(figures)
}

/// All of `above` over all of `under`.
fn ratio(above: &[f64], under: &[f64], unit: &str, tier: Tier, turns: &CountedTurns) -> Figure {
    let method = format!("one turn in {}, {}", turns.one_turn_in, turns.reading);
    if under.len() < WINDOWS_MIN {
        let reason = format!("only {} turns were counted; run longer", under.len());
        return Figure::absent(unit, tier, &method, &reason);
    }
    Figure::number(unit, block_bootstrap_ratio(above, under, CONFIDENCE, SEED), tier, &method)
}
