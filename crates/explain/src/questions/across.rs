// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions across workers: scaling, placement, parking.

use super::evidence::{plain, quote, run_of, strands_of};
use super::neighbours::{CoreSharing, NOT_SHOWN, companies};
use super::{Inquiry, Reply};
use linerate_record::answers::Evidence;
use linerate_record::run::WorkerReport;
use linerate_record::strands::{StrandCounts, StrandsReport};
use linerate_record::units::three_digits;
use linerate_record::{Body, Figure};
use std::collections::{BTreeMap, BTreeSet};

/// If a value grows by less than this factor, it is considered unchanged, because runs vary by
/// about this much (`docs/results/rotation.md`).
const GROWTH: f64 = 1.1;

/// Fraction of a core's maximum instructions per cycle at or above which its pipes are considered
/// saturated; occasional stalls cost about 10 %.
const FULL: f64 = 0.9;

/// Fraction of a strand's time above which polling is considered excessive, so that parking the
/// strand or polling less often may help.
const POLLS: f64 = 0.05;

pub(super) fn scaling(asked: &Inquiry<'_>) -> Reply {
    let measure = format!("linerate explain {} --against FEWER-PORTS.json", asked.file);
    let Some(before) = asked.against else {
        return Reply::cannot_tell("the answer needs a second record, with fewer ports", &measure);
    };
    let now = costs(&asked.record.body);
    let then = costs(&before.body);
    let both: Vec<(&String, &(f64, String), f64)> = now
        .iter()
        .filter_map(|(name, now)| Some((name, now, then.get(name).map(|(value, _)| *value)?)))
        .collect();
    if both.is_empty() {
        return Reply::cannot_tell("no stage or worker has known costs in both records", &measure);
    }
    let pair = |name: &str, now: f64, then: f64, unit: &str| {
        [
            plain(format!("{name}, before"), then, unit, "the other record"),
            plain(format!("{name}, now"), now, unit, "the record"),
        ]
    };
    let rates = rates(&before.body, &asked.record.body);
    let of_rates = rates.iter().flat_map(|(name, then, now)| pair(name, *now, *then, "kpps"));
    if !rates.is_empty() && rates.iter().all(|(_, then, now)| now * GROWTH >= *then) {
        return Reply::does_not_arise(
            "the packet rate of each worker is the same as with fewer ports, within 10 %",
        )
        .because(of_rates);
    }
    let quoted = |both: &[&(&String, &(f64, String), f64)]| -> Vec<Evidence> {
        let of = |(name, (now, unit), then): &&(&String, &(f64, String), f64)| {
            pair(name, *now, *then, unit)
        };
        both.iter().flat_map(of).collect()
    };
    let grown: Vec<&(&String, &(f64, String), f64)> =
        both.iter().filter(|(_, (now, _), then)| *then > 0.0 && *now > GROWTH * then).collect();
    if grown.is_empty() {
        return Reply::answered(
            "no cost per packet or per instruction grows with more ports, so shared caches, locks \
             and pipes are not the cause; check the interfaces, the bus and the offered load",
        )
        .because(of_rates)
        .because(quoted(&both.iter().collect::<Vec<_>>()))
        .then("linerate budget --line RATE --from run.json");
    }
    let sentences: Vec<String> = grown
        .iter()
        .map(|(name, (now, _), then)| {
            format!("{name} from {} to {}", three_digits(*then), three_digits(*now))
        })
        .collect();
    Reply::answered(format!("these costs grow with more ports: {}", sentences.join(", ")))
        .because(of_rates)
        .because(quoted(&grown))
        .advise(&[
            "more instructions per packet point to lock contention or to idle polling",
            "a higher miss rate or CPI points to shared caches, store buffers or execution units",
            "spread the workers over the cores, and park unused workers",
        ])
        .then("linerate tune PATH.toml")
}

/// Returns the old and new packet rate of each strand that is in both records. Run records are not
/// compared, because with a different mapping, a stage may get a different share of the packets.
fn rates(then: &Body, now: &Body) -> Vec<(String, f64, f64)> {
    let strands = |body| strands_of(body).map_or(&[][..], |report| &report.strands);
    let in_both = |strand: &StrandCounts| {
        let other = strands(then).iter().find(|other| other.label() == strand.label())?;
        let name = format!("{} rate", strand.label());
        Some((name, other.kpps.as_number()?, strand.kpps.as_number()?))
    };
    strands(now).iter().filter_map(in_both).collect()
}

/// Returns costs per packet and per instruction, keyed by stage or strand and by figure.
fn costs(body: &Body) -> BTreeMap<String, (f64, String)> {
    let mut found = BTreeMap::new();
    let mut put = |name: String, figure: &Figure| {
        if let Some(value) = figure.as_number() {
            found.insert(name, (value, figure.unit.clone()));
        }
    };
    if let Some(run) = run_of(body) {
        for worker in &run.workers {
            for stage in &worker.stages {
                put(format!("{} ticks", stage.name), &stage.ticks_per_packet);
                for (name, figure) in stage.events.iter().flatten() {
                    put(format!("{} {name}", stage.name), figure);
                }
            }
        }
    }
    for strand in strands_of(body).iter().flat_map(|report| &report.strands) {
        let label = strand.label();
        put(format!("{label} instructions"), &strand.instructions_per_packet);
        put(format!("{label} cpi"), &strand.cpi);
        for event in &strand.events {
            put(format!("{label} {}", event.name), &event.pti);
        }
    }
    found
}

pub(super) fn placement(asked: &Inquiry<'_>) -> Reply {
    if run_of(&asked.record.body).is_some() {
        return placement_of_run(asked);
    }
    let report = strands_of(&asked.record.body);
    let per_core = report.and_then(|r| r.machine.as_ref()?.strands_per_core).filter(|n| *n > 0);
    let most = asked.processor.and_then(|processor| {
        Some(processor.instructions_per_cycle? * f64::from(processor.pipes_per_core))
    });
    let (Some(report), Some(per_core), Some(most)) = (report, per_core, most) else {
        let next = match per_core {
            Some(_) => format!("linerate explain {} --machine FILE.toml", asked.file),
            None => "linerate import FILE --machine NAME --record strands.json".to_owned(),
        };
        return Reply::cannot_tell(
            "the record does not show which strands share a pipe, or their instructions per cycle",
            &format!("{next}   # name a machine whose pipes are known"),
        );
    };
    let cores = cores(report, per_core);
    let evidence: Vec<Evidence> = cores
        .iter()
        .map(|(core, (ipc, strands))| {
            let name = format!("core {core}, {} of {per_core} strands", strands.len());
            plain(name, *ipc, "instructions/cycle", "tier hw")
        })
        .collect();
    let full: Vec<String> = cores
        .iter()
        .filter(|(_, (ipc, _))| *ipc >= FULL * most)
        .map(|(core, (_, strands))| format!("core {core} ({})", strands.join(", ")))
        .collect();
    if !full.is_empty() {
        return Reply::answered(format!(
            "it matters now, because the pipe is saturated on {}",
            full.join(", ")
        ))
        .because(evidence)
        .advise(&["put strands with high CPI on the same core as strands with low CPI"]);
    }
    // An uncounted strand may be polling and saturate the pipe all by itself.
    if cores.values().any(|(_, strands)| strands.len() < per_core as usize) || cores.is_empty() {
        return Reply::cannot_tell(
            "some strands were not counted and may saturate the pipe",
            "linerate import FILE --machine t1   # a dump of all strands",
        )
        .because(evidence);
    }
    Reply::answered(
        "the pipe is not saturated on any core, so it is not the bottleneck; placement may still \
         help if strands of a core evict each other's L1 lines; to find out, run them on different \
         cores",
    )
    .because(evidence)
}

/// Returns, for each core, the names of the strands whose instructions were counted, and their
/// total instructions per cycle.
fn cores(report: &StrandsReport, per_core: u32) -> BTreeMap<u32, (f64, Vec<String>)> {
    let mut cores: BTreeMap<u32, (f64, Vec<String>)> = BTreeMap::new();
    let known = |s: &StrandCounts| Some((s.cpu?, s.ipc.as_number()?, s.label()));
    for (cpu, ipc, label) in report.strands.iter().filter_map(known) {
        let core = cores.entry(cpu / per_core).or_default();
        core.0 += ipc;
        core.1.push(label);
    }
    cores
}

fn placement_of_run(asked: &Inquiry<'_>) -> Reply {
    let workers = companies(asked);
    if workers.len() < 2 {
        return Reply::does_not_arise("there is only one worker");
    }
    let with = |wanted: CoreSharing| -> Vec<&WorkerReport> {
        let found = workers.iter().filter(|(_, company)| *company == wanted);
        found.map(|(worker, _)| *worker).collect()
    };
    let (on_cpu, on_core) = (with(CoreSharing::Cpu), with(CoreSharing::Core));
    if !on_cpu.is_empty() {
        return on_one_cpu(&on_cpu);
    }
    if !on_core.is_empty() {
        let sentence = format!(
            "it matters now, because workers {} share a core and its caches",
            names(&on_core)
        );
        return Reply::answered(sentence)
            .because(on_core.iter().filter_map(|worker| service_time(worker)))
            .advise(&[
                "place compute-bound workers on different cores",
                "place workers that use the same data on the same core, but workers that evict \
                 each other's cache lines on different cores",
            ])
            .then("linerate run PATH.toml --cpus LIST   # one CPU per core");
    }
    if !with(CoreSharing::Unknown).is_empty() {
        return Reply::cannot_tell(NOT_SHOWN, "linerate run PATH.toml --record run.json");
    }
    Reply::does_not_arise("no two workers ran on the same core")
}

/// Answers for workers that share CPUs: advises giving each worker its own CPU.
fn on_one_cpu(workers: &[&WorkerReport]) -> Reply {
    let cpus: BTreeSet<u32> = workers.iter().map(|worker| worker.cpu).collect();
    let plural = if cpus.len() == 1 { "CPU" } else { "CPUs" };
    Reply::answered(format!(
        "it matters now, because {} workers share {} {plural}: {}",
        workers.len(),
        cpus.len(),
        names(workers)
    ))
    .because(workers.iter().map(|worker| {
        plain(format!("CPU of worker {}", worker.name), f64::from(worker.cpu), "CPU", "the record")
    }))
    .advise(&["give each worker its own CPU: merge stages, use fewer replicas, or add CPUs"])
    .then("linerate tune PATH.toml")
}

fn service_time(worker: &WorkerReport) -> Option<Evidence> {
    quote(format!("worker {}", worker.name), &worker.ticks_per_packet)
}

fn names(workers: &[&WorkerReport]) -> String {
    workers.iter().map(|worker| worker.name.as_str()).collect::<Vec<_>>().join(", ")
}

pub(super) fn parking(asked: &Inquiry<'_>) -> Reply {
    const MEASURE: &str = "linerate run PATH.toml --record run.json";
    if run_of(&asked.record.body).is_none() {
        return Reply::cannot_tell(
            "counters do not distinguish polling from work; measure once with the idle strands \
             parked and once with them polling: the difference is what polling costs the other \
             strands",
            MEASURE,
        );
    }
    let workers = companies(asked);
    if workers.iter().any(|(worker, _)| worker.time.is_none()) {
        return Reply::cannot_tell("the record lacks the polling time of each worker", MEASURE);
    }
    let polls = |worker: &WorkerReport| worker.time_or_zero().starved >= POLLS;
    let polling: Vec<_> = workers.iter().copied().filter(|(worker, _)| polls(worker)).collect();
    let evidence = |workers: &[(&WorkerReport, CoreSharing)]| -> Vec<Evidence> {
        let of = |(worker, _): &(&WorkerReport, CoreSharing)| {
            let name = format!("worker {} polls", worker.name);
            plain(name, worker.time_or_zero().starved, "ratio", "tier sw")
        };
        workers.iter().map(of).collect()
    };
    if polling.is_empty() {
        return Reply::does_not_arise(
            "no worker spends much time polling: all are busy with packets",
        );
    }
    let shares = |company: CoreSharing| matches!(company, CoreSharing::Cpu | CoreSharing::Core);
    let sharing: Vec<_> = polling.iter().copied().filter(|(_, at)| shares(*at)).collect();
    if sharing.is_empty() {
        if polling.iter().any(|(_, company)| *company == CoreSharing::Unknown) {
            return Reply::cannot_tell(NOT_SHOWN, MEASURE).because(evidence(&polling));
        }
        return Reply::does_not_arise(
            "no polling worker shares a core with another worker, so polling slows none of them \
             down",
        )
        .because(evidence(&polling));
    }
    let what = match sharing.iter().any(|(_, company)| *company == CoreSharing::Cpu) {
        true => "CPUs",
        false => "cores",
    };
    let polling: Vec<&WorkerReport> = sharing.iter().map(|(worker, _)| *worker).collect();
    Reply::answered(format!(
        "yes: workers {} busy-poll, and share their {what} with other workers",
        names(&polling)
    ))
    .because(evidence(&sharing))
    .advise(&[
        "use fewer workers: merge polling workers with those they wait for",
        "leave a core's SMT sibling idle rather than have it poll",
    ])
    .then("linerate tune PATH.toml")
}
