// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run report aggregated by segment.
//!
//! Reports count packets per worker, whereas the model and the diagnosis need figures per packet
//! entering the *path*, including packets that are dropped along the way. This module only converts
//! between the two.

use crate::sample::bounded;
use linerate_path::model::{self, Mapping};
use linerate_record::figure::Figure;
use linerate_record::run::{RunReport, StageReport, WorkerReport};
use linerate_record::stats::{CONFIDENCE, Estimate};

/// A segment of the mapping: the workers that run the same stages.
pub(crate) struct Segment<'a> {
    /// Workers in replica order.
    pub(crate) workers: Vec<&'a WorkerReport>,
    /// Fraction of the packets destined for this segment that reached it. Less than 1 only if a
    /// full ring dropped some.
    pub(crate) kept: f64,
    /// Fraction of this segment's output that was dropped at a full ring to the next segment or, in
    /// the last segment, at a full interface.
    pub(crate) dropped_behind: f64,
}

/// A run report aggregated by segment.
pub(crate) struct Profile<'a> {
    /// The segments, in path order.
    pub(crate) segments: Vec<Segment<'a>>,
    /// Packets that entered the path.
    entered: f64,
}

impl<'a> Profile<'a> {
    /// Groups workers by segment; `None` if no packet entered the path, or all were dropped at full
    /// rings or interfaces.
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

    /// Returns `packets`, counted in `segment`, as a fraction of packets entering the path,
    /// corrected for packets dropped at full rings before the segment.
    fn share(&self, segment: &Segment<'_>, packets: u64) -> f64 {
        packets as f64 / segment.kept / self.entered
    }

    /// Returns the ticks that `worker` spends per packet entering the path.
    pub(crate) fn load(&self, segment: &Segment<'_>, worker: &WorkerReport) -> Option<Estimate> {
        let share = given(worker) / segment.kept / self.entered;
        Some(service_time(worker)?.scale(share))
    }

    /// Returns a stage's totals over all replicas, with stage times scaled to each worker's total
    /// (see [`closure`]).
    pub(crate) fn stage(&self, which: Which<'_>) -> Option<StageTotal> {
        let mut found = None;
        for segment in &self.segments {
            for &worker in &segment.workers {
                let Some(stage) = which.pick(&worker.stages) else {
                    continue;
                };
                let total: &mut StageTotal = found.get_or_insert_default();
                let share = self.share(segment, stage.packets);
                total.processed += share;
                total.reach += self.share(segment, stage.packets + stage.bypassed);
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

/// Selects an entry from a worker's list of stages.
#[derive(Clone, Copy)]
pub(crate) enum Which<'n> {
    /// The source: the first entry on workers of the first segment.
    Source,
    /// The stage with this name.
    Named(&'n str),
    /// The sink: the last entry on workers of the last segment.
    Sink,
}

impl Which<'_> {
    /// Returns the selected entry of `stages`. Source and sink are identified by position, as a
    /// stage may have the same name.
    fn pick(self, stages: &[StageReport]) -> Option<&StageReport> {
        match self {
            Self::Source => stages.first().filter(|s| s.name == "source"),
            Self::Named(name) => inner(stages).iter().find(|s| s.name == name),
            Self::Sink => stages.last().filter(|s| s.name == "sink"),
        }
    }
}

/// Totals of a stage over all replicas.
pub(crate) struct StageTotal {
    /// Fraction of packets entering the path that reach the stage, whether it processes them or
    /// not.
    pub(crate) reach: f64,
    /// Fraction of packets entering the path that the stage processes.
    pub(crate) processed: f64,
    /// Ticks per packet entering the path, over all replicas.
    pub(crate) ticks: Estimate,
    /// Why the ticks of a replica that processed packets are unavailable; `None` if all are known.
    pub(crate) unreadable: Option<String>,
}

impl Default for StageTotal {
    fn default() -> Self {
        let nothing = Estimate { value: 0.0, low: 0.0, high: 0.0, confidence: CONFIDENCE, n: 0 };
        Self { reach: 0.0, processed: 0.0, ticks: nothing, unreadable: None }
    }
}

impl Segment<'_> {
    fn ring_drop_share(&self) -> f64 {
        let ends = self.workers.iter().filter_map(|s| s.stages.last());
        let (mut packets, mut drops) = (0, 0);
        for end in ends {
            let full = match end.name.as_str() {
                "ring out" => end.drops.values().sum(),
                "sink" => end.drops.get("tx_full").copied().unwrap_or(0),
                _ => continue,
            };
            packets += end.packets;
            drops += full;
        }
        if packets == 0 { 0.0 } else { drops as f64 / packets as f64 }
    }
}

/// Returns a run's mapping, without CPU pinning, and its stage names in order.
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

/// Returns a worker's stages without its two ends (source, sink or rings).
pub(crate) fn inner(stages: &[StageReport]) -> &[StageReport] {
    if stages.len() < 2 { &[] } else { &stages[1..stages.len() - 1] }
}

/// Returns the number of packets that a worker received.
pub fn given(worker: &WorkerReport) -> f64 {
    worker.stages.first().map_or(0.0, |s| s.packets as f64)
}

/// Returns the worker's ticks per packet received: its own figure or, if that is missing, the sum
/// over its stages.
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

/// Returns a stage's ticks per packet received by its *worker*, so that a stage that processes only
/// some of the packets, because it is after a filter or is bypassed, counts for less.
pub(crate) fn stage_time(worker: &WorkerReport, stage: &StageReport) -> Option<Estimate> {
    if stage.packets == 0 {
        return Some(StageTotal::default().ticks);
    }
    let ticks = estimate(&stage.ticks_per_packet).ok()?;
    Some(ticks.scale(stage.packets as f64 / given(worker)))
}

/// Returns the fraction of a worker's service time that one of its stages takes: a stage that
/// processes half of the worker's packets counts for half of its cost per packet. `None` if a time
/// is missing.
pub fn stage_share(worker: &WorkerReport, stage: &StageReport) -> Option<f64> {
    let whole = service_time(worker).filter(|whole| whole.value > 0.0)?;
    Some(stage_time(worker, stage)?.value / whole.value)
}

/// Returns the factor that makes a worker's stage times add up to the worker's total. Each stage
/// time is a median over its own sampled windows, and medians do not add up exactly; throughput
/// follows the total. The interval of the factor follows from the interval of the total.
fn closure(worker: &WorkerReport) -> Estimate {
    let parts = worker.stages.iter().map(|s| Some(stage_time(worker, s)?.value));
    match (estimate(&worker.ticks_per_packet), parts.sum::<Option<f64>>()) {
        (Ok(whole), Some(sum)) if whole.value > 0.0 && sum > 0.0 => whole.scale(1.0 / sum),
        _ => Estimate { value: 1.0, low: 1.0, high: 1.0, confidence: CONFIDENCE, n: 0 },
    }
}

/// Returns a figure's value and interval, or why it has none. An unknown interval end is replaced
/// by one from the typical spread of clean windows ([`crate::sample`]), so that a figure of unknown
/// spread never decides a close comparison.
pub(crate) fn estimate(figure: &Figure) -> Result<Estimate, String> {
    let reason = || figure.reason.clone().unwrap_or_else(|| "not a number".to_owned());
    figure.estimate().map(bounded).ok_or_else(reason)
}
