// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values derived from a run.

use super::{Derive, emulated, named, not_idle, preempted, unknown_core_clock, unsteady_counter};
use crate::figure::{Figure, Figures, Tier};
use crate::input::WARNED_SHARE;
use crate::provenance::Provenance;
use crate::run::{LineReport, PacketsHome, RunReport, Tally};
use crate::tune::{Finding, KernelAdvice};
use crate::warning::Warning;
use crate::why::WhyFinding;
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

/// Returns the rate at which the source was to offer packets.
fn offered(run: &RunReport) -> Figure {
    let unknown = || Figure::absent("kpps", Tier::Model, "", "the record does not say");
    run.offered_kpps.clone().unwrap_or_else(unknown)
}

/// Returns the figures of a finding: the name of the bottleneck stage, and the finding as a
/// sentence.
pub(super) fn of_finding(finding: &Finding) -> Figures {
    const METHOD: &str = "shares of time and service times of the workers";
    let bottleneck = match &finding.bottleneck {
        Some(stage) => Figure::text(stage, Tier::Sw, METHOD),
        None => Figure::absent("text", Tier::Sw, METHOD, &finding.sentence),
    };
    let sentence = Figure::text(&finding.sentence, Tier::Sw, METHOD);
    named([("bottleneck", bottleneck), ("finding", sentence)])
}

/// Returns the main cause that limits the path, as a keyword of `linerate why`; empty for records
/// without causes.
fn of_causes(causes: &[WhyFinding]) -> Figures {
    let first = causes.first().map(|first| first.cause.name());
    let figure = |word| Figure::text(word, Tier::Sw, "rules applied to the workers' time");
    Figures::from_iter(first.map(|word| ("cause".to_owned(), figure(word))))
}

/// Returns the figures on kernels: those in use, the fastest for the path's calls, and the ratio of
/// their times.
pub(super) fn of_kernels(advice: Option<&KernelAdvice>) -> Figures {
    const METHOD: &str = "replay of the logged calls on warm data";
    let absent = |unit| Figure::absent(unit, Tier::Sw, METHOD, "no kernel call was timed");
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

/// Returns the figures on the cache level that holds the packets.
pub(super) fn of_home(home: &PacketsHome) -> Figures {
    named([
        ("packets_bytes", home.bytes.clone()),
        ("packets_level", home.level.clone()),
        ("packets_miss_ns", home.miss_ns.clone()),
        ("packets_miss_cycles", home.miss_cycles.clone()),
    ])
}

/// Returns the line rate in kpps for the mean size of the packets offered.
pub(super) fn line_rate(run: &RunReport) -> Figure {
    const METHOD: &str = "line rate over mean wire size";
    match run.line_rate_kpps {
        Some(kpps) => Figure::exact("kpps", kpps, Tier::Model, METHOD),
        None => Figure::absent("kpps", Tier::Model, METHOD, "the path has no [line]"),
    }
}

/// Returns the cost per packet, summed over all workers: ticks, cycles and hardware events.
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
            "counted cycles over counted instructions of all stages",
        ),
        _ => {
            let reason = instructions.reason.as_deref().or(cycles.reason.as_deref());
            let reason = reason.unwrap_or("no instruction was counted");
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

/// Returns the mean count of an event per packet taken from the source, summed over all stages and
/// workers. The count of each stage is weighted by the packets that it received.
fn stage_events(run: &RunReport, event: &str) -> Figure {
    const METHOD: &str = "counts around each stage, weighted by its packets";
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
        _ => absent("no packet was taken from the source"),
    }
}

fn source_kpps(run: &RunReport) -> f64 {
    let first = run.workers.iter().filter(|worker| worker.segment == 0);
    first.filter_map(|worker| worker.stages.first()?.kpps).sum()
}

fn busy_ticks(run: &RunReport) -> Figure {
    const METHOD: &str = "busy ticks of all workers over packets taken from the source";
    let busy: f64 = run.workers.iter().map(|worker| worker.time_or_zero().busy).sum();
    match source_kpps(run) {
        kpps if kpps > 0.0 => {
            let ticks = busy * run.ticks_per_s / (kpps * 1e3);
            Figure::exact("ticks/packet", ticks, Tier::Sw, METHOD)
        }
        _ => {
            Figure::absent("ticks/packet", Tier::Sw, METHOD, "no packet was taken from the source")
        }
    }
}

/// Returns the mean cycles per packet taken from the source, summed over all stages and workers.
/// The cycles of each stage are weighted by the packets that it received.
fn worker_cycles(run: &RunReport) -> Figure {
    const METHOD: &str = "cycles of each stage, weighted by its packets";
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
            "no packet was taken from the \
            source",
        );
    }
    Figure::exact("cycles/packet", sum / kpps, Tier::Sw, METHOD)
}

/// Number of windows without preemption per worker below which a warning is issued.
const WINDOWS_FEW: u64 = 50;

/// Returns warnings about the workers, the stages and the input of a run.
pub(super) fn doubts(run: &RunReport, provenance: &Provenance) -> Vec<Warning> {
    let windows = || run.workers.iter().map(|worker| worker.windows);
    let share = |w: &crate::run::WindowCount| w.preempted as f64 / w.total.max(1) as f64;
    let worst = windows().max_by(|a, b| share(a).total_cmp(&share(b)));
    let kept = windows().map(|w| w.total.saturating_sub(w.preempted)).min().unwrap_or(0);
    let few = (kept < WINDOWS_FEW).then_some(Warning::FewWindows { kept });
    let mut warnings: Vec<Warning> =
        unsteady_counter(provenance).into_iter().chain(emulated(provenance)).collect();
    warnings.extend(shared_cores(run, provenance));
    warnings.extend(unknown_core_clock(&worker_cycles(run)));
    // A CPU quota also preempts workers, and its warning explains more than the one about
    // preemption.
    match run.held(provenance) {
        Some(cpus) => {
            warnings.push(Warning::CpuQuota { cpus, workers: run.workers.len() as u32 });
        }
        None => warnings.extend(worst.and_then(|w| preempted(w.preempted, w.total))),
    }
    warnings.extend(few);
    warnings.extend(run.dead_end().map(Warning::NothingCameThrough));
    warnings.extend(idle_stages(run));
    warnings.extend(left_out(run));
    warnings
}

/// Warns of skipped input: with the number of bytes if they are a large share of the input,
/// otherwise with the number of packets.
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

/// Warns, in path order, of each stage that received packets but did no work on any worker.
fn idle_stages(run: &RunReport) -> Vec<Warning> {
    let stages = || run.workers.iter().flat_map(|worker| &worker.stages);
    let mut warnings: Vec<Warning> = Vec::new();
    let mut seen = BTreeSet::new();
    for idle in stages().filter(|stage| stage.idle.is_some() && seen.insert(&stage.name)) {
        let same = || stages().filter(|stage| stage.name == idle.name && stage.packets > 0);
        if same().all(|stage| stage.idle.is_some()) {
            warnings.push(Warning::IdleStage {
                stage: idle.name.clone(),
                packets: same().map(|stage| stage.packets).sum(),
                reason: idle.idle.clone().unwrap_or_default(),
            });
        }
    }
    warnings
}

/// Warns of workers that shared a core as SMT siblings, one warning per core.
fn shared_cores(run: &RunReport, provenance: &Provenance) -> Vec<Warning> {
    let is_used = |cpu: &u32| run.workers.iter().any(|worker| worker.cpu == *cpu);
    let used = |core: &Vec<u32>| core.iter().copied().filter(is_used).collect();
    let cores = provenance.siblings.iter().flatten().map(used);
    let cores = cores.filter(|cpus: &Vec<u32>| cpus.len() > 1);
    cores.map(|cpus| Warning::SharedCore { cpus }).collect()
}

/// Rate per flow, for a path whose flows each have a separate line: the ports of `[line]`.
///
/// Rates come from windows without preemption. If workers share a processor, there are no such
/// windows; the rate is then taken over the whole measured part of the run. Only packets that
/// reach a sink count; dropped packets do not contribute to a flow's rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Flows {
    /// The line with its ports; each port carries one flow.
    pub line: LineReport,
    /// Rate of one flow, in kpps.
    pub kpps: Figure,
    /// Rate of one flow relative to the line rate of one port.
    pub share: Figure,
    /// Whether the rate comes from windows without preemption.
    pub is_clean: bool,
}

/// Reason why the rate at the sink is unknown although packets arrived there.
const OUTSIDE_THE_MEASUREMENT: &str =
    "no packets reached the sink during the measured part; run longer";

impl RunReport {
    /// Returns the rate of each flow; `None` if the path has no line, or only one port.
    pub fn flows(&self) -> Option<Flows> {
        const WHOLE: &str = "rate of packets that left over the measured part, per port of the \
                             line";
        let line = self.line.filter(|line| line.ports > 1)?;
        let flows = f64::from(line.ports);
        let is_clean = self.throughput_kpps.as_number().is_some();
        let kpps = match is_clean {
            true => self.throughput_kpps.scaled(
                1.0 / flows,
                "kpps",
                "throughput over the number \
                of ports",
            ),
            false => match sent(self) {
                (0.0, 1..) => Figure::absent("kpps", Tier::Sw, WHOLE, OUTSIDE_THE_MEASUREMENT),
                (kpps, _) => Figure::exact("kpps", kpps / flows, Tier::Sw, WHOLE),
            },
        };
        let line_kpps = self.line_rate_kpps? / flows;
        let share =
            kpps.scaled(1.0 / line_kpps, "ratio", "rate of a flow over line rate of a port");
        Some(Flows { line, kpps, share, is_clean })
    }
}

impl RunReport {
    /// Returns the CPU quota that throttled the workers, in CPUs. Workers never sleep, so any quota
    /// below the number of workers throttles them. `None` without throttling.
    pub fn held(&self, provenance: &Provenance) -> Option<f64> {
        provenance.cpu_quota.filter(|cpus| *cpus < self.workers.len() as f64)
    }

    /// Returns the rate at the sinks in kpps over the measured part of the run, including the time
    /// during which workers were stopped.
    pub fn delivered_kpps(&self) -> Figure {
        const METHOD: &str = "rate of packets that left over the measured part, interruptions \
                              included";
        match sent(self) {
            (0.0, 1..) => Figure::absent("kpps", Tier::Sw, METHOD, OUTSIDE_THE_MEASUREMENT),
            (kpps, _) => Figure::exact("kpps", kpps, Tier::Sw, METHOD),
        }
    }
}

/// Returns the rate at the sinks in kpps over the measured part of the run, and the number of
/// packets at the sinks over the entire run.
fn sent(run: &RunReport) -> (f64, u64) {
    let last = run.workers.iter().map(|worker| worker.segment).max();
    let last = run.workers.iter().filter(|worker| Some(worker.segment) == last);
    let sinks = || last.clone().filter_map(|worker| worker.stages.last());
    (sinks().filter_map(|sink| sink.kpps).sum(), sinks().map(|sink| sink.packets).sum())
}

impl Flows {
    fn figures(&self) -> Figures {
        named([("flow_kpps", self.kpps.clone()), ("flow_line_share", self.share.clone())])
    }
}
