// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts a linerate record to the data that a dump can contain: packets, ticks and events of
//! each strand. Workers, regions or the whole program are written as strands.
//!
//! The ticks and event counts in a dump cover all of a strand's time. linerate's records count
//! events only during work, so the ticks must cover only work as well: they are packets times
//! service time. The resulting packet rate is the rate of a strand that never waits.
//!
//! | record | strand | packets | ticks |
//! |---|---|---|---|
//! | run, tune | worker | packets it received | service time times packets |
//! | regions | region of a thread | units of work, otherwise visits | ticks in the region |
//! | stat | all | the unit of work | cycles |
//!
//! For workers and regions without instruction counts, only time and packets are written; a `stat`
//! record must contain instruction counts.

use crate::slices::{Totals, Written, reading, slices};
use crate::{CYCLES, CannotWrite, INSTRUCTIONS, Processor};
use linerate_record::regions::RegionReport;
use linerate_record::run::{RunReport, StageReport, WorkerReport};
use linerate_record::stat::StatReport;
use linerate_record::strands::{Slice, StrandCounts};
use linerate_record::{Body, Record};
use std::collections::{BTreeMap, BTreeSet};

/// Data to write to a dump, and events that cannot be written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings {
    /// Strands of the dump, with their CPUIDs.
    pub strands: Vec<Written>,
    /// Events for which the processor has no code.
    pub left_out: BTreeSet<String>,
}

/// Returns the readings for a dump of the record.
///
/// # Errors
/// Returns an error if the record has no packet counts with service times.
pub fn readings(record: &Record, processor: &Processor) -> Result<Readings, CannotWrite> {
    let strands = match &record.body {
        Body::Strands(report) => return of_import(&report.strands),
        Body::Run(run) => of_run(run),
        Body::Tune(tune) => of_run(&tune.tuned),
        Body::Regions(report) => report.regions.iter().zip(0..).filter_map(of_region).collect(),
        Body::Stat(stat) => vec![("all".to_owned(), 0, of_stat(stat)?)],
        _ => {
            return Err(CannotWrite(
                "the record has no timed packets: only a run, tune, regions, stat --per or \
                 import record can be exported as a dump"
                    .to_owned(),
            ));
        }
    };
    let mut found = Readings::default();
    for (name, number, (totals, is_counted)) in strands {
        let slices = if is_counted {
            let (slices, left_out) = slices(&totals, processor)?;
            found.left_out.extend(left_out);
            slices
        } else {
            // An update without a start contributes time and packets, but no counts.
            let end = Slice { is_first: false, ..reading(totals.ticks, totals.packets) };
            vec![reading(0, 0), end]
        };
        found.strands.push(Written { name, number, slices });
    }
    if found.strands.is_empty() {
        return Err(CannotWrite("no part of the record has timed packets".to_owned()));
    }
    Ok(found)
}

fn of_import(strands: &[StrandCounts]) -> Result<Readings, CannotWrite> {
    let written = strands.iter().map(|strand| {
        let name = strand.label();
        match strand.cpu {
            Some(number) if !strand.slices.is_empty() => {
                Ok(Written { name, number, slices: strand.slices.clone() })
            }
            _ => Err(CannotWrite(format!(
                "{name}: the import has no counter readings with a CPU number, which a dump needs"
            ))),
        }
    });
    let strands = written.collect::<Result<_, _>>()?;
    Ok(Readings { strands, left_out: BTreeSet::new() })
}

/// A strand's totals, and whether they include an instruction count.
type Counted = (Totals, bool);

fn counted(packets: u64, ticks: f64, mut events: BTreeMap<String, f64>) -> Option<Counted> {
    let instructions = events.remove(INSTRUCTIONS);
    let whole = |number: f64| number.round() as u64;
    let totals = Totals {
        packets,
        ticks: whole(ticks),
        instructions: instructions.map_or(0, whole),
        events: events.into_iter().map(|(name, count)| (name, whole(count))).collect(),
    };
    (packets > 0 && totals.ticks > 0).then_some((totals, instructions.is_some()))
}

fn of_run(run: &RunReport) -> Vec<(String, u32, Counted)> {
    let of = |worker: &WorkerReport| {
        let packets = worker.stages.first()?.packets;
        let ticks = worker.ticks_per_packet.as_number()? * packets as f64;
        let counted = counted(packets, ticks, events_of(&worker.stages))?;
        Some((worker.name.clone(), worker.cpu, counted))
    };
    let mut lines: Vec<_> = run.workers.iter().filter_map(of).collect();
    // Workers that shared a CPU get different CPUIDs, so that they remain separate strands.
    let cpus: BTreeSet<u32> = lines.iter().map(|(_, cpu, _)| *cpu).collect();
    if cpus.len() < lines.len() {
        lines.iter_mut().zip(0..).for_each(|((_, number, _), at)| *number = at);
    }
    lines
}

/// Returns event counts summed over all stages. Omits events that a stage with packets lacks.
fn events_of(stages: &[StageReport]) -> BTreeMap<String, f64> {
    let mut stages = stages.iter().filter(|stage| stage.packets > 0);
    let of = |stage: &StageReport| -> BTreeMap<String, f64> {
        let events = stage.events.iter().flatten().filter(|(name, _)| *name != "cpi");
        let whole = |figure: &linerate_record::Figure| {
            Some(figure.as_number()?.max(0.0) * stage.packets as f64)
        };
        events.filter_map(|(name, figure)| Some((name.clone(), whole(figure)?))).collect()
    };
    let mut all = stages.next().map_or_else(BTreeMap::new, of);
    for stage in stages {
        let more = of(stage);
        all.retain(|name, _| more.contains_key(name));
        all.iter_mut().for_each(|(name, count)| *count += more[name]);
    }
    all
}

fn of_region((region, number): (&RegionReport, u32)) -> Option<(String, u32, Counted)> {
    let packets = if region.units > 0 { region.units } else { region.visits };
    let events = region.events.iter();
    let events = events.filter_map(|event| Some((event.name.clone(), event.count.as_number()?)));
    let counted = counted(packets, region.ticks.as_number()?, events.collect())?;
    Some((format!("{} of thread {}", region.name, region.tid), number, counted))
}

fn of_stat(stat: &StatReport) -> Result<Counted, CannotWrite> {
    let lacks = |what: &str| CannotWrite(format!("a dump needs {what}"));
    let unit = stat.unit_of_work.as_ref().and_then(|unit| unit.count.as_number());
    let packets =
        unit.ok_or_else(|| lacks("a packet count: pass one with --per, e.g. --per 1000000"))?;
    let counts = stat.events.iter();
    let mut events: BTreeMap<String, f64> =
        counts.filter_map(|event| Some((event.name.clone(), event.count.as_number()?))).collect();
    let cycles = events.remove(CYCLES).ok_or_else(|| lacks("cycles, which were not counted"))?;
    if !events.contains_key(INSTRUCTIONS) {
        return Err(lacks("instructions, which were not counted"));
    }
    counted(packets.round() as u64, cycles, events)
        .ok_or_else(|| lacks("at least one packet and one cycle"))
}
