// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rendering of `run` and `tune` reports. Golden files: see `common`.

mod common;

use common::{PLAIN, assert_golden};
use linerate_record::kernels::Kernel;
use linerate_record::run::{
    CountedEvent, CountedEvents, KernelUse, Latency, RingReport, RunReport, StageReport,
    TimeShares, WindowCount, WorkerReport,
};
use linerate_record::stats::Estimate;
use linerate_record::tune::{
    Candidate, Finding, KernelAdvice, KernelShare, Limit, RuledOut, TuneReport,
};
use linerate_record::{Figure, Tier, Warning, fixtures};
use linerate_report::Style;
use std::collections::BTreeMap;

fn within(unit: &str, value: f64, low: f64, high: f64, tier: Tier) -> Figure {
    let estimate = Estimate { value, low, high, confidence: 0.9, n: 9 };
    Figure::number(unit, estimate, tier, "by hand")
}

fn kpps(value: f64) -> Figure {
    within("kpps", value, value * 0.985, value * 1.012, Tier::Sw)
}

fn counts(entries: &[(&str, u64)]) -> BTreeMap<String, u64> {
    entries.iter().map(|&(cause, n)| (cause.to_owned(), n)).collect()
}

fn stage(name: &str, ticks: f64, shares: (f64, f64, f64), drops: &[(&str, u64)]) -> StageReport {
    let no_clock = "the core clock changed by 14 % during the run";
    StageReport {
        name: name.to_owned(),
        packets: 2_680_123,
        kpps: Some(1340.06),
        ticks_per_packet: Figure::exact("ticks/packet", ticks, Tier::Sw, "by hand"),
        cycles_per_packet: Figure::absent("cycles/packet", Tier::Sw, "by hand", no_clock),
        busy: Some(shares.0),
        starved: Some(shares.1),
        blocked: Some(shares.2),
        drops: counts(drops),
        counts: BTreeMap::new(),
        kernels: Some(Vec::new()),
        events: None,
        ..fixtures::stage()
    }
}

/// Returns a kernel called by a stage, with its ticks and its share.
fn kernel_use(kernel: Kernel, variant: &str, calls: f64, cost: Option<(f64, f64)>) -> KernelUse {
    let few = "only 3 calls were logged; run longer";
    let figure = |unit: &str, value: Option<f64>| match value {
        Some(value) => within(unit, value, value * 0.97, value * 1.02, Tier::Sw),
        None => Figure::absent(unit, Tier::Sw, "by hand", few),
    };
    KernelUse {
        kernel,
        variant: variant.to_owned(),
        calls_per_packet: calls,
        bytes_per_call: 351.5,
        ticks_per_packet: figure("ticks/packet", cost.map(|(ticks, _)| ticks)),
        share: figure("ratio", cost.map(|(_, share)| share)),
        variants: Vec::new(),
    }
}

fn worker(segment: u32, replica: u32, cpu: u32, stages: Vec<StageReport>) -> WorkerReport {
    WorkerReport {
        name: format!("{segment}.{replica}"),
        cpu,
        segment,
        replica,
        time: Some(TimeShares {
            busy: 0.9,
            starved: 0.06,
            blocked: 0.02,
            lost: 0.0125,
            unaccounted: 0.0075,
        }),
        stages,
        lost_ns: 25_000_000,
        ticks_per_packet: Figure::exact("ticks/packet", 1612.4, Tier::Sw, "by hand"),
        empty_polls: 1_234_567,
        burst_sizes: vec![1, 2, 3, 40, 500, 9],
        windows: WindowCount { total: 1900, preempted: 55 },
        ..fixtures::worker()
    }
}

/// Returns a run with two segments, the second replicated twice, and with drops, rejected input and
/// an idle ring.
fn pipeline() -> RunReport {
    let first = vec![
        stage("source", 85.25, (0.064, 0.021, 0.302), &[]),
        stage("parse", 61.0, (0.046, 0.021, 0.302), &[("not IP", 12)]),
        stage("verify", 211.4, (0.159, 0.021, 0.302), &[("bad checksum", 31_042), ("cut", 3)]),
        stage("ring out", 24.9, (0.019, 0.021, 0.302), &[]),
    ];
    let second = |name| {
        vec![
            stage("ring in", 31.5, (0.03, 0.002, 0.0), &[]),
            stage("nat44", 902.4, (0.88, 0.002, 0.0), &[]),
            stage(name, 55.0, (0.05, 0.002, 0.0), &[]),
        ]
    };
    let mut first = first;
    first[0].kernels = Some(vec![kernel_use(Kernel::Copy, "avx2", 1.0, Some((18.2, 0.213)))]);
    first[2].kernels = Some(vec![
        kernel_use(Kernel::Checksum, "avx512vnni", 0.98, Some((80.3, 0.38))),
        kernel_use(Kernel::Copy, "avx2", 0.0012, None),
    ]);
    let ring = |name: &str, occupancy: Vec<u64>| RingReport {
        name: name.to_owned(),
        capacity: 1024,
        occupancy,
        full_pushes: 48_213,
        held: 0,
    };
    RunReport {
        path: "edge".to_owned(),
        mapping: "parse+verify | nat44+forward x2".to_owned(),
        kernels: Some("selected".to_owned()),
        counted: None,
        elapsed_s: 2.0,
        ticks_per_s: 2.4e9,
        offered_kpps: None,
        throughput_kpps: kpps(1340.06),
        processed_kpps: kpps(1352.0),
        line_rate_kpps: Some(4300.0),
        goal_kpps: None,
        workers: vec![
            worker(0, 0, 0, first),
            worker(1, 0, 1, second("forward")),
            worker(1, 1, 2, second("forward")),
        ],
        rings: vec![
            ring("0.0 > 1.0", vec![3, 10, 20, 45, 90, 120, 240, 480, 900, 1800, 2600]),
            ring("0.0 > 1.1", vec![0; 11]),
        ],
        latency: Latency {
            p50: within("ns", 812_400.0, 790_000.0, 830_000.0, Tier::Sw),
            p99: Figure::exact("ns", 1_204_000.0, Tier::Sw, "by hand"),
            p999: Figure::absent("ns", Tier::Sw, "by hand", "fewer than 3000 samples"),
        },
        rejected: counts(&[("cut header", 4), ("zero length", 1)]),
        input: None,
        line: None,
        finding: None,
        kernel_advice: None,
        packets_home: None,
        interfaces: Vec::new(),
        ..fixtures::run()
    }
}

/// Returns a run with one worker and hardware counters that was stopped early, so it has no
/// optional values.
fn bare() -> RunReport {
    let mut only = stage("forward", 100.0, (1.0, 0.0, 0.0), &[]);
    only.ticks_per_packet.tier = Tier::Hw;
    only.cycles_per_packet = Figure::exact("cycles/packet", 130.0, Tier::Hw, "by hand");
    let mut worker = worker(0, 0, 3, vec![only]);
    worker.ticks_per_packet.tier = Tier::Hw;
    worker.burst_sizes = vec![];
    let none = Figure::absent("kpps", Tier::Sw, "by hand", "no clean window");
    let ns = Figure::exact("ns", 640.0, Tier::Hw, "by hand");
    RunReport {
        mapping: "forward".to_owned(),
        kernels: Some("portable".to_owned()),
        throughput_kpps: none.clone(),
        processed_kpps: none,
        workers: vec![worker],
        rings: vec![],
        latency: Latency { p50: ns.clone(), p99: ns.clone(), p999: ns },
        rejected: BTreeMap::new(),
        line_rate_kpps: None,
        interrupted: true,
        ..pipeline()
    }
}

fn kernel_shares() -> Vec<KernelShare> {
    let share = |stage: &str, kernel, before: f64, after: f64| KernelShare {
        stage: stage.to_owned(),
        kernel,
        before: within("ratio", before, before * 0.97, before * 1.02, Tier::Sw),
        after: within("ratio", after, after * 0.97, after * 1.02, Tier::Sw),
    };
    let mut shares = vec![
        share("source", Kernel::Checksum, 0.0, 0.0),
        share("source", Kernel::Copy, 0.213, 0.208),
        share("verify", Kernel::Checksum, 0.38, 0.371),
        share("verify", Kernel::Copy, 0.0, 0.0),
    ];
    shares[3].after = Figure::absent("ratio", Tier::Sw, "by hand", "no clean window");
    shares
}

fn kernel_advice() -> KernelAdvice {
    KernelAdvice {
        in_use: "selected".to_owned(),
        fastest: "selected".to_owned(),
        time_ratio: Figure::exact("ratio", 1.0, Tier::Sw, "by hand"),
        stage: "verify".to_owned(),
        stage_kpps: kpps(11_300.0),
        stage_fastest_kpps: kpps(11_300.0),
        path_kpps: kpps(1323.0),
        path_fastest_kpps: kpps(1323.0),
        worth_trying: false,
        sentence: "`selected` (checksum avx512vnni, copy avx2) is as fast as any variant for \
                   this path's calls"
            .to_owned(),
    }
}

fn tuned() -> TuneReport {
    let edge = "parse+verify+filter+nat44+forward+gre+count";
    let candidate = |name: &str, mapping: &str, kpps: f64| Candidate {
        name: name.to_owned(),
        mapping: mapping.to_owned(),
        burst: 32,
        kernels: Some("selected".to_owned()),
        predicted_kpps: within("kpps", kpps, kpps * 0.9, kpps * 1.1, Tier::Model),
        memory_bound: false,
        measured_kpps: None,
        speedup: None,
        latency: None,
    };
    let mut best = candidate("merge and replicate x2", &format!("{edge} x2"), 2540.0);
    best.measured_kpps = Some(kpps(2441.0));
    best.speedup = Some(within("ratio", 1.845, 1.8125, 1.871, Tier::Sw));
    let mut split =
        candidate("split before nat44", "parse+verify+filter | nat44+forward+gre+count", 2100.0);
    split.measured_kpps = Some(kpps(1987.0));
    split.speedup = Some(within("ratio", 1.502, 1.46, 1.55, Tier::Sw));
    split.memory_bound = true;
    split.kernels = Some("avx2".to_owned());
    let given = "parse | verify | filter | nat44 | forward | gre | count";
    TuneReport {
        given_workers: None,
        cpus_available: None,
        packets_home: None,
        waits: Vec::new(),
        calibration: None,
        predicted_from: None,
        baseline_latency: None,
        p99_limit_ns: None,
        idle: None,
        given_mapping: given.to_owned(),
        baseline_mapping: edge.to_owned(),
        baseline: RunReport { mapping: edge.to_owned(), ..pipeline() },
        baseline_kpps: kpps(1323.0),
        finding: Finding {
            limit: Limit::Processing,
            bottleneck: Some("nat44".to_owned()),
            worker: Some("0.0".to_owned()),
            sentence:
                "Worker 0.0 is busy 97 % of the time and waits for nothing: nat44 takes 902 of \
                       its 1612 ticks per packet, more than any other stage."
                    .to_owned(),
        },
        candidates: vec![best, split, candidate("burst 64", edge, 1400.0)],
        ruled_out: vec![RuledOut {
            name: "replicate count x2".to_owned(),
            reason: "count keeps one state for all packets, so a second copy would count half of \
                     them; merge the counts in the reader instead"
                .to_owned(),
        }],
        chosen: Some(0),
        tuned: RunReport {
            finding: Some(Finding {
                limit: Limit::Processing,
                bottleneck: Some("verify".to_owned()),
                worker: Some("0.0".to_owned()),
                sentence: "`verify` is the bottleneck".to_owned(),
            }),
            ..pipeline()
        },
        rounds: 9,
        kernel_shares: Some(kernel_shares()),
        kernel_advice: Some(kernel_advice()),
    }
}

/// Returns the report of a tuning session without gains or rejected candidates.
fn kept() -> TuneReport {
    let report = tuned();
    TuneReport {
        given_mapping: report.baseline_mapping.clone(),
        candidates: vec![],
        ruled_out: vec![],
        chosen: None,
        rounds: 0,
        kernel_shares: None,
        kernel_advice: None,
        ..report
    }
}

/// Returns a run on a machine that can count instructions and cycles but not last-level cache
/// misses.
fn counted() -> RunReport {
    let event = |name: &str, reason: Option<&str>| CountedEvent {
        name: name.to_owned(),
        reason: reason.map(str::to_owned),
        fix: reason.map(|_| "linerate stat --list".to_owned()),
    };
    let mut report = bare();
    report.counted = Some(CountedEvents {
        reading: Some("read(2)".to_owned()),
        one_iteration_in: 1024,
        events: vec![
            event("instructions", None),
            event("cycles", None),
            event("ll_misses", Some("this processor (table cortex_a7) does not count it")),
        ],
    });
    report.workers[0].stages.push(stage("count", 40.0, (1.0, 0.0, 0.0), &[]));
    let few = "only 2 iterations were counted; run longer";
    for (index, stage) in report.workers[0].stages.iter_mut().enumerate() {
        let exact = |unit: &str, value| Figure::exact(unit, value, Tier::User, "by hand");
        let instructions = match index {
            0 => Figure::absent("instructions/packet", Tier::User, "by hand", few),
            _ => exact("instructions/packet", 412.5),
        };
        stage.events = Some(BTreeMap::from([
            ("instructions".to_owned(), instructions),
            ("cycles".to_owned(), exact("cycles/packet", 330.0)),
            ("cpi".to_owned(), exact("cycles/instruction", 0.8)),
        ]));
    }
    report
}

/// Returns the same run on a machine without hardware counters.
fn uncounted() -> RunReport {
    let mut report = counted();
    let counted = report.counted.as_mut().expect("it was just put there");
    counted.reading = None;
    for event in &mut counted.events {
        event.reason = Some("the host provides no virtual PMU".to_owned());
        event.fix = None;
    }
    report.workers[0].stages.iter_mut().for_each(|stage| stage.events = None);
    report
}

#[test]
fn run_with_events_counted() {
    assert_golden("run-counted.txt", &PLAIN, &linerate_report::run(&counted(), &PLAIN));
}

#[test]
fn run_without_counters_says_why_once() {
    let text = linerate_report::run(&uncounted(), &PLAIN);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("counters")).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(lines[0].contains("- for instructions, cycles, ll_misses: the host"), "{text}");
}

#[test]
fn run_of_a_pipeline() {
    assert_golden("run.txt", &PLAIN, &linerate_report::run(&pipeline(), &PLAIN));
}

/// Returns the pipeline with a branch: some packets bypass `nat44` on one of its workers.
fn branched() -> RunReport {
    let mut report = pipeline();
    report.workers[1].stages[1].bypassed = 1_204_567;
    report
}

#[test]
fn run_with_a_branch_shows_what_went_round_it() {
    let [plain, branched] = [pipeline(), branched()].map(|run| linerate_report::run(&run, &PLAIN));
    assert!(!plain.contains("bypassed"), "{plain}");
    assert_golden("run-branch.txt", &PLAIN, &branched);
}

#[test]
fn run_of_one_worker_with_little_known() {
    assert_golden("run-bare.txt", &PLAIN, &linerate_report::run(&bare(), &PLAIN));
}

#[test]
fn tune_that_found_a_better_mapping() {
    assert_golden("tune.txt", &PLAIN, &linerate_report::tune(&tuned(), &PLAIN));
}

#[test]
fn tune_that_kept_the_baseline() {
    assert_golden("tune-kept.txt", &PLAIN, &linerate_report::tune(&kept(), &PLAIN));
}

/// The bottleneck comes only from the finding: without a finding, only the table is printed.
#[test]
fn a_tune_names_what_limits_only_where_that_was_found() {
    let mut report = tuned();
    report.tuned.finding = None;
    let text = linerate_report::tune(&report, &PLAIN);
    assert!(!text.contains("busiest"), "{text}");
}

#[test]
fn colour_changes_no_text() {
    let color = Style { color: true, ..PLAIN };
    let colored = linerate_report::tune(&tuned(), &color);
    assert_golden("tune-color.txt", &color, &colored);
    let mut plain = colored;
    for code in ["\x1b[0m", "\x1b[1m", "\x1b[32m", "\x1b[33m"] {
        plain = plain.replace(code, "");
    }
    assert_eq!(plain, linerate_report::tune(&tuned(), &PLAIN));
}

#[test]
fn the_mark_of_waiting_for_memory_is_explained_where_it_stands() {
    let marked = |report: &TuneReport| {
        let text = linerate_report::tune(report, &PLAIN);
        (text.contains(" *"), text.contains("* memory-bound"))
    };
    let mut report = tuned();
    assert_eq!(marked(&report), (true, true));
    report.candidates[1].predicted_kpps.low = None;
    report.candidates[1].predicted_kpps.high = None;
    assert_eq!(marked(&report), (false, false));
    report = tuned();
    report.candidates[1].memory_bound = false;
    assert_eq!(marked(&report), (false, false));
}

#[test]
fn a_narrow_terminal_gets_narrow_lines() {
    let narrow = Style::plain(72);
    assert_golden("tune-72.txt", &narrow, &linerate_report::tune(&tuned(), &narrow));
}

#[test]
fn every_width_is_answered() {
    for width in [0, 1, 10, 40, 1000, usize::MAX] {
        let style = Style::plain(width);
        assert!(linerate_report::run(&pipeline(), &style).contains("throughput"), "{width}");
        assert!(linerate_report::tune(&tuned(), &style).contains("speed-up"), "{width}");
    }
}

#[test]
fn warnings_say_what_to_do() {
    let warnings = [
        Warning::NotIdle { share: 0.34 },
        Warning::UnsteadyCounter,
        Warning::UnknownCoreClock { reason: "no\x1b[31m chase".to_owned() },
        Warning::RejectedPackets { rejected: 5, of: 1000 },
    ];
    assert_golden("warnings.txt", &PLAIN, &linerate_report::warnings(&warnings, &PLAIN));
    assert_eq!(linerate_report::warnings(&[], &PLAIN), "");
}

#[test]
fn texts_cannot_drive_the_terminal() {
    let mut report = pipeline();
    report.path = "\x1b[2J".to_owned();
    report.mapping = "a\rb".to_owned();
    report.workers[0].stages[0].name = "\x1b]0;title\x07".to_owned();
    report.rejected = counts(&[("\x1b[31m", 1)]);
    let text = linerate_report::run(&report, &PLAIN);
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
}
