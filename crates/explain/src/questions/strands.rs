// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions about individual strands: which one is the bottleneck, what it waits for, and what to
//! split.

use super::evidence::{event, plain, quote, run_of, strands_of};
use super::{Inquiry, Reply};
use crate::cpi::{EventCosts, by_cause};
use linerate_plan::diagnose::diagnose;
use linerate_plan::profile::service_time;
use linerate_record::run::{RunReport, StageReport, WorkerReport};
use linerate_record::strands::{
    Bound, CpiByCause, ForeignFormat, NodeCounts, StrandCounts, StrandsReport,
};
use linerate_record::tune::Limit;
use linerate_record::why::WhyReport;
use linerate_record::{Body, Figure};

/// How to import VPP's counts of a window that ends at a higher load.
pub(super) const REMEASURE: &str =
    "vppctl clear runtime, and later vppctl show runtime | linerate import - --record strands.json";
const RUN: &str = "linerate run PATH.toml --record run.json";

pub(super) fn bottleneck(asked: &Inquiry<'_>) -> Reply {
    if let Some(run) = run_of(&asked.record.body) {
        let finding = diagnose(run);
        let worker = run.workers.iter().find(|s| Some(&s.name) == finding.worker.as_ref());
        let evidence =
            worker.into_iter().flat_map(of_worker).chain(quote("processed", &run.processed_kpps));
        return match finding.limit {
            Limit::Processing => {
                Reply::answered(finding.sentence).because(evidence).then("linerate tune PATH.toml")
            }
            Limit::Offered => Reply::does_not_arise(finding.sentence).because(evidence),
            Limit::Interface => Reply::answered(finding.sentence)
                .because(evidence)
                .advise(&[Limit::FASTER_INTERFACE]),
            Limit::CannotTell | Limit::Unknown => {
                let mut reply =
                    Reply::cannot_tell("", "linerate run PATH.toml --time 10s --record run.json");
                reply.sentence = finding.sentence;
                reply.because(evidence)
            }
        };
    }
    if let Body::Why(why) = &asked.record.body {
        return of_observed(why, asked.file);
    }
    let Some(report) = strands_of(&asked.record.body) else {
        return Reply::cannot_tell("no worker in the record processed packets", RUN);
    };
    if let Some(reply) = of_nodes(report) {
        return reply;
    }
    // Counters do not distinguish work from polling, so even the strand with the fewest
    // instructions per cycle may be waiting for packets.
    let slowest = slowest(report);
    let seen =
        slowest.map_or(String::new(), |strand| format!("; {} has the highest CPI", strand.label()));
    Reply::cannot_tell(&format!("counters do not show which strand is saturated{seen}"), RUN)
        .because(slowest.and_then(|strand| quote(format!("{} cpi", strand.label()), &strand.cpi)))
}

/// Answers with the first cause found by `why`, which is the bottleneck.
fn of_observed(why: &WhyReport, file: &str) -> Reply {
    match why.findings.first() {
        Some(finding) => {
            let fix: Vec<&str> = finding.fix.as_deref().into_iter().collect();
            let reply = Reply::answered(finding.sentence.clone()).advise(&fix);
            reply.then(format!("linerate report {file}"))
        }
        None => Reply::cannot_tell("the record contains no findings", "linerate why PROGRAM"),
    }
}

/// Answers from the time spent in each thread's nodes: names the thread with the most packet work,
/// and the node that accounts for most of it. If the packets are distributed over threads, the work
/// covers only that thread's packets. `None` if no node was timed.
fn of_nodes(report: &StrandsReport) -> Option<Reply> {
    let ticks = NodeCounts::all_ticks;
    let all = |strand: &StrandCounts| strand.nodes.iter().filter_map(ticks).sum::<f64>();
    let longest = report.strands.iter().max_by(|a, b| all(a).total_cmp(&all(b)))?;
    if let Some(why) = longest.hidden_by_empty_polls() {
        return Some(Reply::cannot_tell(&why, REMEASURE));
    }
    let whole = all(longest);
    let most = longest.nodes.iter().filter(|node| ticks(node).is_some()).max_by(|a, b| {
        let [a, b] = [a, b].map(|node| ticks(node).unwrap_or(0.0));
        a.total_cmp(&b)
    })?;
    let share = ticks(most)? / whole;
    if !share.is_finite() {
        return None;
    }
    let size = most.packets_per_call.as_number();
    let full = match report.format == ForeignFormat::Vpp && size >= Some(VECTOR_MAX) {
        true => "; its vectors are full, a sign of queued packets",
        false => "",
    };
    let sentence = format!(
        "`{}` on {}, if that thread is saturated: this node takes {:.0} % of the thread's packet \
         work{full}",
        most.name,
        longest.label(),
        100.0 * share
    );
    let size = quote(format!("{} packets per call", most.name), &most.packets_per_call);
    let cost = quote(most.name.clone(), &most.ticks_per_packet);
    let reply = Reply::answered(sentence).because(cost.into_iter().chain(size));
    Some(reply.then("linerate plan --from RECORD --line 10Gb/s   # CPUs needed for the line"))
}

/// Average vector size at or above which a VPP node is considered saturated. The maximum is 256,
/// and a node whose vectors are always full has more packets waiting. Calls of regions have no
/// maximum.
const VECTOR_MAX: f64 = 255.5;

fn of_worker(worker: &WorkerReport) -> Vec<linerate_record::answers::Evidence> {
    let time = worker.time_or_zero();
    let share = |name: &str, value: f64| {
        plain(format!("worker {} {name}", worker.name), value, "ratio", "tier sw")
    };
    let mut evidence = vec![
        share("share of time busy", time.busy),
        share("share of time starved", time.starved),
        share("share of time preempted", time.lost),
    ];
    evidence
        .extend(quote(format!("worker {} service time", worker.name), &worker.ticks_per_packet));
    evidence
}

/// Returns the strand with the highest CPI; `None` if no CPI is known.
fn slowest(report: &StrandsReport) -> Option<&StrandCounts> {
    let cpi = |strand: &&StrandCounts| strand.cpi.as_number();
    report
        .strands
        .iter()
        .filter(|strand| cpi(strand).is_some())
        .max_by(|a, b| cpi(a).unwrap_or(0.0).total_cmp(&cpi(b).unwrap_or(0.0)))
}

/// Returns a stage's misses per thousand instructions. `misses` is the name of the miss event.
/// `None` if misses or instructions were not counted.
fn pti(stage: &StageReport, misses: &str) -> Option<Figure> {
    let misses = event(stage, misses)?;
    let instructions = event(stage, "instructions")?.as_number().filter(|n| *n > 0.0)?;
    let rate = misses.as_number()? / instructions * 1e3;
    Some(Figure::exact("events/1000 instructions", rate, misses.tier, "events of the stage"))
}

fn cause_of_stage(stage: &StageReport, costs: &EventCosts) -> Option<CpiByCause> {
    let counted: Vec<(&str, Figure)> = costs
        .events
        .iter()
        .filter_map(|cost| Some((cost.event.as_str(), pti(stage, &cost.event)?)))
        .collect();
    let counted: Vec<(&str, &Figure)> = counted.iter().map(|(name, pti)| (*name, pti)).collect();
    by_cause(event(stage, "cpi")?, &counted, costs)
}

pub(super) fn bound(asked: &Inquiry<'_>) -> Reply {
    let found: Vec<(String, CpiByCause, f64)> = match (run_of(&asked.record.body), asked.costs) {
        (Some(_), None) => {
            return Reply::cannot_tell(
                "miss costs were not measured on this machine",
                "linerate memory",
            );
        }
        (Some(run), Some(costs)) => of_stages(run, costs),
        (None, _) => strands_of(&asked.record.body).map_or_else(Vec::new, |report| {
            let of =
                |s: &StrandCounts| Some((s.label(), s.cpi_by_cause.clone()?, s.cpi.as_number()?));
            report.strands.iter().filter_map(of).collect()
        }),
    };
    if found.is_empty() {
        return match run_of(&asked.record.body) {
            Some(_) => Reply::cannot_tell(
                "cycles, instructions and misses were not counted",
                "linerate doctor",
            ),
            None => Reply::cannot_tell(
                "the record has no CPI measured on a processor that linerate knows",
                "linerate import FILE --machine NAME --record strands.json",
            ),
        };
    }
    let evidence: Vec<_> = found
        .iter()
        .flat_map(|(name, cause, cpi)| {
            let misses = cause.causes.iter().filter_map(|cause| {
                quote(format!("{name} {} at most", cause.event), &cause.cycles)
            });
            let whole = plain(format!("{name} cpi"), *cpi, "cycles/instruction", "the record");
            std::iter::once(whole).chain(misses).collect::<Vec<_>>()
        })
        .collect();
    let sentences: Vec<String> =
        found.iter().map(|(name, cause, _)| format!("{name}: {}", cause.sentence)).collect();
    let sentence = sentences.join("; ");
    if found.iter().all(|(_, cause, _)| cause.bound == Bound::CannotTell) {
        let mut reply = Reply::cannot_tell(
            "",
            "linerate stat -m cache -- COMMAND   # counts misses of every cache; needs hardware \
             counters",
        );
        reply.sentence = sentence;
        return reply.because(evidence);
    }
    let is_memory = found.iter().any(|(_, cause, _)| cause.bound == Bound::Memory);
    let advice: &[&str] = if is_memory {
        &["memory-bound code gains from touching fewer lines, prefetching across a burst, and \
           sharing the core with compute-bound strands"]
    } else {
        &["compute-bound code gains from fewer instructions per packet and better code generation"]
    };
    Reply::answered(sentence).because(evidence).advise(advice)
}

fn of_stages(run: &RunReport, costs: &EventCosts) -> Vec<(String, CpiByCause, f64)> {
    let stages = run.workers.iter().flat_map(|worker| {
        worker.stages.iter().map(move |stage| (format!("{}/{}", worker.name, stage.name), stage))
    });
    stages
        .filter_map(|(name, stage)| {
            let cpi = event(stage, "cpi")?.as_number()?;
            Some((name, cause_of_stage(stage, costs)?, cpi))
        })
        .collect()
}

pub(super) fn split(asked: &Inquiry<'_>) -> Reply {
    if let Some(run) = run_of(&asked.record.body) {
        return split_of_run(run);
    }
    let Some(report) = strands_of(&asked.record.body) else {
        return Reply::cannot_tell("no worker in the record processed packets", RUN);
    };
    let Some(slowest) = slowest(report) else {
        return split_of_nodes(report);
    };
    if report.strands.iter().filter(|strand| strand.cpi.as_number().is_some()).count() < 2 {
        return Reply::cannot_tell(
            "there is only one strand: nothing to compare it with",
            "linerate import FILE --machine t1   # a dump of all strands",
        )
        .because(quote(format!("{} cpi", slowest.label()), &slowest.cpi));
    }
    let sentence = format!(
        "{} first: it has the highest CPI, so running part of its work alongside faster strands \
         frees the pipe",
        slowest.label()
    );
    let evidence =
        report.strands.iter().filter_map(|s| quote(format!("{} cpi", s.label()), &s.cpi));
    Reply::answered(sentence)
        .because(evidence)
        .advise(&["split it into parts that take about the same time; handoffs add cost"])
}

fn split_of_run(run: &RunReport) -> Reply {
    let finding = diagnose(run);
    let worker = run.workers.iter().find(|w| Some(&w.name) == finding.worker.as_ref());
    let (Some(worker), Some(stage)) = (worker, &finding.bottleneck) else {
        return match finding.limit {
            Limit::Offered => Reply::does_not_arise("nothing: the source sets the rate"),
            Limit::Interface => Reply::does_not_arise("nothing: an interface sets the rate"),
            _ => Reply::cannot_tell(
                "no worker is clearly the bottleneck",
                "linerate run PATH.toml --time 10s --record run.json",
            ),
        };
    };
    let work = worker.stages.iter().filter(|stage| stage.ticks_per_packet.as_number().is_some());
    let evidence: Vec<_> = work
        .filter_map(|stage| {
            quote(format!("{}/{}", worker.name, stage.name), &stage.ticks_per_packet)
        })
        .collect();
    let whole = service_time(worker).map_or(0.0, |time| time.value);
    let of = worker.stages.iter().find(|s| s.name == *stage);
    let share = of.and_then(|of| of.ticks_per_packet.as_number()).map(|part| part / whole);
    match share {
        Some(share) if share.is_finite() => Reply::answered(format!(
            "worker {}, at `{stage}`, which takes {:.0} % of its time; `tune` predicts and \
             measures whether splitting or replicating gains more",
            worker.name,
            100.0 * share
        ))
        .because(evidence)
        .then("linerate tune PATH.toml"),
        _ => Reply::cannot_tell("the stages of the bottleneck worker were not timed", RUN),
    }
}

fn split_of_nodes(report: &StrandsReport) -> Reply {
    let nodes = report.strands.iter().flat_map(|strand| {
        strand.nodes.iter().filter_map(move |node| Some((strand, node, node.all_ticks()?)))
    });
    let Some((strand, node, _)) = nodes.max_by(|a, b| a.2.total_cmp(&b.2)) else {
        return Reply::cannot_tell("the strands' per-function costs are unknown", RUN);
    };
    if let Some(why) = strand.hidden_by_empty_polls().filter(|_| node.finds_few_packets()) {
        return Reply::cannot_tell(&why, REMEASURE);
    }
    let name = format!("{}/{}", strand.label(), node.name);
    let packets = plain(format!("{name} packets"), node.packets as f64, "packets", "tier sw");
    let sentence = format!("{name}: it takes more ticks than any other node");
    Reply::answered(sentence)
        .because(quote(name, &node.ticks_per_packet).into_iter().chain([packets]))
}
