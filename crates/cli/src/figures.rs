// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of a record that people and scripts quote.

use linerate_machine::idle::other_load;
use linerate_machine::topology::Topology;
use linerate_plan::kernels::advise;
use linerate_record::run::RunReport;
use linerate_record::stats::Estimate;
use linerate_record::tune::{Finding, KernelAdvice};
use linerate_record::{Figure, Provenance, Tier, Warning};
use std::collections::BTreeMap;
use std::time::Duration;

/// Where this program's records come from.
pub(crate) fn provenance() -> Provenance {
    linerate_machine::provenance::provenance(
        concat!("linerate ", env!("CARGO_PKG_VERSION")),
        option_env!("LINERATE_COMMIT"),
        env!("LINERATE_COMPILER"),
        &linerate_machine::provenance::command_line(),
    )
}

/// The estimate behind a figure.
pub(crate) fn estimate(figure: &Figure) -> Option<Estimate> {
    let value = figure.as_number()?;
    Some(Estimate {
        value,
        low: figure.low.unwrap_or(value),
        high: figure.high.unwrap_or(value),
        confidence: figure.confidence.unwrap_or(0.95),
        n: figure.n,
    })
}

/// What one run shows, by name.
pub(crate) fn of_run(run: &RunReport, finding: &Finding) -> BTreeMap<String, Figure> {
    let mut figures = BTreeMap::from([
        ("offered_kpps".to_owned(), offered(run)),
        ("throughput_kpps".to_owned(), run.throughput_kpps.clone()),
        ("processed_kpps".to_owned(), run.processed_kpps.clone()),
        ("line_rate_kpps".to_owned(), line_rate(run)),
        ("latency_p50_ns".to_owned(), run.latency.p50.clone()),
        ("latency_p99_ns".to_owned(), run.latency.p99.clone()),
        ("latency_p999_ns".to_owned(), run.latency.p999.clone()),
    ]);
    figures.extend(costs(run));
    figures.extend(of_finding(finding));
    figures.extend(of_kernels(advise(run).as_ref()));
    figures
}

/// At which rate the source was to offer packets.
fn offered(run: &RunReport) -> Figure {
    let unknown = || Figure::absent("kpps", Tier::Model, "", "the record does not say");
    run.offered_kpps.clone().unwrap_or_else(unknown)
}

/// Bottleneck and finding, by name.
pub(crate) fn of_finding(finding: &Finding) -> BTreeMap<String, Figure> {
    const METHOD: &str = "shares of time and service times of the strands";
    let bottleneck = match &finding.bottleneck {
        Some(stage) => Figure::text(stage, Tier::Sw, METHOD),
        None => Figure::absent("text", Tier::Sw, METHOD, &finding.sentence),
    };
    let sentence = Figure::text(&finding.sentence, Tier::Sw, METHOD);
    BTreeMap::from([("bottleneck".to_owned(), bottleneck), ("finding".to_owned(), sentence)])
}

/// Which kernels suit the calls of the path, by name.
pub(crate) fn of_kernels(advice: Option<&KernelAdvice>) -> BTreeMap<String, Figure> {
    const METHOD: &str = "replay of the calls on warm data";
    let absent = |unit| Figure::absent(unit, Tier::Sw, METHOD, "no call of a kernel was timed");
    let text = |pick: fn(&KernelAdvice) -> &str| {
        advice.map_or_else(|| absent("text"), |a| Figure::text(pick(a), Tier::Sw, METHOD))
    };
    let ratio = advice.map_or_else(|| absent("ratio"), |advice| advice.time_ratio.clone());
    BTreeMap::from([
        ("kernels".to_owned(), text(|advice| &advice.in_use)),
        ("kernels_fastest".to_owned(), text(|advice| &advice.fastest)),
        ("kernels_time_ratio".to_owned(), ratio),
    ])
}

/// The rate of the line, by the sizes of the packets offered.
pub(crate) fn line_rate(run: &RunReport) -> Figure {
    const METHOD: &str = "line rate over mean wire size";
    match run.line_rate_kpps {
        Some(kpps) => Figure::exact("kpps", kpps, Tier::Model, METHOD),
        None => Figure::absent("kpps", Tier::Model, METHOD, "the path has no [line]"),
    }
}

/// Work per packet over all strands, in ticks and in cycles.
pub(crate) fn costs(run: &RunReport) -> BTreeMap<String, Figure> {
    let (ticks, cycles) = match run.strands.as_slice() {
        [only] => (only.ticks_per_packet.clone(), strand_cycles(run)),
        _ => (busy_ticks(run), strand_cycles(run)),
    };
    let figures = BTreeMap::from([
        ("ticks_per_packet".to_owned(), ticks),
        ("cycles_per_packet".to_owned(), cycles),
    ]);
    figures.into_iter().chain(event_costs(run)).collect()
}

/// Hardware events per packet over all strands, and cycles per instruction.
fn event_costs(run: &RunReport) -> BTreeMap<String, Figure> {
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
    BTreeMap::from([
        ("instructions_per_packet".to_owned(), instructions),
        ("cpi".to_owned(), cpi),
        ("ll_misses_per_packet".to_owned(), per_packet("ll_misses")),
        ("branch_misses_per_packet".to_owned(), per_packet("branch_misses")),
    ])
}

/// An event in every stage on every strand, weighed by the packets it was given.
fn stage_events(run: &RunReport, event: &str) -> Figure {
    const METHOD: &str = "counts around each stage, weighed by its packets";
    let unit = format!("{event}/packet");
    let absent = |reason: &str| Figure::absent(&unit, Tier::Sw, METHOD, reason);
    let asked = run.counted.iter().flat_map(|counted| &counted.events);
    let Some(asked) = asked.into_iter().find(|asked| asked.name == event) else {
        return absent("it was not asked for");
    };
    if let Some(reason) = &asked.reason {
        return absent(reason);
    }
    let (mut sum, mut tier) = (0.0, Tier::Hw);
    for stage in run.strands.iter().flat_map(|strand| &strand.stages) {
        let given = stage.kpps.unwrap_or(0.0);
        if given == 0.0 {
            continue;
        }
        let figure = stage.events.as_ref().and_then(|events| events.get(event));
        match figure.and_then(|figure| Some((figure.as_number()?, figure.tier))) {
            Some((count, rests_on)) => (sum, tier) = (sum + count * given, tier.max(rests_on)),
            None => {
                let reason = figure.and_then(|figure| figure.reason.as_deref());
                return absent(reason.unwrap_or("a strand had no counters"));
            }
        }
    }
    match source_kpps(run) {
        kpps if kpps > 0.0 => Figure::exact(&unit, sum / kpps, tier, METHOD),
        _ => absent("no packet was taken"),
    }
}

fn source_kpps(run: &RunReport) -> f64 {
    let first = run.strands.iter().filter(|strand| strand.segment == 0);
    first.filter_map(|strand| strand.stages[0].kpps).sum()
}

fn busy_ticks(run: &RunReport) -> Figure {
    const METHOD: &str = "busy ticks of all strands over packets taken";
    let busy: f64 = run.strands.iter().map(|strand| strand.time_or_zero().busy).sum();
    match source_kpps(run) {
        kpps if kpps > 0.0 => {
            let ticks = busy * run.ticks_per_second / (kpps * 1e3);
            Figure::exact("ticks/packet", ticks, Tier::Sw, METHOD)
        }
        _ => Figure::absent("ticks/packet", Tier::Sw, METHOD, "no packet was taken"),
    }
}

/// Cycles of every stage on every strand, weighed by the packets it was given.
fn strand_cycles(run: &RunReport) -> Figure {
    const METHOD: &str = "cycles of each stage, weighed by its packets";
    let kpps = source_kpps(run);
    let mut sum = 0.0;
    let stages = run.strands.iter().flat_map(|s| &s.stages);
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
        return Figure::absent("cycles/packet", Tier::Sw, METHOD, "no packet was taken");
    }
    Figure::exact("cycles/packet", sum / kpps, Tier::Sw, METHOD)
}

/// How long the processors are watched before a measurement, and from which share on, with 95 %
/// confidence, others disturb it.
const WATCH: Duration = Duration::from_millis(150);
const OTHERS_SHARE: f64 = 0.1;

/// Strands that ran beside each other on the hardware threads of one core, core by core.
fn shared_cores(run: &RunReport) -> Vec<Warning> {
    let mut used: Vec<u32> = run.strands.iter().map(|strand| strand.cpu).collect();
    used.sort_unstable();
    used.dedup();
    let siblings = Topology::read(&used).cpus.into_iter().filter_map(|cpu| cpu.siblings.ok());
    let mut cores: Vec<Vec<u32>> = siblings
        .map(|all| all.into_iter().filter(|cpu| used.contains(cpu)).collect())
        .filter(|together: &Vec<u32>| together.len() > 1)
        .collect();
    cores.sort_unstable();
    cores.dedup();
    cores.into_iter().map(|cpus| Warning::SharedCore { cpus }).collect()
}

/// Whether others use `cpus` just now. Sleeps for a moment.
pub(crate) fn others(cpus: &[u32]) -> Option<Warning> {
    let load = other_load(cpus, WATCH).ok()?;
    (load.low > OTHERS_SHARE).then_some(Warning::NotIdle { share: load.value })
}

/// Windows below this share of clean ones are worth a warning.
const PREEMPTED_SHARE: f64 = 0.1;

/// Fewer clean windows on some strand than this are worth a warning.
const WINDOWS_FEW: u64 = 50;

/// Why to doubt a run of `frames` different packets.
pub(crate) fn warnings(run: &RunReport, provenance: &Provenance, frames: u64) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if !linerate_machine::ticks::is_invariant() {
        warnings.push(Warning::UnsteadyCounter);
    }
    if provenance.emulated == Some(true) {
        warnings.push(Warning::Emulated);
    }
    warnings.extend(shared_cores(run));
    if let Some(reason) = costs(run)["cycles_per_packet"].reason.clone() {
        warnings.push(Warning::UnknownCoreClock { reason });
    }
    let windows = run.strands.iter().map(|strand| strand.windows);
    let share = windows.clone().filter(|w| w.total > 0);
    let worst = share.map(|w| w.lost_to_preemption as f64 / w.total as f64).fold(0.0, f64::max);
    if worst > PREEMPTED_SHARE {
        warnings.push(Warning::PreemptedWindows { share: worst });
    }
    let kept = windows.map(|w| w.total - w.lost_to_preemption).min().unwrap_or(0);
    if kept < WINDOWS_FEW {
        warnings.push(Warning::FewWindows { kept });
    }
    warnings.extend(run.dead_end().map(Warning::NothingCameThrough));
    let rejected: u64 = run.rejected.values().sum();
    if rejected > 0 {
        warnings.push(Warning::RejectedPackets { rejected, of: rejected + frames });
    }
    warnings
}
