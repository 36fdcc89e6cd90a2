// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the report on a run from what its workers have read and counted.

mod estimate;
mod events;
mod kernels;
mod latency;
mod parts;
mod rates;

use crate::ended::Ended;
use crate::error::RunError;
use crate::job::{Job, Outcome};
use crate::layout::Pace;
use crate::meter::{Readings, Window};
use crate::queue::Origin;
use crate::sink::Kept;
use crate::source::Timetable;
use crate::worker::{Head, Tail};
use estimate::ticks_figure;
use latency::latency;
use linerate_machine::lost_time::LostTime;
use linerate_path::mapping::describe;
use linerate_path::model::IdlePolicy;
use linerate_record::run::{
    BucketUse, CutSegments, IdleReport, InputReport, InterfaceReport, Latency, LineReport,
    RingReport, RunReport, StageFailure, TimeShares, WindowCount, WorkerReport,
};
use linerate_record::{Figure, Tier};
use linerate_trial::Watch;
use parts::stage_reports;
use rates::Rates;
use std::collections::BTreeMap;

/// Returns the result of a run, after its workers have ended.
///
/// # Errors
/// Returns [`RunError::StageFailed`], with the profile so far, if a stage failed.
pub(crate) fn gather(
    job: &Job<'_>,
    watch: &Watch<'_>,
    pace: Pace<'_>,
    ended: Vec<Ended<'_>>,
    interfaces: Vec<InterfaceReport>,
    lost: &[LostTime; 2],
) -> Result<Outcome, RunError> {
    let failure = ended.iter().find_map(failure);
    let interrupted = watch.is_stopped() || failure.is_some();
    let report = RunReport { interfaces, ..report(job, &ended, pace, lost, interrupted) };
    if let Some(failure) = failure {
        let report = Box::new(cut_short(report, failure.clone()));
        return Err(RunError::StageFailed { failure, report });
    }
    let sinks = ended.into_iter().filter_map(|e| match e.worker.tail {
        Tail::Sink(sink) => Some(sink.kept),
        Tail::Rings { .. } => None,
    });
    let kept: Vec<Kept> = sinks.collect();
    Ok(Outcome { report, kept: Kept::merge(&kept) })
}

/// Returns the failure of a worker's stage, if there was one.
fn failure(ended: &Ended<'_>) -> Option<StageFailure> {
    let (kind, message) = ended.failure.clone()?;
    let worker = &ended.worker;
    Some(StageFailure {
        kind,
        worker: ended.place.name(),
        stage: worker.part_name(worker.at).to_owned(),
        packet: worker.burst.at_cursor().map(|packet| packet.meta().position),
        message,
    })
}

/// Adds the failure that ended a run to its report. Figures that are absent because the run ended
/// early have this reason: a longer run would end likewise.
fn cut_short(mut report: RunReport, failure: StageFailure) -> RunReport {
    let reason = format!("the run ended too early: stage `{}` failed", failure.stage);
    let RunReport { throughput_kpps, processed_kpps, latency, .. } = &mut report;
    let Latency { p50, p99, p999 } = latency;
    for figure in [throughput_kpps, processed_kpps, p50, p99, p999] {
        if figure.as_number().is_none() {
            figure.reason = Some(reason.clone());
        }
    }
    RunReport { failure: Some(failure), ..report }
}

fn report(
    job: &Job<'_>,
    ended: &[Ended<'_>],
    pace: Pace<'_>,
    lost: &[LostTime; 2],
    interrupted: bool,
) -> RunReport {
    let Pace { timetable, ticks_per_s } = pace;
    let readings: Vec<&Readings> = ended.iter().map(|e| &e.readings).collect();
    let is_live = !job.path.source.ports().is_empty();
    let has_rate = is_live || timetable.is_some();
    let rates = Rates::from_readings(&readings, ticks_per_s, !job.oversubscribe, has_rate);
    let seconds = ended.iter().map(|e| e.readings.wall_ns).max().unwrap_or(0) as f64 / 1e9;
    let input = input(job, ended);
    // The interface has already padded received frames.
    let mean_bytes = match is_live {
        true => input.offered.bytes as f64 / input.offered.packets.max(1) as f64,
        false => job.traffic.mean_sent_bytes(),
    };
    // Without packets, their mean size is unknown, and so is the line rate in packets.
    let line = job.path.line.filter(|_| input.offered.packets > 0);
    RunReport {
        path: job.path.name.clone(),
        mapping: describe(job.mapping, &job.path.stages),
        kernels: Some(job.kernels.name().to_owned()),
        counted: events::counted(ended),
        elapsed_s: seconds,
        ticks_per_s,
        offered_kpps: Some(offered(timetable, ticks_per_s, is_live)),
        throughput_kpps: rates.figure(&rates.delivered, "packets at the sink"),
        processed_kpps: rates.figure(&rates.processed, "packets delivered or dropped by design"),
        line_rate_kpps: line.map(|line| line.packets_per_second(mean_bytes) / 1e3),
        goal_kpps: None,
        latency: latency(&readings, ticks_per_s, is_live),
        workers: ended.iter().map(|e| worker_report(job, e, lost, ticks_per_s)).collect(),
        rings: ring_reports(ended),
        rejected: rejected(&input),
        input: Some(input),
        interrupted,
        frames: (!is_live).then(|| job.traffic.len() as u64),
        buckets: BucketUse::of(&job.traffic.bucket_weights()).filter(|_| !is_live),
        cpus_available: None,
        line: line.map(|line| LineReport {
            bits_per_s: line.bits_per_s,
            ports: line.ports,
            mean_frame_bytes: mean_bytes,
        }),
        finding: None,
        causes: Vec::new(),
        kernel_advice: None,
        packets_home: None,
        interfaces: Vec::new(),
        quotas: lost[1].quotas(&lost[0]),
        failure: None,
    }
}

/// Returns the counts of input packets: those loaded before the run, and live packets received and
/// repaired during the run.
fn input(job: &Job<'_>, ended: &[Ended<'_>]) -> InputReport {
    let mut input = job.traffic.input().clone();
    for ended in ended {
        if let Head::Source(queue) = &ended.worker.head
            && let Origin::Live(live) = &queue.origin
        {
            input.offered = input.offered + queue.stock.taken;
            input.completed_checksums += live.counts.completed;
            input.cut_segments = live.counts.cut().map_or(input.cut_segments, |cut| {
                let before =
                    input.cut_segments.unwrap_or(CutSegments { mtu: 0, frames: 0, segments: 0 });
                Some(CutSegments {
                    frames: before.frames + cut.frames,
                    segments: before.segments + cut.segments,
                    mtu: before.mtu.max(cut.mtu),
                })
            });
        }
    }
    input
}

/// Returns the number of input packets that were skipped, by cause.
fn rejected(input: &InputReport) -> BTreeMap<String, u64> {
    input.left_out.iter().map(|(cause, tally)| (cause.clone(), tally.packets)).collect()
}

/// Returns the offered rate in thousand packets per second; absent if the source has no fixed rate.
fn offered(timetable: Option<&Timetable>, ticks_per_s: f64, is_live: bool) -> Figure {
    const METHOD: &str = "frames per pass, divided by the duration of a pass";
    match timetable {
        Some(timetable) => {
            let kpps = timetable.packets_per_tick() * ticks_per_s / 1e3;
            Figure::exact("kpps", kpps, Tier::Model, METHOD)
        }
        None => {
            let reason = match is_live {
                true => "live traffic: the sender determines the rate",
                false => {
                    "the source has no fixed rate: packets arrive as fast as the path accepts them"
                }
            };
            Figure::absent("kpps", Tier::Model, METHOD, reason)
        }
    }
}

fn worker_report(
    job: &Job<'_>,
    ended: &Ended<'_>,
    [first, last]: &[LostTime; 2],
    ticks_per_s: f64,
) -> WorkerReport {
    let readings = &ended.readings;
    let time = time_shares(readings, ticks_per_s);
    let busy: Vec<f64> =
        readings.windows.iter().filter(|w| w.clean && w.packets > 0).map(per_packet).collect();
    WorkerReport {
        name: ended.place.name(),
        cpu: ended.place.cpu,
        segment: ended.place.segment as u32,
        replica: ended.place.replica as u32,
        stages: stage_reports(job, ended, time),
        time,
        run_delay_ns: readings.run_delay_ns,
        stolen_ns: last.stolen_ns(first, ended.place.cpu),
        lost_ns: (readings.lost as f64 * 1e9 / ticks_per_s) as u64,
        ticks_per_packet: ticks_figure(
            &busy,
            "busy ticks per packet in windows without preemption",
        ),
        empty_polls: readings.empty_polls,
        burst_sizes: readings.burst_sizes.to_vec(),
        windows: WindowCount { total: readings.windows_total, preempted: readings.windows_lost },
        involuntary_switches: readings.switches,
        cpu_ns: ended.cpu_ns,
        idle: Some(idle_report(ended, ticks_per_s)),
    }
}

fn idle_report(ended: &Ended<'_>, ticks_per_s: f64) -> IdleReport {
    let (rest, rested) = (&ended.worker.rest, &ended.readings.rested);
    let ns = |ticks: u64| (ticks as f64 * 1e9 / ticks_per_s) as u64;
    IdleReport {
        policy: rest.policy.word().to_owned(),
        park_after_ns: (rest.policy == IdlePolicy::Auto).then(|| ns(rest.ladder.park_after)),
        parked_ns: ns(rested.ticks),
        parks: rested.parks,
        wake_ups: rested.woken,
    }
}

fn per_packet(window: &Window) -> f64 {
    window.busy as f64 / window.packets as f64
}

fn time_shares(readings: &Readings, ticks_per_s: f64) -> Option<TimeShares> {
    let wall = readings.wall_ns as f64 / 1e9 * ticks_per_s;
    if wall == 0.0 {
        return None;
    }
    let share = |ticks: u64| ticks as f64 / wall;
    let [busy, starved, blocked, lost] =
        [readings.busy, readings.starved, readings.blocked, readings.lost].map(share);
    let unaccounted = 1.0 - busy - starved - blocked - lost;
    Some(TimeShares { busy, starved, blocked, lost, unaccounted })
}

fn ring_reports(ended: &[Ended<'_>]) -> Vec<RingReport> {
    let mut reports = Vec::new();
    for from in ended {
        let Tail::Rings { outlets, .. } = &from.worker.tail else {
            continue;
        };
        let next = ended.iter().filter(|e| e.place.segment == from.place.segment + 1);
        for (outlet, to) in outlets.iter().zip(next) {
            let Head::Rings { inlets, .. } = &to.worker.head else {
                continue;
            };
            let inlet = &inlets[from.place.replica];
            reports.push(RingReport {
                name: format!("{} > {}", from.place.name(), to.place.name()),
                capacity: inlet.capacity as u64,
                occupancy: inlet.occupancy.to_vec(),
                full_pushes: outlet.full_pushes,
                held: inlet.ring.len() as u64,
            });
        }
    }
    reports
}
