// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report for each part of a worker: its head, its stages, its tail.

use super::estimate::{cycles_figure, ticks_figure};
use super::{events, kernels};
use crate::ended::Ended;
use crate::job::Job;
use crate::worker::{Head, Tail, Worker};
use linerate_path::model::FullRing;
use linerate_record::run::{Ledger, StageReport, Tally, TimeShares};
use std::collections::BTreeMap;

/// Inputs to the report for one part, in addition to the worker's own figures.
struct PartView {
    name: String,
    packets: u64,
    measured: u64,
    ledger: Ledger,
    counts: BTreeMap<String, u64>,
    idle: Option<String>,
}

/// Returns one report per part, in order; `time` holds the worker's time shares.
pub(super) fn stage_reports(
    job: &Job<'_>,
    ended: &Ended<'_>,
    time: Option<TimeShares>,
) -> Vec<StageReport> {
    let readings = &ended.readings;
    let clean = || readings.windows.iter().filter(|window| window.clean);
    let sampled: u64 = clean().flat_map(|w| w.parts).map(|part| part.ticks).sum();
    let seconds = readings.wall_ns as f64 / 1e9;
    let views = part_views(job, ended);
    let reports = views.into_iter().enumerate().map(|(index, view)| {
        let windows = clean().map(|window| window.parts[index]);
        let ticks: u64 = windows.clone().map(|part| part.ticks).sum();
        let samples: Vec<f64> = windows
            .filter(|part| part.packets > 0)
            .map(|part| part.ticks as f64 / part.packets as f64)
            .collect();
        let ticks_per_packet = ticks_figure(
            &samples,
            "one iteration in 16, windows without \
                                                       preemption",
        );
        let share = (sampled > 0).then(|| ticks as f64 / sampled as f64);
        let drops = view.ledger.drops.iter().map(|(cause, t)| (cause.clone(), t.packets));
        let kernels = ended.kernels.get(index).and_then(Option::as_ref);
        let kernels = kernels.map(|all| kernels::uses(all, &ticks_per_packet));
        StageReport {
            name: view.name,
            packets: view.packets,
            kpps: (seconds > 0.0).then(|| view.measured as f64 / seconds / 1e3),
            cycles_per_packet: cycles_figure(&ticks_per_packet, ended.clock),
            ticks_per_packet,
            busy: time.zip(share).map(|(time, share)| time.busy * share),
            starved: time.map(|time| time.starved),
            blocked: time.map(|time| time.blocked),
            empty_polls: readings.empty_polls,
            drops: drops.collect(),
            ledger: view.ledger,
            counts: view.counts,
            idle: view.idle,
            kernels,
            events: events::of_part(ended, index),
        }
    });
    reports.collect()
}

fn part_views(job: &Job<'_>, ended: &Ended<'_>) -> Vec<PartView> {
    let worker = &ended.worker;
    let mut views = vec![head_view(ended)];
    let mut reaching = worker.input;
    for (index, part) in worker.parts.iter().enumerate() {
        let ledger = stage_ledger(job, ended, index, reaching);
        reaching = ledger.output;
        let is_given = part.input_packets > 0 && ledger.drops.is_empty();
        views.push(PartView {
            name: part.name.clone(),
            packets: part.input_packets,
            measured: measured(part.measured, part.input_packets),
            ledger,
            counts: part.stage.counts().into_iter().map(|(n, c)| (n.to_owned(), c)).collect(),
            idle: is_given.then(|| part.stage.idle(part.input_packets)).flatten(),
        });
    }
    views.push(tail_view(job, worker));
    views
}

/// Returns the increase of a packet count during the measurement, from its values at the start and
/// the end. If the end of the measurement was not reached, `total`, the last value, is used
/// instead.
fn measured([begin, end]: [u64; 2], total: u64) -> u64 {
    end.min(total) - begin
}

/// Returns the packets that a panicked part left in its burst.
fn held(ended: &Ended<'_>, part: usize) -> Tally {
    let mut held = Tally::default();
    if ended.panic.is_some() && ended.worker.at == part {
        ended.worker.burst.remaining().for_each(|packet| held.add(1, packet.length() as u64));
    }
    held
}

/// Builds the ledger for a stage. Output packets are the input to the next part; output bytes are
/// recounted in audited runs and at the end of the worker, otherwise derived from the stage's
/// account.
fn stage_ledger(job: &Job<'_>, ended: &Ended<'_>, index: usize, reaching: Tally) -> Ledger {
    let worker = &ended.worker;
    let part = &worker.parts[index];
    let account = &part.context.account;
    let held = held(ended, index + 1);
    let computed = (reaching.bytes + account.created.bytes)
        .wrapping_sub(account.consumed.bytes)
        .wrapping_sub(account.dropped().bytes)
        .wrapping_sub(held.bytes);
    let output = match worker.parts.get(index + 1) {
        None => worker.output,
        Some(_) if job.audit => part.audited_output,
        Some(next) => Tally { packets: next.input_packets, bytes: computed },
    };
    let drops = account.drops.iter().enumerate().filter(|(_, t)| t.packets > 0);
    let named = drops.map(|(i, tally)| {
        let cause = part.drop_causes.get(i).copied();
        (cause.map_or_else(|| format!("cause {i}"), str::to_owned), *tally)
    });
    Ledger {
        input: Tally { packets: part.input_packets, bytes: reaching.bytes },
        created: account.created,
        output,
        consumed: account.consumed,
        drops: named.collect(),
        held,
    }
}

fn head_view(ended: &Ended<'_>) -> PartView {
    let worker = &ended.worker;
    let mut ledger = Ledger { output: worker.input, held: held(ended, 0), ..Ledger::default() };
    match &worker.head {
        Head::Source(queue) => {
            ledger.created = queue.taken + queue.missed;
            if queue.missed.packets > 0 {
                ledger.drops.insert("rx_missed".to_owned(), queue.missed);
            }
        }
        Head::Rings { .. } => ledger.input = worker.input + ledger.held,
    }
    PartView {
        name: worker.part_name(0).to_owned(),
        packets: worker.input.packets,
        measured: measured(worker.measured.map(|[input, _]| input), worker.input.packets),
        ledger,
        counts: BTreeMap::new(),
        idle: None,
    }
}

fn tail_view(job: &Job<'_>, worker: &Worker<'_, '_>) -> PartView {
    let mut ledger = Ledger { input: worker.output, ..Ledger::default() };
    match &worker.tail {
        Tail::Sink(_) => ledger.consumed = worker.output,
        Tail::Rings { outlets, .. } => {
            let staged = outlets.iter().flat_map(|outlet| &outlet.staged);
            staged.for_each(|packet| ledger.held.add(1, packet.length() as u64));
            // Only packets that have entered a ring count as output; the worker that reads the ring
            // counts them again.
            ledger.output = Tally {
                packets: worker.output.packets - worker.overflow.packets - ledger.held.packets,
                bytes: worker.output.bytes - worker.overflow.bytes - ledger.held.bytes,
            };
            if job.options.full_ring == FullRing::Drop && worker.overflow.packets > 0 {
                ledger.drops.insert("ring_full".to_owned(), worker.overflow);
            }
        }
    }
    PartView {
        name: worker.part_name(worker.parts.len() + 1).to_owned(),
        packets: worker.output.packets,
        measured: measured(worker.measured.map(|[_, output]| output), worker.output.packets),
        ledger,
        counts: BTreeMap::new(),
        idle: None,
    }
}
