// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the report on each part of a worker: head, stages, tail.

use super::estimate::{cycles_figure, ticks_figure};
use super::{events, kernels};
use crate::ended::Ended;
use crate::job::Job;
use crate::worker::{Head, Part, Tail, Worker};
use linerate_path::model::FullRing;
use linerate_record::run::{Ledger, StageReport, Tally, TimeShares};
use std::collections::BTreeMap;

/// The values in a part's report that are obtained in different ways for head, stages and tail.
struct PartView {
    name: String,
    packets: u64,
    bypassed: u64,
    measured: u64,
    ledger: Ledger,
    counts: BTreeMap<String, u64>,
    idle: Option<String>,
}

/// Returns the reports on a worker's parts, in order. `time` is the share of each activity in the
/// worker's time.
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
        let ticks_per_packet =
            ticks_figure(&samples, "one iteration in 16, in windows without preemption");
        let share = (sampled > 0).then(|| ticks as f64 / sampled as f64);
        let drops = view.ledger.drops.iter().map(|(cause, t)| (cause.clone(), t.packets));
        let kernels = ended.kernels.get(index).and_then(Option::as_ref);
        let kernels = kernels.map(|all| kernels::uses(all, &ticks_per_packet));
        StageReport {
            name: view.name,
            packets: view.packets,
            bypassed: view.bypassed,
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
        reaching = ledger.output + part.bypassed();
        views.push(PartView {
            name: part.name.clone(),
            packets: part.input_packets,
            bypassed: part.bypassed().packets,
            measured: measured(part.measured, part.input_packets),
            ledger,
            counts: part.stage.counts().into_iter().map(|(n, c)| (n.to_owned(), c)).collect(),
            idle: idle(part),
        });
    }
    views.push(tail_view(job, worker));
    views
}

/// Returns why a stage had nothing to do; `None` if it did something, or if no packet reached it.
fn idle(part: &Part) -> Option<String> {
    match (part.input_packets, &part.branch) {
        (0, Some(branch)) => branch.idle(),
        (0, None) => None,
        _ if part.context.account.dropped().packets > 0 => None,
        (packets, _) => part.stage.idle(packets),
    }
}

/// Returns by how much a packet count increased during the measurement, given the counts at its
/// start and end. If the run ended early, there is no count at the end, and the final count,
/// `total`, is used instead.
fn measured([begin, end]: [u64; 2], total: u64) -> u64 {
    end.min(total) - begin
}

/// Returns the packets that were in the burst of a part when the part failed, including those
/// that bypassed it; zero for all other parts.
fn held(ended: &Ended<'_>, part: usize) -> Tally {
    let mut held = Tally::default();
    if ended.failure.is_some() && ended.worker.at == part {
        let worker = &ended.worker;
        let left = worker.burst.remaining().chain(worker.bypass.aside());
        left.for_each(|packet| held.add(1, packet.length() as u64));
    }
    held
}

/// Builds a stage's ledger. Output packets are those that reach the next part. Output bytes are
/// recounted after the worker's last stage and, in audited runs, after every stage; otherwise, they
/// are derived from the stage's account. Packets that bypassed the stage are subtracted from its
/// input and output, because both counts include them.
fn stage_ledger(job: &Job<'_>, ended: &Ended<'_>, index: usize, reaching: Tally) -> Ledger {
    let worker = &ended.worker;
    let part = &worker.parts[index];
    let account = &part.context.account;
    let held = held(ended, index + 1);
    let bypassed = part.bypassed();
    let computed = (reaching.bytes + account.created.bytes)
        .wrapping_sub(account.consumed.bytes)
        .wrapping_sub(account.dropped().bytes)
        .wrapping_sub(held.bytes);
    let leaving = match worker.parts.get(index + 1) {
        None => worker.output,
        Some(_) if job.audit => part.audited_output,
        Some(next) => Tally { packets: next.arrived(), bytes: computed },
    };
    let drops = account.drops.iter().enumerate().filter(|(_, t)| t.packets > 0);
    let named = drops.map(|(i, tally)| {
        let cause = part.drop_causes.get(i).copied();
        (cause.map_or_else(|| format!("cause {i}"), str::to_owned), *tally)
    });
    Ledger {
        input: without(Tally { packets: part.arrived(), bytes: reaching.bytes }, bypassed),
        created: account.created,
        output: without(leaving, bypassed),
        consumed: account.consumed,
        drops: named.collect(),
        held,
    }
}

/// Returns `all` minus the packets and bytes of `some`. If `some` is larger, the result wraps
/// around; the ledger then does not balance, and this is reported.
fn without(all: Tally, some: Tally) -> Tally {
    Tally {
        packets: all.packets.wrapping_sub(some.packets),
        bytes: all.bytes.wrapping_sub(some.bytes),
    }
}

fn head_view(ended: &Ended<'_>) -> PartView {
    let worker = &ended.worker;
    let mut ledger = Ledger { output: worker.input, held: held(ended, 0), ..Ledger::default() };
    match &worker.head {
        Head::Source(queue) => {
            ledger.drops = queue.drops();
            ledger.created = queue.stock.taken + ledger.dropped();
        }
        Head::Rings { .. } => ledger.input = worker.input + ledger.held,
    }
    PartView {
        name: worker.part_name(0).to_owned(),
        packets: worker.input.packets,
        bypassed: 0,
        measured: measured(worker.measured.map(|[input, _]| input), worker.input.packets),
        ledger,
        counts: BTreeMap::new(),
        idle: None,
    }
}

fn tail_view(job: &Job<'_>, worker: &Worker<'_, '_>) -> PartView {
    let mut ledger = Ledger { input: worker.output, ..Ledger::default() };
    match &worker.tail {
        Tail::Sink(sink) => {
            ledger.drops = sink.drops();
            let dropped = ledger.dropped();
            ledger.consumed = Tally {
                packets: worker.output.packets - dropped.packets,
                bytes: worker.output.bytes - dropped.bytes,
            };
        }
        Tail::Rings { outlets, .. } => {
            let staged = outlets.iter().flat_map(|outlet| &outlet.staged);
            staged.for_each(|packet| ledger.held.add(1, packet.length() as u64));
            // Only packets that entered a ring count as output. The worker that reads the ring
            // counts them as its input.
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
        bypassed: 0,
        measured: measured(worker.measured.map(|[_, output]| output), worker.output.packets),
        ledger,
        counts: BTreeMap::new(),
        idle: None,
    }
}
