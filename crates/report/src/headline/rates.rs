// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats the headlines of records about rates: the bottleneck, the gain from a change, and the
//! fraction of line rate.

use super::{MOST_COLUMNS, share};
use crate::tune::{kept_headline, measured, reached_before};
use crate::value::{cut, min_gain, significant};
use linerate_plan::diagnose::{HEADLINE_REPLAY, replay_share};
use linerate_plan::goal::{Judged, reaches};
use linerate_plan::profile::stage_share;
use linerate_plan::verdict::{is_certainly_faster, is_worth_it};
use linerate_record::budget::{BudgetReport, LONGEST_FRAME, Shortfall};
use linerate_record::plan::PlanReport;
use linerate_record::run::{RunReport, StageFailure};
use linerate_record::tune::{Candidate, Finding, Limit, RoundLatency, TuneReport};
use linerate_record::units::{self, BitsPerSecond, Kpps, Nanos, three_digits};
use linerate_record::{Body, Figure, Provenance, Record};

/// Maximum width, in columns, of the name of a candidate or change. Longer names are cut to leave
/// room for the rates that follow.
const NAME_COLUMNS: usize = 44;

/// Width, in columns, that a name keeps if a long answer follows.
const LEAST_NAME_COLUMNS: usize = 12;

/// Returns the rate delivered under a CPU quota that throttled the workers; `None` if they were not
/// throttled.
pub(super) fn held(record: &Record) -> Option<String> {
    let run = match &record.body {
        Body::Run(run) => run,
        Body::Tune(tune) => &tune.tuned,
        _ => return None,
    };
    // A failure of a stage is the answer whatever the quota.
    let cpus = run.held(&record.provenance).filter(|_| run.failure.is_none())?;
    let delivered = run.delivered_kpps().as_number();
    let delivered = delivered.map_or_else(|| "no rate".to_owned(), |kpps| Kpps(kpps).to_string());
    Some(format!("CPU quota of {}: {delivered} delivered", units::cpus(cpus)))
}

const NOT_REACHED: &str = "No packet reached the sink";

pub(super) fn of_run(report: &RunReport, provenance: &Provenance) -> Vec<String> {
    if let Some(failure) = &report.failure {
        let StageFailure { stage, worker, kind, packet, message } = failure;
        let at = packet.map_or_else(String::new, |packet| format!(" at packet {packet}"));
        return vec![
            format!("Stage `{stage}` on worker {worker} {}{at}: {}", kind.verb(), message),
            "figures up to the failure".to_owned(),
        ];
    }
    // Packets that the path drops by design have been processed: they count towards the line rate.
    let rate = report.processed_kpps.as_number();
    if let Some(end) = report.dead_end() {
        let outcome = if end.is_refusal() { "No packet was sent" } else { NOT_REACHED };
        return vec![format!("{outcome}: {end}")];
    }
    if let Some(goal) = goal_of_run(report, provenance) {
        let limit = bottleneck(report, report.finding.as_ref());
        return vec![goal, limit, line_rate(rate, report.line_rate_kpps)];
    }
    // What limits a path that reaches line rate matters less than that it does.
    let line = report.line_rate_kpps.filter(|line| *line > 0.0);
    if let Some((kpps, line)) = rate.zip(line).filter(|(kpps, line)| kpps >= line) {
        let reached = format!("Line rate reached{}: {}", beyond(kpps / line), Kpps(kpps));
        let above = report.finding.as_ref().and_then(|finding| above(report, finding));
        return vec![reached, above.unwrap_or_default()];
    }
    vec![
        bottleneck(report, report.finding.as_ref()),
        line_rate(rate, report.line_rate_kpps),
        rate.map_or_else(|| "no packet rate".to_owned(), |kpps| Kpps(kpps).to_string()),
    ]
}

/// Formats whether a run meets its goal, judged as for the exit status; `None` without a goal, or
/// if the run was interrupted before its end.
fn goal_of_run(report: &RunReport, provenance: &Provenance) -> Option<String> {
    let wanted = report.goal_kpps?;
    // Live traffic has no end that an interruption could precede.
    if report.interrupted && report.interfaces.is_empty() {
        return None;
    }
    let rate = report.sustained_kpps(provenance);
    let kpps = rate.as_number()?;
    let (wanted_kpps, kpps_shown) = (Kpps(wanted), Kpps(kpps));
    Some(match reaches(wanted, &rate, report) {
        Judged::Met(_) => format!("Goal of {wanted_kpps} met: {kpps_shown}"),
        Judged::Missed(_) => {
            let share = Some(share(kpps / wanted)).filter(|share| share != "100");
            let share = share.map_or_else(String::new, |share| format!(" ({share} %)"));
            format!("Goal of {wanted_kpps} missed: {kpps_shown}{share}")
        }
        Judged::CannotTell(_) => {
            format!("Cannot tell whether the goal of {wanted_kpps} is met: {kpps_shown}")
        }
    })
}

/// Names what limits a path above line rate: the bottleneck stage, or source and sink if they take
/// more.
fn above(report: &RunReport, finding: &Finding) -> Option<String> {
    let stage = finding.bottleneck.as_ref()?;
    let worker = report.workers.iter().find(|one| Some(&one.name) == finding.worker.as_ref());
    let shares = worker.and_then(|worker| {
        let one = worker.stages.iter().find(|one| one.name == *stage)?;
        Some((replay_share(worker)?, stage_share(worker, one)?))
    });
    Some(match shares.filter(|(replay, share)| replay > share) {
        Some((replay, part)) => format!(
            "source and sink take {} % of the work, `{stage}` {} %",
            share(replay),
            share(part)
        ),
        None => format!("`{stage}` limits the rate"),
    })
}

/// Formats a run's finding, including the CPU shares of the bottleneck stage and worker.
fn bottleneck(report: &RunReport, finding: Option<&Finding>) -> String {
    let Some(finding) = finding else { return String::new() };
    match (finding.limit, &finding.bottleneck) {
        (Limit::Processing, Some(stage)) => {
            let at = finding.worker.as_ref().and_then(|worker| at(report, stage, worker));
            format!("Bottleneck: `{stage}`{}", at.unwrap_or_default())
        }
        (Limit::Processing, None) => format!("Bottleneck: {}", finding.sentence),
        (Limit::Offered, _) => "No bottleneck: all workers are waiting for packets".to_owned(),
        (Limit::Interface, _) => "Bottleneck: the interface that sends".to_owned(),
        (Limit::CannotTell, _) => "Bottleneck: cannot tell".to_owned(),
        (Limit::Unknown, _) => "Bottleneck: unknown to this version".to_owned(),
    }
}

/// Formats a stage's cost and worker: `, 18 % of 250 ticks/packet on worker 0.0 (100 % busy)`.
fn at(report: &RunReport, stage: &str, worker: &str) -> Option<String> {
    let worker = report.workers.iter().find(|one| one.name == worker)?;
    let time = worker.time.filter(|time| time.busy > 0.0)?;
    let stage = worker.stages.iter().find(|one| one.name == stage)?;
    let ticks = worker.ticks_per_packet.as_number().filter(|ticks| *ticks > 0.0);
    let (part, whole) = match (stage_share(worker, stage), ticks) {
        (Some(part), Some(ticks)) => (part, three_digits(ticks) + " ticks/packet"),
        _ => (stage.busy? / time.busy, "the work".to_owned()),
    };
    let busy = share(time.busy / (time.busy + time.starved + time.blocked));
    let part = share(part);
    let replay = worker.replay_share().filter(|_| report.interfaces.is_empty());
    let replay = replay.map(|replay| replay / time.busy).filter(|share| *share >= HEADLINE_REPLAY);
    Some(match replay {
        Some(replay) => format!(
            ", {part} % of {whole} (replay {} %), worker {} {busy} % busy",
            share(replay),
            worker.name
        ),
        None => format!(", {part} % of {whole} on worker {} ({busy} % busy)", worker.name),
    })
}

/// Formats `line rate: 61 %`; empty if the line rate or the measured rate is unknown.
fn line_rate(kpps: Option<f64>, line: Option<f64>) -> String {
    match kpps.zip(line.filter(|line| *line > 0.0)) {
        Some((kpps, line)) if kpps < line => format!("line rate: {} %", share(kpps / line)),
        Some((kpps, line)) => format!("line rate: reached{}", beyond(kpps / line)),
        None => String::new(),
    }
}

/// Formats how far a rate exceeds line rate, ` (454 %)`; empty if it does not.
fn beyond(ratio: f64) -> String {
    match share(ratio) {
        percent if percent == "100" => String::new(),
        percent => format!(" ({percent} %)"),
    }
}

pub(super) fn of_tune(report: &TuneReport, provenance: &Provenance) -> Vec<String> {
    let goal = goal_of_tune(report, provenance).unwrap_or_default();
    let mut parts = answer_of_tune(report, &goal);
    match report.tuned.held(provenance) {
        // Of the other parts, only the first is shown under a quota.
        Some(_) if !goal.is_empty() => parts[0] = format!("{}; {goal}", parts[0]),
        _ => parts.insert(1, goal),
    }
    parts
}

/// Formats whether the mapping that was kept meets the goal, judged as for the exit status; `None`
/// without a goal, or if nothing was measured.
fn goal_of_tune(report: &TuneReport, provenance: &Provenance) -> Option<String> {
    let wanted = report.tuned.goal_kpps.filter(|_| report.predicted_from.is_none())?;
    let sustained = report.tuned.held(provenance).map(|_| report.tuned.sustained_kpps(provenance));
    let rate = sustained.as_ref().unwrap_or_else(|| measured(report));
    let goal = Kpps(wanted);
    Some(match reaches(wanted, rate, &report.tuned) {
        Judged::Met(_) => format!("goal of {goal}: met"),
        Judged::Missed(_) => format!("goal of {goal}: missed"),
        Judged::CannotTell(_) => format!("cannot tell whether the goal of {goal} is met"),
    })
}

/// Returns the parts of the headline without the goal, for which the first part leaves room.
fn answer_of_tune(report: &TuneReport, goal: &str) -> Vec<String> {
    if let Some(end) = report.baseline.dead_end() {
        return vec![format!("{NOT_REACHED}: {end}")];
    }
    let before = report.baseline_kpps.as_number();
    let line = report.baseline.line_rate_kpps;
    let chosen = report.chosen.and_then(|index| report.candidates.get(index as usize));
    let predicted = report.candidates.first().filter(|_| report.predicted_from.is_some());
    if let Some(share) = reached_before(report) {
        return line_rate_reached(report, share);
    }
    let (candidate, after, word) = match (chosen, predicted) {
        (Some(chosen), _) => {
            let measured = chosen.measured_kpps.as_ref().unwrap_or(&report.tuned.processed_kpps);
            (chosen, measured.as_number(), "")
        }
        (None, Some(best)) if is_faster(best.predicted_kpps.as_number(), before) => {
            (best, best.predicted_kpps.as_number(), "Predicted: ")
        }
        (None, predicted) => {
            let why = match predicted {
                Some(_) => format!("no candidate is predicted to gain more than {}", min_gain()),
                None => kept_headline(report),
            };
            let rate = before.map_or_else(String::new, |kpps| format!(": {}", Kpps(kpps)));
            return vec![
                format!("Keep the mapping{rate}; {why}"),
                line_rate(before, line),
                bottleneck(&report.baseline, Some(&report.finding)),
            ];
        }
    };
    let paired = chosen.and_then(|chosen| chosen.speedup.as_ref()?.as_number());
    let factor = faster(paired, after.zip(before.filter(|kpps| *kpps > 0.0)).map(|(a, b)| a / b));
    let ratio = paired.or(after.zip(before).map(|(a, b)| a / b));
    let limit = report.p99_limit_ns.filter(|_| word.is_empty());
    let slower = limit.zip(ratio.filter(|ratio| *ratio < 1.0)).map(|(limit, ratio)| {
        format!("A p99 of at most {} costs {} % of the rate", Nanos(limit), share(1.0 - ratio))
    });
    let rates = before.zip(after).map(|(a, b)| format!(": {} to {}", Kpps(a), Kpps(b)));
    let rates = rates.unwrap_or_default();
    let slow = chosen.and_then(|_| slower_median(report)).unwrap_or_default();
    let lead = match &slower {
        Some(slower) => format!("{slower}, with "),
        None => format!("{word}{factor} by "),
    };
    // The name makes room for the goal and the price in latency.
    let more = [goal, &slow].map(|part| if part.is_empty() { 0 } else { width(part) + 2 });
    let taken = width(&lead) + width(&rates) + more[0] + more[1];
    let room = MOST_COLUMNS.saturating_sub(taken).clamp(LEAST_NAME_COLUMNS, NAME_COLUMNS);
    let by = cut(&setting(candidate, report), room);
    let replay = report.tuned.replay_share().filter(|replay| replay.share >= HEADLINE_REPLAY);
    let replay = replay.map(|replay| format!("replay: {} % of the work", share(replay.share)));
    vec![
        match slower {
            Some(slower) => format!("{slower}{rates}, with {by}"),
            None => format!("{lead}{by}{rates}"),
        },
        slow,
        line_rate(after, line),
        replay.unwrap_or_default(),
    ]
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// Formats the keeping of a baseline that reaches line rate, and the candidate that gains most.
fn line_rate_reached(report: &TuneReport, share: f64) -> Vec<String> {
    const BRIEF_COLUMNS: usize = 28;
    let factor = |one: &Candidate| one.speedup.as_ref().and_then(Figure::as_number);
    let faster = report.candidates.iter().filter(|one| is_certainly_faster(one));
    let most = faster.max_by(|a, b| factor(a).unwrap_or(0.0).total_cmp(&factor(b).unwrap_or(0.0)));
    let most = most.map(|most| {
        let by = cut(&setting(most, report), BRIEF_COLUMNS);
        format!("{by} ({:.1}x) is not needed", factor(most).unwrap_or(0.0))
    });
    let rate = report.baseline_kpps.as_number();
    vec![
        format!("Keep the mapping: line rate reached{}", beyond(share)),
        most.unwrap_or_default(),
        rate.map_or_else(String::new, |kpps| Kpps(kpps).to_string()),
    ]
}

/// Factor by which the median latency must rise for the headline to state it.
const NOTED_MEDIAN: f64 = 2.0;

/// Formats the median latency before and after, if the chosen mapping makes it much worse.
fn slower_median(report: &TuneReport) -> Option<String> {
    let p50 = |latency: RoundLatency| latency.p50.as_number();
    let (before, after) = (p50(report.latency_before())?, p50(report.latency_after())?);
    (before > 0.0 && after >= NOTED_MEDIAN * before)
        .then(|| format!("p50 {} to {}", Nanos(before), Nanos(after)))
}

/// Formats the speedup. The median ratio of paired rounds can differ from the ratio of the two
/// rates, which are medians over all rounds. A visible difference is pointed out: `1.8x in paired
/// rounds`.
fn faster(paired: Option<f64>, of_rates: Option<f64>) -> String {
    let [paired, of_rates] = [paired, of_rates].map(|x| x.map(|x| format!("{x:.1}x")));
    match (paired, of_rates) {
        (Some(paired), Some(of_rates)) if paired != of_rates => {
            format!("{paired} in paired rounds")
        }
        (Some(one), _) | (None, Some(one)) => one,
        (None, None) => "Faster".to_owned(),
    }
}

/// Returns whether a predicted rate is worth a change from the present one; true if either is
/// unknown.
fn is_faster(predicted: Option<f64>, before: Option<f64>) -> bool {
    predicted.zip(before).is_none_or(|(predicted, before)| is_worth_it(predicted, before))
}

/// Returns a candidate's name, with its burst size if other candidates have the same name.
fn setting(candidate: &Candidate, report: &TuneReport) -> String {
    let named = report.candidates.iter().filter(|one| one.name == candidate.name).count();
    match named > 1 && !candidate.name.contains("burst") {
        true => format!("{}, burst {}", candidate.name, candidate.burst),
        false => candidate.name.clone(),
    }
}

pub(super) fn of_plan(report: &PlanReport) -> Vec<String> {
    let kpps = report.predicted_kpps.as_number();
    let at = |worker: &String| {
        let planned = report.workers.iter().find(|one| one.name == *worker);
        let busy = planned.and_then(|one| one.utilisation.as_number());
        let busy = busy.map_or_else(String::new, |busy| format!(" ({} % busy)", share(busy)));
        format!(" on worker {worker}{busy}")
    };
    let bottleneck = report.bottleneck.stage.as_ref().map(|stage| {
        let at = report.bottleneck.worker.as_ref().map(at).unwrap_or_default();
        format!("Bottleneck: `{stage}`{at}")
    });
    let gain = report.recommendations.first().and_then(|best| {
        let gain = best.gain.as_number().filter(|gain| *gain > 0.0)?;
        Some(format!("+{} % by {}", share(gain), cut(&best.change, NAME_COLUMNS)))
    });
    let rate = kpps.map(|kpps| format!("predicted {}", Kpps(kpps)));
    vec![
        bottleneck.unwrap_or_else(|| "Bottleneck: none below line rate".to_owned()),
        line_rate(kpps, report.line_rate_kpps),
        gain.unwrap_or_else(|| format!("no change gains more than {}", min_gain())),
        rate.unwrap_or_default(),
    ]
}

pub(super) fn of_budget(report: &BudgetReport) -> Vec<String> {
    let Some(row) = report.rows.first() else {
        return vec!["No budget: no frame size was given".to_owned()];
    };
    let unit = if report.is_this_machine { "core" } else { "pipe" };
    let all = report.cores * report.pipes_per_core;
    let of_all =
        (all > 1).then(|| format!("{} on all {all} {unit}s", significant(row.cycles_of_all)));
    let budget = format!(
        "Budget: {} ns, {} {unit} cycles per packet at {} with {}-byte frames",
        significant(row.ns_per_packet),
        significant(row.cycles_per_packet),
        BitsPerSecond(report.line_bits_per_s),
        significant(row.frame_bytes),
    );
    let strands = if report.is_this_machine { "hardware threads" } else { "strands" };
    let task = row.task.as_ref().map(|task| match task.fits {
        true => format!("the task needs {} {strands}", significant(task.strands)),
        false => format!("the task needs more {strands} than the machine has"),
    });
    let measured = report
        .shortfall
        .as_ref()
        .map(|shortfall| format!("measured: {} % of line rate", share(shortfall.share_of_line)));
    let held = report.shortfall.as_ref().map(|shortfall| held_from(shortfall, report));
    let measured = measured.or(task).unwrap_or_default();
    match held {
        Some(held) => vec![held, measured, budget],
        None => vec![budget, of_all.unwrap_or_default(), measured],
    }
}

/// Formats the frame sizes with which a measured path sustains line rate.
fn held_from(shortfall: &Shortfall, report: &BudgetReport) -> String {
    let line = BitsPerSecond(report.line_bits_per_s);
    let bytes = significant(shortfall.holds_from_bytes.ceil());
    let sizes = match shortfall.share_at_longest() {
        _ if shortfall.share_of_line_at_shortest >= 1.0 => {
            "holds for the shortest frames".to_owned()
        }
        None => format!("holds for frames of {bytes} bytes or more"),
        Some(longest) => {
            format!("is not reached: {} % with {LONGEST_FRAME} bytes", share(longest))
        }
    };
    format!("Line rate ({line}) {sizes}, at the measured cost per packet")
}
