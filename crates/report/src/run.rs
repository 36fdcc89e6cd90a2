// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of a `run` record.

use crate::Style;
use crate::counted;
use crate::events;
use crate::input;
use crate::interfaces;
use crate::layout::{Grid, Paint, labelled, limited, stacked};
use crate::shares;
use crate::value::{
    ABSENT, clean, count, median_burst, number, percent, quoted, reason, sparkline, tiers,
};
use linerate_record::run::{
    Latency, ReplayShare, RunReport, StageReport, TimeShares, WorkerReport,
};
use linerate_record::units::{Kpps, Nanos, three_digits};
use linerate_record::{Figure, Scalar};
use std::collections::{BTreeMap, BTreeSet};

/// Formats the report of a run: throughput, latency, and how each worker spent its time.
pub fn run(report: &RunReport, style: &Style) -> String {
    stacked(&[
        head(report, style),
        stages(report, style) + &absent_cycles(report, style),
        events::of_run(report, style),
        shares::of_run(report, style),
        workers(report, style),
        sleeps(report, style),
        rings(report, style),
        counted::of_run(report, style),
        drops(report, style),
        interfaces::of_run(report, style),
        input::rejected(report, style),
    ])
}

/// Minimum fraction of the work spent in source and sink at which the one-screen report states it.
const NOTED_REPLAY: f64 = 0.1;

/// Formats one screen: rates, stages, drops.
pub(crate) fn screen(report: &RunReport, style: &Style) -> String {
    let line = |label, text: String| labelled(label, Paint::Head, &clean(&text), style);
    let costly = report.replay_share().filter(|replay| replay.share >= NOTED_REPLAY);
    let rates = line("throughput", throughput(report))
        + &costly.map_or_else(String::new, |share| line("replay", replay(share, report)))
        + &few_buckets(report, report.most_replicas(), style)
        + &line("latency", latency(&report.latency))
        + &input::lines(report, style)
        + &interfaces::line(report, style);
    stacked(&[
        rates,
        limited(&stages(report, style), 16) + &whole_run(report, style),
        limited(&sleeps(report, style), 5),
        limited(&drops(report, style), 5),
        limited(&input::rejected(report, style), 4),
    ])
}

fn head(report: &RunReport, style: &Style) -> String {
    let line = |label, text: String| labelled(label, Paint::Head, &clean(&text), style);
    let mut lines = line("path", report.path.clone());
    lines += &line("mapping", report.mapping.clone());
    if let Some(forced) = report.kernels.as_ref().filter(|kernels| *kernels != "selected") {
        lines += &line("kernels", format!("{forced}, forced by name"));
    }
    lines += &input::lines(report, style);
    lines += &interfaces::line(report, style);
    lines += &line("throughput", throughput(report));
    if let Some(share) = report.replay_share().filter(|replay| replay.share > 0.0) {
        lines += &line("replay", replay(share, report));
    }
    lines += &few_buckets(report, report.most_replicas(), style);
    lines += &line("latency", latency(&report.latency));
    lines += &line("measured", measured(report));
    lines
}

/// Explains why `replicas` replicas gain little, if the packets fall into too few RSS buckets;
/// empty otherwise.
pub(crate) fn few_buckets(report: &RunReport, replicas: u32, style: &Style) -> String {
    let limit = report.buckets.and_then(|buckets| buckets.limit(replicas));
    limit.map_or_else(String::new, |limit| {
        labelled("replicas", Paint::Warning, &clean(&limit.to_string()), style)
    })
}

/// Formats a rate with its interval.
pub(crate) fn kpps(figure: &Figure) -> String {
    quoted(figure, |value| Kpps(value).to_string())
}

/// Formats the rate at which packets were processed, compared with the line rate, and how many of
/// them reached the sink, because a path may drop packets by design. If the path drops all packets,
/// the rate is not compared with the line rate.
fn throughput(report: &RunReport) -> String {
    let rate = kpps(&report.processed_kpps);
    let end = report.dead_end();
    if let Some(end) = end.as_ref().filter(|end| end.is_refusal()) {
        return format!("{rate}: {end}");
    }
    if end.is_some_and(|end| end.is_drop()) {
        return format!(
            "{rate} dropped, none delivered; line rate {ABSENT} (dropping packets costs less than \
             processing them)"
        );
    }
    let rate = match (report.processed_kpps.as_number(), report.line_rate_kpps) {
        (Some(value), Some(line)) if line > 0.0 => {
            format!("{rate}, {} % of the line rate of {}", percent(value / line), Kpps(line))
        }
        (None, Some(line)) => format!("{rate}; the line rate is {}", Kpps(line)),
        _ => rate,
    };
    let text = |figure: &Figure| figure.as_number().map(|kpps| Kpps(kpps).to_string());
    let at_sink = text(&report.throughput_kpps);
    match at_sink.filter(|sink| Some(sink) != text(&report.processed_kpps).as_ref()) {
        Some(sink) => format!("{rate}; {sink} at the sink, {}", rest(report)),
        None => rate,
    }
}

/// Minimum share of the packets that did not reach the sink at which the stage that dropped them is
/// named, with the cause.
const NOTED_DROPS: f64 = 0.5;

/// Describes what happened to the packets that did not reach the sink. Names a stage that dropped
/// most of them for a single cause, because these drops may be unintended.
fn rest(report: &RunReport) -> String {
    let mut drops = BTreeMap::<(&str, &str), u64>::new();
    let (mut ended, mut consumed) = (0, 0);
    for (_, stage) in all_stages(report) {
        for (cause, packets) in &stage.drops {
            *drops.entry((&stage.name, cause)).or_default() += packets;
        }
        consumed += stage.ledger.consumed.packets;
        ended += (stage.ledger.dropped() + stage.ledger.consumed).packets;
    }
    let ends = if consumed > 0 { "dropped or consumed" } else { "dropped" };
    let most = drops.into_iter().max_by_key(|(_, packets)| *packets);
    match most.filter(|(_, packets)| *packets as f64 >= NOTED_DROPS * ended as f64) {
        Some(((stage, cause), _)) => {
            format!("the rest {ends} by stages, mostly `{stage}` ({cause})")
        }
        None => format!("the rest {ends} by stages"),
    }
}

/// Formats the share of time spent in source and sink, which are not part of the user's path.
fn replay(replay: ReplayShare, report: &RunReport) -> String {
    let share = format!("source and sink account for {} % of the work", percent(replay.share));
    match (replay.kpps_without, report.processed_kpps.as_number()) {
        (Some(without), Some(with)) => format!(
            "{share}: {} with them, about {} without (evidence tier: model)",
            Kpps(with),
            Kpps(without)
        ),
        _ => share,
    }
}

fn latency(latency: &Latency) -> String {
    let Latency { p50, p99, p999 } = latency;
    let quantiles = [("p50", p50), ("p99", p99), ("p99.9", p999)];
    // Name figures together if they are missing for the same reason.
    let are_alike = |a: &(&str, &Figure), b: &(&str, &Figure)| {
        a.1.as_number().is_none() && b.1.as_number().is_none() && reason(a.1) == reason(b.1)
    };
    let shown = quantiles.chunk_by(are_alike).map(|alike| {
        let names: Vec<&str> = alike.iter().map(|(name, _)| *name).collect();
        let names = names.join("/");
        match alike[0].1.as_number() {
            Some(nanos) => format!("{names} {}", Nanos(nanos)),
            None => format!("{names} {ABSENT} ({})", reason(alike[0].1)),
        }
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn measured(report: &RunReport) -> String {
    let mut parts = vec![format!("{} s", three_digits(report.elapsed_s))];
    let tiers = run_tiers(report);
    if !tiers.is_empty() {
        parts.push(format!("tier {tiers}"));
    }
    if report.interrupted {
        parts.push("stopped early".to_owned());
    }
    if report.workers.iter().any(|worker| worker.windows.preempted > 0) {
        let method = clean(&report.throughput_kpps.method);
        parts.push(format!("throughput: {method}; kpps per stage: over all windows"));
    }
    parts.join(", ")
}

fn run_tiers(report: &RunReport) -> String {
    let RunReport { throughput_kpps, processed_kpps, latency, .. } = report;
    let whole = [throughput_kpps, processed_kpps, &latency.p50, &latency.p99, &latency.p999];
    let workers = report.workers.iter().map(|worker| &worker.ticks_per_packet);
    let stages = all_stages(report).flat_map(|(_, s)| [&s.ticks_per_packet, &s.cycles_per_packet]);
    tiers(whole.into_iter().chain(workers).chain(stages))
}

fn all_stages(report: &RunReport) -> impl Iterator<Item = (&WorkerReport, &StageReport)> {
    report.workers.iter().flat_map(|worker| worker.stages.iter().map(move |stage| (worker, stage)))
}

/// Formats a number, or the placeholder if it is unknown.
fn optional(value: Option<f64>, show: fn(f64) -> String) -> String {
    value.map_or_else(|| ABSENT.to_owned(), show)
}

/// Index of the packet column in the table of stages. If any stage was bypassed, the next column
/// holds the bypassed packets.
const PACKETS: usize = 2;

fn stages(report: &RunReport, style: &Style) -> String {
    let mut heads = vec![
        "worker",
        "stage",
        ">packets",
        ">kpps",
        ">ticks/\npacket",
        ">cycles/\npacket",
        ">busy\n%",
        ">starved\n%",
        ">blocked\n%",
        ">drops",
    ];
    let has_branches = all_stages(report).any(|(_, stage)| stage.bypassed > 0);
    if has_branches {
        heads.insert(PACKETS + 1, ">bypassed");
    }
    let mut grid = Grid::new(&heads);
    for (worker, stage) in all_stages(report) {
        let mut cells = vec![
            worker.name.clone(),
            stage.name.clone(),
            count(stage.packets),
            optional(stage.kpps, three_digits),
            number(&stage.ticks_per_packet),
            number(&stage.cycles_per_packet),
            optional(stage.busy, percent),
            optional(stage.starved, percent),
            optional(stage.blocked, percent),
            count(stage.drops.values().sum()),
        ];
        if has_branches {
            cells.insert(PACKETS + 1, count(stage.bypassed));
        }
        grid.row(cells);
    }
    grid.render(style)
}

/// The report explains why the rate of the rows differs from throughput if the difference exceeds
/// this fraction of throughput.
const NOTED_DIFFERENCE: f64 = 0.05;

/// Explains why the rates of the rows differ from throughput; empty if they hardly differ.
fn whole_run(report: &RunReport, style: &Style) -> String {
    let first = report.workers.iter().filter(|worker| worker.segment == 0);
    let taken = first.map(|worker| worker.stages.first()?.kpps).sum::<Option<f64>>();
    let Some((taken, rate)) = taken.zip(report.processed_kpps.as_number()) else {
        return String::new();
    };
    if (taken * report.kept_share() - rate).abs() <= NOTED_DIFFERENCE * rate {
        return String::new();
    }
    // The method names the packets, and then the windows.
    let method = &report.processed_kpps.method;
    let windows = method.split_once(", ").map_or(method.as_str(), |(_, windows)| windows);
    let windows = windows.trim_start_matches("mean of ");
    let text = format!(
        "the stages' kpps are averages over the whole run ({} in total); throughput is the rate \
         over {windows}",
        Kpps(taken)
    );
    labelled("", Paint::Head, &clean(&text), style)
}

/// Explains missing cycles, once for all stages.
fn absent_cycles(report: &RunReport, style: &Style) -> String {
    let absent = all_stages(report)
        .map(|(_, stage)| &stage.cycles_per_packet)
        .filter(|figure| figure.value == Scalar::Absent);
    let reasons: BTreeSet<&str> = absent.map(reason).collect();
    let note = |reason: &str| format!("{ABSENT} in cycles/packet: {}", clean(reason));
    reasons.into_iter().map(|reason| labelled("", Paint::Head, &note(reason), style)).collect()
}

/// Formats the time budget of each worker on one line, followed by the stage that takes most of the
/// bottleneck worker's busy time.
pub(crate) fn standing(report: &RunReport, style: &Style) -> String {
    let mut grid = Grid::new(&[
        "worker",
        ">cpu",
        ">busy %",
        ">starved %",
        ">blocked %",
        ">lost %",
        ">ticks/\npacket",
    ]);
    for worker in &report.workers {
        let shares = |time: TimeShares| [time.busy, time.starved, time.blocked, time.lost];
        let shares = worker.time.map_or([None; 4], |time| shares(time).map(Some));
        let mut cells = vec![worker.name.clone(), worker.cpu.to_string()];
        cells.extend(shares.map(|share| optional(share, percent)));
        cells.push(number(&worker.ticks_per_packet));
        grid.row(cells);
    }
    let least = busiest(report)
        .map_or_else(String::new, |text| labelled("busiest", Paint::Head, &clean(&text), style));
    grid.render(style) + &least
}

/// Names the bottleneck worker and stage of the finding; `None` if the finding names none.
fn busiest(report: &RunReport) -> Option<String> {
    let finding = report.finding.as_ref()?;
    let (worker, stage) = (finding.worker.as_ref()?, finding.bottleneck.as_ref()?);
    let limits = report.workers.iter().find(|one| one.name == *worker)?;
    let busy = limits.stages.iter().find(|one| one.name == *stage)?.busy?;
    let share = busy / limits.time.filter(|time| time.busy > 0.0)?.busy;
    Some(format!(
        "worker {worker}; `{stage}` takes {} % of the worker's busy time, more than any other \
         stage{}",
        percent(share),
        except_ends(limits, busy)
    ))
}

/// Names the ends of a worker (source, sink, rings), which are not stages of the path, if one of
/// them takes more time than `busy`, the share of the bottleneck stage; empty otherwise.
fn except_ends(worker: &WorkerReport, busy: f64) -> String {
    let own = worker.path_stages();
    let is_end = |stage: &&StageReport| own.iter().all(|one| one.name != stage.name);
    let ends: Vec<&StageReport> = worker.stages.iter().filter(is_end).collect();
    let share = |stage: &&StageReport| stage.busy.unwrap_or(0.0);
    if !ends.iter().any(|end| share(end) > busy) {
        return String::new();
    }
    let names: Vec<&str> = ends.iter().map(|end| end.name.as_str()).collect();
    let all: f64 = ends.iter().map(share).sum::<f64>() / worker.time_or_zero().busy;
    format!(" of the path ({}: {} %)", names.join(" and "), percent(all))
}

fn workers(report: &RunReport, style: &Style) -> String {
    let mut grid = Grid::new(&[
        "worker",
        ">cpu",
        ">ticks/\npacket",
        ">lost %",
        ">rest %",
        ">empty polls",
        ">median burst",
        ">windows kept",
    ]);
    for worker in &report.workers {
        let windows = worker.windows;
        let kept = windows.total.saturating_sub(windows.preempted);
        grid.row(vec![
            worker.name.clone(),
            worker.cpu.to_string(),
            number(&worker.ticks_per_packet),
            optional(worker.time.map(|time| time.lost), percent),
            optional(worker.time.map(|time| time.unaccounted), percent),
            count(worker.empty_polls),
            median_burst(&worker.burst_sizes).unwrap_or_else(|| ABSENT.to_owned()),
            format!("{} of {}", count(kept), count(windows.total)),
        ]);
    }
    grid.render(style)
}

/// Formats how often and how long idle workers were parked; empty if no worker was parked.
fn sleeps(report: &RunReport, style: &Style) -> String {
    let mut grid = Grid::new(&[
        "worker",
        "idle policy",
        ">parks after",
        ">starved %",
        ">parked %",
        ">parks",
        ">wake-ups",
        ">CPU time",
    ]);
    for worker in &report.workers {
        let Some(idle) = worker.idle.as_ref().filter(|idle| idle.parks > 0) else { continue };
        let starved = worker.time.map(|time| time.starved);
        let parked = starved.map(|starved| (idle.parked_ns as f64 / wall_ns(report)).min(starved));
        grid.row(vec![
            worker.name.clone(),
            idle.policy.clone(),
            idle.park_after_ns.map_or(ABSENT.to_owned(), |ns| Nanos(ns as f64).to_string()),
            optional(starved, percent),
            optional(parked, percent),
            count(idle.parks),
            count(idle.wake_ups),
            Nanos(worker.cpu_ns as f64).to_string(),
        ]);
    }
    grid.render(style)
}

/// Length of the measurement phase in nanoseconds.
fn wall_ns(report: &RunReport) -> f64 {
    (report.elapsed_s * 1e9).max(1.0)
}

fn rings(report: &RunReport, style: &Style) -> String {
    let mut grid = Grid::new(&["ring", ">capacity", ">full pushes", ">held", "filled 0 .. 100 %"]);
    for ring in &report.rings {
        let seen = ring.occupancy.iter().any(|&n| n > 0);
        grid.row(vec![
            ring.name.clone(),
            count(ring.capacity),
            count(ring.full_pushes),
            count(ring.held),
            if seen { format!("[{}]", sparkline(&ring.occupancy)) } else { ABSENT.to_owned() },
        ]);
    }
    grid.render(style)
}

fn drops(report: &RunReport, style: &Style) -> String {
    let mut grid = Grid::new(&["dropped by", "worker", "cause", ">packets", ">% of its input"]);
    for (worker, stage) in all_stages(report) {
        for (cause, &packets) in &stage.drops {
            grid.row(vec![
                stage.name.clone(),
                worker.name.clone(),
                cause.clone(),
                count(packets),
                drop_share(packets, stage.packets),
            ]);
        }
    }
    grid.render(style)
}

/// Formats drops in percent, without rounding a small non-zero share to 0.
fn drop_share(packets: u64, of: u64) -> String {
    let share = packets as f64 / of as f64;
    match packets {
        _ if of == 0 => ABSENT.to_owned(),
        1.. if share < 0.001 => "<0.1".to_owned(),
        _ => percent(share),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::fixtures;
    use linerate_record::run::IdleReport;

    #[test]
    fn workers_that_slept_say_how_often_and_the_others_nothing() {
        let worker = |idle| WorkerReport {
            time: Some(TimeShares { starved: 0.9, ..TimeShares::default() }),
            cpu_ns: 12_000_000,
            idle,
            ..fixtures::worker()
        };
        let slept = IdleReport {
            policy: "auto".to_owned(),
            park_after_ns: Some(25_000),
            parked_ns: 800_000_000,
            parks: 1_200,
            wake_ups: 1_100,
        };
        let polled = IdleReport { policy: "pause".to_owned(), ..IdleReport::default() };
        let workers = vec![worker(None), worker(Some(polled)), worker(Some(slept))];
        let report = RunReport { workers, elapsed_s: 1.0, ..fixtures::run() };
        let lines: Vec<String> = sleeps(&report, &Style::plain(100))
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            lines,
            [
                "worker idle policy parks after starved % parked % parks wake-ups CPU time",
                "0.0 auto 25 µs 90.0 80.0 1,200 1,100 12 ms"
            ]
        );
        let silent = RunReport { workers: vec![worker(None)], ..report };
        assert_eq!(sleeps(&silent, &Style::plain(100)), "");
    }
}
