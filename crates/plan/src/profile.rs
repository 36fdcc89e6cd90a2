// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run report aggregated by segment instead of by worker.
//!
//! The report counts packets per worker; the model and the diagnosis need figures per packet of the
//! *path*, including packets dropped on the way. This module only converts one into the other.

use crate::sample::bounded;
use linerate_path::model::{self, Mapping};
use linerate_record::figure::Figure;
use linerate_record::run::{RunReport, StageReport, WorkerReport};
use linerate_record::stats::{CONFIDENCE, Estimate};

/// The workers that run the same stages.
pub(crate) struct Segment<'a> {
    /// In order of replica.
    pub(crate) workers: Vec<&'a WorkerReport>,
    /// Share of the packets for this segment that reached it: less than 1 only if a full ring
    /// before it dropped some.
    pub(crate) kept: f64,
    /// Share of this segment's output dropped by the full ring after it.
    pub(crate) dropped_behind: f64,
}

/// A run by segment.
pub(crate) struct Profile<'a> {
    /// In path order.
    pub(crate) segments: Vec<Segment<'a>>,
    /// Packets that entered the path.
    entered: f64,
}

impl<'a> Profile<'a> {
    /// Groups the workers; `None` when no packet entered the path.
    pub(crate) fn new(run: &'a RunReport) -> Option<Self> {
        let mut segments: Vec<Segment<'a>> = Vec::new();
        let mut workers: Vec<&WorkerReport> = run.workers.iter().collect();
        workers.sort_by_key(|s| (s.segment, s.replica));
        for worker in workers {
            match segments.last_mut() {
                Some(last) if last.workers[0].segment == worker.segment => {
                    last.workers.push(worker)
                }
                _ => {
                    segments.push(Segment { workers: vec![worker], kept: 1.0, dropped_behind: 0.0 })
                }
            }
        }
        let mut kept = 1.0;
        for segment in &mut segments {
            segment.kept = kept;
            segment.dropped_behind = segment.ring_drop_share();
            kept *= 1.0 - segment.dropped_behind;
        }
        let entered = segments.first()?.workers.iter().map(|s| given(s)).sum();
        (entered > 0.0 && kept > 0.0).then_some(Self { segments, entered })
    }

    /// Share of the path's packets represented by `packets` in `segment`.
    fn share(&self, segment: &Segment<'_>, packets: u64) -> f64 {
        packets as f64 / segment.kept / self.entered
    }

    /// Ticks of `worker` per packet of the path, with its interval.
    pub(crate) fn load(&self, segment: &Segment<'_>, worker: &WorkerReport) -> Option<Estimate> {
        let share = given(worker) / segment.kept / self.entered;
        Some(service_time(worker)?.scale(share))
    }

    /// A stage over all its replicas, its parts scaled to the total (see [`closure`]).
    pub(crate) fn stage(&self, which: Which<'_>) -> Option<StageTotal> {
        let mut found = None;
        for segment in &self.segments {
            for &worker in &segment.workers {
                let Some(stage) = which.pick(&worker.stages) else {
                    continue;
                };
                let total: &mut StageTotal = found.get_or_insert_default();
                let share = self.share(segment, stage.packets);
                total.reach += share;
                if stage.packets > 0 {
                    match estimate(&stage.ticks_per_packet) {
                        Ok(ticks) => {
                            total.ticks =
                                total.ticks.plus(ticks.scale(share).times(closure(worker)))
                        }
                        Err(reason) => total.unreadable = Some(reason),
                    }
                }
            }
        }
        found
    }
}

/// Selects an entry in a worker's list of stages.
#[derive(Clone, Copy)]
pub(crate) enum Which<'n> {
    /// The source, first on the workers of the first segment.
    Source,
    /// The stage of this name.
    Named(&'n str),
    /// The sink, last on the workers of the last segment.
    Sink,
}

impl Which<'_> {
    /// The ends are distinguished by position from stages of the same name.
    fn pick(self, stages: &[StageReport]) -> Option<&StageReport> {
        match self {
            Self::Source => stages.first().filter(|s| s.name == "source"),
            Self::Named(name) => inner(stages).iter().find(|s| s.name == name),
            Self::Sink => stages.last().filter(|s| s.name == "sink"),
        }
    }
}

/// A stage over all its replicas.
pub(crate) struct StageTotal {
    /// Share of the packets of the path that reach the stage.
    pub(crate) reach: f64,
    /// Ticks per packet of the path.
    pub(crate) ticks: Estimate,
    /// Reason why the ticks of a replica with packets are unavailable.
    pub(crate) unreadable: Option<String>,
}

impl Default for StageTotal {
    fn default() -> Self {
        let nothing = Estimate { value: 0.0, low: 0.0, high: 0.0, confidence: CONFIDENCE, n: 0 };
        Self { reach: 0.0, ticks: nothing, unreadable: None }
    }
}

impl Segment<'_> {
    fn ring_drop_share(&self) -> f64 {
        let ends = self.workers.iter().filter_map(|s| s.stages.last());
        let (mut packets, mut drops) = (0, 0);
        for end in ends.filter(|e| e.name == "ring out") {
            packets += end.packets;
            drops += end.drops.values().sum::<u64>();
        }
        if packets == 0 { 0.0 } else { drops as f64 / packets as f64 }
    }
}

/// The mapping of a run without CPU pinning, and the names of its stages in order.
pub fn mapping(run: &RunReport) -> (Mapping, Vec<&str>) {
    let mut workers: Vec<&WorkerReport> = run.workers.iter().collect();
    workers.sort_by_key(|worker| (worker.segment, worker.replica));
    let mut names: Vec<&str> = Vec::new();
    let mut segments = Vec::new();
    for same in workers.chunk_by(|a, b| a.segment == b.segment) {
        let start = names.len();
        names.extend(inner(&same[0].stages).iter().map(|stage| stage.name.as_str()));
        let stages = start..names.len();
        segments.push(model::Segment { stages, replicas: same.len() as u32, cpus: Vec::new() });
    }
    (Mapping { segments }, names)
}

/// The stages of a worker without its ends.
pub(crate) fn inner(stages: &[StageReport]) -> &[StageReport] {
    if stages.len() < 2 { &[] } else { &stages[1..stages.len() - 1] }
}

/// Input packets of a worker.
pub fn given(worker: &WorkerReport) -> f64 {
    worker.stages.first().map_or(0.0, |s| s.packets as f64)
}

/// Ticks per input packet of the worker: its own figure, or the sum over its stages.
pub fn service_time(worker: &WorkerReport) -> Option<Estimate> {
    if let Ok(whole) = estimate(&worker.ticks_per_packet) {
        return Some(whole);
    }
    worker
        .stages
        .iter()
        .map(|s| stage_time(worker, s))
        .collect::<Option<Vec<_>>>()
        .map(|parts| parts.into_iter().fold(StageTotal::default().ticks, Estimate::plus))
}

/// Ticks of a stage per input packet of its *worker*: a stage after a filter counts less.
pub(crate) fn stage_time(worker: &WorkerReport, stage: &StageReport) -> Option<Estimate> {
    if stage.packets == 0 {
        return Some(StageTotal::default().ticks);
    }
    let ticks = estimate(&stage.ticks_per_packet).ok()?;
    Some(ticks.scale(stage.packets as f64 / given(worker)))
}

/// Factor that makes the times of a worker's stages add up to the worker's total. Each is a median
/// over its own sampled windows, and medians do not add up exactly; throughput follows the total.
/// The interval is that of the total.
fn closure(worker: &WorkerReport) -> Estimate {
    let parts = worker.stages.iter().map(|s| Some(stage_time(worker, s)?.value));
    match (estimate(&worker.ticks_per_packet), parts.sum::<Option<f64>>()) {
        (Ok(whole), Some(sum)) if whole.value > 0.0 && sum > 0.0 => whole.scale(1.0 / sum),
        _ => Estimate { value: 1.0, low: 1.0, high: 1.0, confidence: CONFIDENCE, n: 0 },
    }
}

/// The number of a figure, or the reason why there is none. An unknown end gets the typical spread
/// of clean windows ([`crate::sample`]), so that a figure of unknown spread never decides a close
/// case.
pub(crate) fn estimate(figure: &Figure) -> Result<Estimate, String> {
    let reason = || figure.reason.clone().unwrap_or_else(|| "it is not a number".to_owned());
    figure.estimate().map(bounded).ok_or_else(reason)
}
