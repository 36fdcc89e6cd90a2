// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values derived from a `run` record.

use super::{Derive, emulated, named, not_idle, preempted, unknown_core_clock, unsteady_counter};
use crate::figure::{Figure, Figures, Tier};
use crate::input::WARNED_SHARE;
use crate::interfaces::InterfaceDoubt;
use crate::provenance::Provenance;
use crate::run::{LineReport, PacketsHome, RunReport, StageReport, TAILS, Tally, WorkerReport};
use crate::tune::{Finding, KernelAdvice};
use crate::warning::Warning;
use crate::why::{Quota, WhyFinding};
use std::collections::BTreeSet;

impl Derive for RunReport {
    fn figures(&self) -> Figures {
        let mut figures = named([
            ("offered_kpps", offered(self)),
            ("throughput_kpps", self.throughput_kpps.clone()),
            ("processed_kpps", self.processed_kpps.clone()),
            ("delivered_kpps", self.delivered_kpps()),
            ("line_rate_kpps", line_rate(self)),
            ("latency_p50_ns", self.latency.p50.clone()),
            ("latency_p99_ns", self.latency.p99.clone()),
            ("latency_p999_ns", self.latency.p999.clone()),
        ]);
        figures.extend(costs(self));
        figures.extend(self.finding.iter().flat_map(of_finding));
        figures.extend(of_causes(&self.causes));
        figures.extend(of_kernels(self.kernel_advice.as_ref()));
        figures.extend(self.packets_home.iter().flat_map(of_home));
        figures.extend(self.flows().iter().flat_map(Flows::figures));
        figures
    }

    fn warnings(&self, provenance: &Provenance) -> Vec<Warning> {
        let workers = self.workers.len() as u32;
        let shared = self.cpus_available.filter(|cpus| workers > *cpus);
        let shared = shared.map(|cpus| Warning::Oversubscribed { workers, cpus });
        let doubts = doubts(self, provenance);
        not_idle(provenance).into_iter().chain(shared).chain(doubts).collect()
    }
}

/// Returns the requested source rate; absent if the record does not state it.
fn offered(run: &RunReport) -> Figure {
    let unknown = || Figure::absent("kpps", Tier::Model, "", "not in the record");
    run.offered_kpps.clone().unwrap_or_else(unknown)
}

/// Returns a finding's figures: the bottleneck stage, and the finding as a sentence.
pub(super) fn of_finding(finding: &Finding) -> Figures {
    const METHOD: &str = "workers' time shares and service times";
    let bottleneck = match &finding.bottleneck {
        Some(stage) => Figure::text(stage, Tier::Sw, METHOD),
        None => Figure::absent("text", Tier::Sw, METHOD, &finding.sentence),
    };
    let sentence = Figure::text(&finding.sentence, Tier::Sw, METHOD);
    named([("bottleneck", bottleneck), ("finding", sentence)])
}

/// Returns the main limiting cause as a `linerate why` keyword; empty for records without causes.
fn of_causes(causes: &[WhyFinding]) -> Figures {
    let first = causes.first().map(|first| first.cause.name());
    let figure = |word| Figure::text(word, Tier::Sw, "rules applied to the workers' time shares");
    Figures::from_iter(first.map(|word| ("cause".to_owned(), figure(word))))
}

/// Returns the kernels in use, the fastest kernels for the path's calls, and the ratio of their
/// times.
pub(super) fn of_kernels(advice: Option<&KernelAdvice>) -> Figures {
    const METHOD: &str = "logged calls replayed on warm data";
    let absent = |unit| Figure::absent(unit, Tier::Sw, METHOD, "no kernel calls were timed");
    let text = |pick: fn(&KernelAdvice) -> &str| {
        advice.map_or_else(|| absent("text"), |a| Figure::text(pick(a), Tier::Sw, METHOD))
    };
    let ratio = advice.map_or_else(|| absent("ratio"), |advice| advice.time_ratio.clone());
    named([
        ("kernels", text(|advice| &advice.in_use)),
        ("kernels_fastest", text(|advice| &advice.fastest)),
        ("kernels_time_ratio", ratio),
    ])
}

/// Returns the figures that show which cache level holds the packets.
pub(super) fn of_home(home: &PacketsHome) -> Figures {
    named([
        ("packets_bytes", home.bytes.clone()),
        ("packets_level", home.level.clone()),
        ("packets_miss_ns", home.miss_ns.clone()),
        ("packets_miss_cycles", home.miss_cycles.clone()),
    ])
}

/// Returns the line rate in kpps at the mean size of the offered packets.
pub(super) fn line_rate(run: &RunReport) -> Figure {
    const METHOD: &str = "total bit rate of the line's ports divided by the mean wire size in bits";
    match run.line_rate_kpps {
        Some(kpps) => Figure::exact("kpps", kpps, Tier::Model, METHOD),
        None => Figure::absent("kpps", Tier::Model, METHOD, "the path has no [line]"),
    }
}

/// Returns per-packet costs summed over all workers: ticks, cycles and hardware events.
pub(super) fn costs(run: &RunReport) -> Figures {
    let ticks = match run.workers.as_slice() {
        [only] => only.ticks_per_packet.clone(),
        _ => busy_ticks(run),
    };
    let mut figures =
        named([("ticks_per_packet", ticks), ("cycles_per_packet", worker_cycles(run))]);
    figures.extend(event_costs(run));
    figures
}

/// Returns hardware events per packet, summed over all workers, and cycles per instruction.
fn event_costs(run: &RunReport) -> Figures {
    let per_packet = |event: &str| stage_events(run, event);
    let [instructions, cycles] = ["instructions", "cycles"].map(per_packet);
    let cpi = match (instructions.as_number(), cycles.as_number()) {
        (Some(executed), Some(taken)) if executed > 0.0 => Figure::exact(
            "cycles/instruction",
            taken / executed,
            cycles.tier,
            "counted cycles / counted instructions, over all stages",
        ),
        _ => {
            let reason = instructions.reason.as_deref().or(cycles.reason.as_deref());
            let reason = reason.unwrap_or("no instructions were counted");
            Figure::absent("cycles/instruction", Tier::Sw, "", reason)
        }
    };
    Figures::from([
        ("instructions_per_packet".to_owned(), instructions),
        ("cpi".to_owned(), cpi),
        ("ll_misses_per_packet".to_owned(), per_packet("ll_misses")),
        ("branch_misses_per_packet".to_owned(), per_packet("branch_misses")),
    ])
}

/// Returns the mean count of `event` per source packet, summed over all stages and workers. Each
/// stage's count is weighted by the packets it received.
fn stage_events(run: &RunReport, event: &str) -> Figure {
    const METHOD: &str = "per-stage counts, weighted by packets";
    let unit = format!("{event}/packet");
    let absent = |reason: &str| Figure::absent(&unit, Tier::Sw, METHOD, reason);
    let asked = run.counted.iter().flat_map(|counted| &counted.events);
    let Some(asked) = asked.into_iter().find(|asked| asked.name == event) else {
        return absent("not requested");
    };
    if let Some(reason) = &asked.reason {
        return absent(reason);
    }
    let (mut sum, mut tier) = (0.0, Tier::Hw);
    for stage in run.workers.iter().flat_map(|worker| &worker.stages) {
        let given = stage.kpps.unwrap_or(0.0);
        if given == 0.0 {
            continue;
        }
        let figure = stage.events.as_ref().and_then(|events| events.get(event));
        match figure.and_then(|figure| Some((figure.as_number()?, figure.tier))) {
            Some((count, rests_on)) => (sum, tier) = (sum + count * given, tier.max(rests_on)),
            None => {
                let reason = figure.and_then(|figure| figure.reason.as_deref());
                return absent(reason.unwrap_or("a worker had no counters"));
            }
        }
    }
    match source_kpps(run) {
        kpps if kpps > 0.0 => Figure::exact(&unit, sum / kpps, tier, METHOD),
        _ => absent("no packets were read from the source"),
    }
}

fn source_kpps(run: &RunReport) -> f64 {
    let first = run.workers.iter().filter(|worker| worker.segment == 0);
    first.filter_map(|worker| worker.stages.first()?.kpps).sum()
}

fn busy_ticks(run: &RunReport) -> Figure {
    const METHOD: &str = "busy ticks of all workers / packets read from the source";
    let busy: f64 = run.workers.iter().map(|worker| worker.time_or_zero().busy).sum();
    match source_kpps(run) {
        kpps if kpps > 0.0 => {
            let ticks = busy * run.ticks_per_s / (kpps * 1e3);
            Figure::exact("ticks/packet", ticks, Tier::Sw, METHOD)
        }
        _ => {
            Figure::absent("ticks/packet", Tier::Sw, METHOD, "no packets were read from the source")
        }
    }
}

/// Returns the mean cycles per source packet, summed over all stages and workers. Each stage's
/// cycles are weighted by the packets it received.
fn worker_cycles(run: &RunReport) -> Figure {
    const METHOD: &str = "per-stage cycles, weighted by packets";
    let kpps = source_kpps(run);
    let mut sum = 0.0;
    let stages = run.workers.iter().flat_map(|s| &s.stages);
    for (stage, given) in stages.filter_map(|stage| Some((stage, stage.kpps?))) {
        if given == 0.0 {
            continue;
        }
        match stage.cycles_per_packet.as_number() {
            Some(cycles) => sum += cycles * given,
            None => {
                let reason = stage.cycles_per_packet.reason.as_deref().unwrap_or("unknown");
                return Figure::absent("cycles/packet", Tier::Sw, METHOD, reason);
            }
        }
    }
    if kpps == 0.0 {
        return Figure::absent(
            "cycles/packet",
            Tier::Sw,
            METHOD,
            "no packets were read from the source",
        );
    }
    Figure::exact("cycles/packet", sum / kpps, Tier::Sw, METHOD)
}

/// Warning threshold: minimum number of windows without preemption on each worker.
const WINDOWS_FEW: u64 = 50;

/// Returns warnings about a run's workers, stages and input.
pub(super) fn doubts(run: &RunReport, provenance: &Provenance) -> Vec<Warning> {
    let windows = || run.workers.iter().map(|worker| worker.windows);
    let share = |worker: &&WorkerReport| {
        worker.windows.preempted as f64 / worker.windows.total.max(1) as f64
    };
    let worst = run.workers.iter().max_by(|a, b| share(a).total_cmp(&share(b)));
    let kept = windows().map(|w| w.total.saturating_sub(w.preempted)).min().unwrap_or(0);
    // A longer run would end likewise if a stage fails.
    let ran = run.failure.is_none();
    let few = (ran && kept < WINDOWS_FEW).then_some(Warning::FewWindows { kept });
    let mut warnings: Vec<Warning> =
        unsteady_counter(provenance).into_iter().chain(emulated(provenance)).collect();
    warnings.extend(shared_cores(run, provenance));
    warnings.extend(unknown_core_clock(&worker_cycles(run)).filter(|_| ran));
    // A CPU quota also shows up as preemption, so warn only of the quota, which is the cause.
    match run.held(provenance) {
        Some(cpus) => {
            warnings.push(Warning::CpuQuota { cpus, workers: run.workers.len() as u32 });
        }
        None => warnings.extend(worst.and_then(|worker| {
            let taken = worker.time.map(|time| time.lost);
            preempted(worker.windows.preempted, worker.windows.total, taken)
        })),
    }
    warnings.extend(few);
    warnings.extend(run.dead_end().map(Warning::NothingCameThrough));
    warnings.extend(idle_stages(run));
    warnings.extend(left_out(run));
    let interfaces = run.interfaces.iter().filter_map(InterfaceDoubt::of);
    warnings.extend(interfaces.map(Warning::InterfaceInDoubt));
    warnings
}

/// Warns about skipped input. If more than [`WARNED_SHARE`] of the bytes were skipped, the warning
/// states their share and main cause; otherwise, it states only the number of packets.
fn left_out(run: &RunReport) -> Option<Warning> {
    let many = run.input.as_ref().filter(|input| input.left_out_share() > WARNED_SHARE);
    if let Some((input, cause)) = many.and_then(|input| Some((input, input.main_cause()?))) {
        let Tally { packets, bytes } = input.left_out[cause];
        return Some(Warning::LeftOut {
            share: input.left_out_share(),
            cause: cause.to_owned(),
            packets,
            bytes,
            unread_from: input.unread.map(|unread| unread.offset),
        });
    }
    let rejected: u64 = run.rejected.values().sum();
    let frames = run.frames.filter(|_| rejected > 0);
    frames.map(|frames| Warning::RejectedPackets { rejected, of: rejected + frames })
}

/// Warns about each stage that received packets but had nothing to do for any of them on any
/// worker, in path order.
fn idle_stages(run: &RunReport) -> Vec<Warning> {
    let stages = || run.workers.iter().flat_map(|worker| &worker.stages);
    let mut warnings: Vec<Warning> = Vec::new();
    let mut seen = BTreeSet::new();
    for idle in stages().filter(|stage| stage.idle.is_some() && seen.insert(&stage.name)) {
        let reached = |stage: &&StageReport| stage.packets + stage.bypassed > 0;
        let same = || stages().filter(|stage| stage.name == idle.name).filter(reached);
        if same().all(|stage| stage.idle.is_some()) {
            // If all packets bypassed the stage, the warning refers to the bypassed packets.
            let processed: u64 = same().map(|stage| stage.packets).sum();
            let bypassed = || same().map(|stage| stage.bypassed).sum();
            let main = same().find(|stage| stage.packets > 0).unwrap_or(idle);
            warnings.push(Warning::IdleStage {
                stage: idle.name.clone(),
                packets: if processed > 0 { processed } else { bypassed() },
                reason: main.idle.clone().unwrap_or_default(),
            });
        }
    }
    warnings
}

/// Warns about each core on which several SMT siblings ran workers.
fn shared_cores(run: &RunReport, provenance: &Provenance) -> Vec<Warning> {
    let is_used = |cpu: &u32| run.workers.iter().any(|worker| worker.cpu == *cpu);
    let used = |core: &Vec<u32>| core.iter().copied().filter(is_used).collect();
    let cores = provenance.siblings.iter().flatten().map(used);
    let cores = cores.filter(|cpus: &Vec<u32>| cpus.len() > 1);
    cores.map(|cpus| Warning::SharedCore { cpus }).collect()
}

/// Per-flow rate for a path in which each flow has its own link, that is, one of the ports in
/// `[line]`.
///
/// Rates come from windows without preemption, or from all windows if the path has idle time.
/// Workers that share a CPU have no windows without preemption; the rate is then computed over the
/// entire measurement phase. Only packets that reach a sink count, so dropped packets do not
/// contribute.
#[derive(Clone, Debug, PartialEq)]
pub struct Flows {
    /// The line and its ports, each of which carries one flow.
    pub line: LineReport,
    /// Per-flow rate, in kpps.
    pub kpps: Figure,
    /// Per-flow rate relative to the line rate of one port.
    pub share: Figure,
    /// Whether the rate comes from windows rather than from the entire measurement phase.
    pub is_clean: bool,
}

/// Reason given if packets reached the sink, but none of them during the measurement phase.
const OUTSIDE_THE_MEASUREMENT: &str =
    "no packets reached the sink during the measurement; run longer";

impl RunReport {
    /// Returns the per-flow rate; `None` if the path has no line or only one port.
    pub fn flows(&self) -> Option<Flows> {
        const WHOLE: &str = "rate at the sinks during the measurement, per line port";
        let line = self.line.filter(|line| line.ports > 1)?;
        let flows = f64::from(line.ports);
        let is_clean = self.throughput_kpps.as_number().is_some();
        let kpps = match is_clean {
            true => self.throughput_kpps.scaled(
                1.0 / flows,
                "kpps",
                "throughput divided by the number of ports",
            ),
            false => match sent(self) {
                (0.0, 1..) => Figure::absent("kpps", Tier::Sw, WHOLE, OUTSIDE_THE_MEASUREMENT),
                (kpps, _) => Figure::exact("kpps", kpps / flows, Tier::Sw, WHOLE),
            },
        };
        let line_kpps = self.line_rate_kpps? / flows;
        let share = kpps.scaled(1.0 / line_kpps, "ratio", "flow rate over per-port line rate");
        Some(Flows { line, kpps, share, is_clean })
    }
}

impl RunReport {
    /// Returns the CPU quota that throttled the workers, in CPUs; `None` if they were not
    /// throttled, or only briefly. If the kernel's throttling counters are unknown, a quota is
    /// assumed to throttle the workers if it is less than the CPU time they want; workers poll
    /// whenever they do not sleep.
    pub fn held(&self, provenance: &Provenance) -> Option<f64> {
        /// Fraction of the measurement phase, 0 to 1, below which throttling is ignored. A quota
        /// equal to the number of workers may throttle them briefly, because other threads use some
        /// of it.
        const NOTICEABLE: f64 = 0.05;
        match &self.quotas {
            Some(quotas) => {
                let least_s = NOTICEABLE * self.elapsed_s;
                let throttled =
                    |quota: &&Quota| quota.throttled_periods > 0 && quota.throttled_s >= least_s;
                let cpus = quotas.iter().filter(throttled).map(|quota| quota.cpus);
                cpus.min_by(f64::total_cmp)
            }
            None => provenance.cpu_quota.filter(|cpus| *cpus < self.cpus_wanted()),
        }
    }

    /// Returns the CPU time that the workers wanted, in CPUs: all of the time in which they did not
    /// sleep.
    fn cpus_wanted(&self) -> f64 {
        let awake = |worker: &WorkerReport| {
            let parked_ns = worker.idle.as_ref().map_or(0, |idle| idle.parked_ns);
            (1.0 - parked_ns as f64 / (self.elapsed_s * 1e9)).clamp(0.0, 1.0)
        };
        self.workers.iter().map(awake).sum()
    }

    /// Returns the rate in kpps that the path sustains, including packets that stages drop or
    /// consume. This is `processed_kpps`, unless a CPU quota throttled the workers:
    /// `processed_kpps` then covers only the time for which they ran, so the rate at the source
    /// over the measurement phase is returned instead, multiplied by [`Self::kept_share`].
    pub fn sustained_kpps(&self, provenance: &Provenance) -> Figure {
        const METHOD: &str = "rate at the source during the measurement, interruptions included";
        const LESS: &str = "rate at the source during the measurement, interruptions included, \
                            less the share lost at full rings or refused by interfaces";
        if self.held(provenance).is_none() {
            return self.processed_kpps.clone();
        }
        let kept = self.kept_share();
        let method = if kept < 1.0 { LESS } else { METHOD };
        match source_kpps(self) {
            kpps if kpps > 0.0 => Figure::exact("kpps", kpps * kept, Tier::Sw, method),
            _ => Figure::absent(
                "kpps",
                Tier::Sw,
                METHOD,
                "no packets were read from the source during the measurement",
            ),
        }
    }

    /// Returns the fraction of packets, 0 to 1, that were neither lost at a full ring nor refused
    /// by an interface at the end of the path; 1 without packets. Packets that stages drop or
    /// consume are not lost.
    pub fn kept_share(&self) -> f64 {
        let (mut taken, mut lost) = (0, 0);
        for worker in &self.workers {
            let Some((head, tail)) = worker.stages.first().zip(worker.stages.last()) else {
                continue;
            };
            taken += if worker.segment == 0 { head.packets } else { 0 };
            lost += if TAILS.contains(&tail.name.as_str()) { refused(tail) } else { 0 };
        }
        1.0 - (lost as f64 / taken.max(1) as f64).min(1.0)
    }

    /// Returns the rate in kpps at the sinks over the measurement phase, including time in which
    /// workers were stopped.
    pub fn delivered_kpps(&self) -> Figure {
        const METHOD: &str = "rate at the sinks during the measurement, interruptions included";
        match sent(self) {
            (0.0, 1..) => Figure::absent("kpps", Tier::Sw, METHOD, OUTSIDE_THE_MEASUREMENT),
            (kpps, _) => Figure::exact("kpps", kpps, Tier::Sw, METHOD),
        }
    }
}

/// Returns the number of packets that a worker's sink or ring out did not pass on, because the ring
/// was full or an interface refused them.
fn refused(tail: &StageReport) -> u64 {
    tail.drops.values().sum()
}

/// Returns the rate in kpps at the sinks over the measurement phase, without packets that
/// interfaces refused, and the number of packets that the sinks delivered in the entire run.
fn sent(run: &RunReport) -> (f64, u64) {
    let last = run.workers.iter().map(|worker| worker.segment).max();
    let last = run.workers.iter().filter(|worker| Some(worker.segment) == last);
    let sinks = || last.clone().filter_map(|worker| worker.stages.last());
    let delivered = |sink: &StageReport| sink.packets.saturating_sub(refused(sink));
    let kpps = |sink: &StageReport| {
        sink.kpps.map(|kpps| kpps * delivered(sink) as f64 / sink.packets.max(1) as f64)
    };
    (sinks().filter_map(kpps).sum(), sinks().map(delivered).sum())
}

impl Flows {
    fn figures(&self) -> Figures {
        named([("flow_kpps", self.kpps.clone()), ("flow_line_share", self.share.clone())])
    }
}
