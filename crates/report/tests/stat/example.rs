// SPDX-License-Identifier: MIT OR Apache-2.0
//! Synthetic counts.

use linerate_record::stat::{
    BaselineChange, BaselineOf, CacheShape, Environment, EventCount, ExitStatus, HotFunction,
    HotLine, HotSpots, IntervalCounts, Judged, MetricValue, RotationReport, SimulatedCaches,
    StatReport, StatTarget, ThreadCounts, UnitOfWork,
};
use linerate_record::stats::Estimate;
use linerate_record::why::Unread;
use linerate_record::{Figure, Provenance, Tier, fixtures};
use std::collections::BTreeMap;

fn within(unit: &str, value: f64, share: f64, tier: Tier) -> Figure {
    let (low, high) = (value * (1.0 - share), value * (1.0 + share));
    let estimate = Estimate { value, low, high, confidence: 0.95, n: 42 };
    Figure::number(unit, estimate, tier, "by hand")
}

fn exact(value: f64, tier: Tier) -> Figure {
    Figure::exact("events", value, tier, "by hand")
}

/// Returns an event that was counted for the whole run.
fn always(name: &str, count: u64, tier: Tier) -> EventCount {
    EventCount {
        name: name.to_owned(),
        native: None,
        raw: Some(count),
        count: exact(count as f64, tier),
        duty: Some(1.0),
        periods: None,
        per_unit: None,
        fix: None,
    }
}

fn rotated(name: &str, native: &str, raw: u64, duty: f64, error: f64) -> EventCount {
    EventCount {
        native: Some(native.to_owned()),
        count: within("events", raw as f64 / duty, error, Tier::Hw),
        duty: Some(duty),
        periods: Some(42),
        ..always(name, raw, Tier::Hw)
    }
}

fn missing(name: &str, tier: Tier, reason: &str, fix: Option<&str>) -> EventCount {
    EventCount {
        raw: None,
        duty: None,
        count: Figure::absent("events", tier, "by hand", reason),
        fix: fix.map(str::to_owned),
        ..always(name, 0, tier)
    }
}

fn metric(set: &str, name: &str, formula: &str, figure: Figure, prose: &str) -> MetricValue {
    MetricValue {
        name: name.to_owned(),
        set: set.to_owned(),
        formula: formula.to_owned(),
        figure,
        prose: prose.to_owned(),
    }
}

fn report(tier: Tier, argv: &[&str], events: Vec<EventCount>) -> StatReport {
    StatReport {
        times: BTreeMap::new(),
        remarks: Vec::new(),
        target: StatTarget::Command { argv: argv.iter().map(|word| word.to_string()).collect() },
        tier,
        tier_asked: false,
        event_table: "arm1176".to_owned(),
        is_known_processor: true,
        elapsed_s: 16.9012,
        environment: None,
        events,
        metrics: Vec::new(),
        ..fixtures::stat()
    }
}

/// Returns the times of a simulation.
pub(crate) fn no_times() -> BTreeMap<String, Figure> {
    let reason = "the simulator's run time is not the command's";
    BTreeMap::from([("elapsed_s".to_owned(), Figure::absent("s", Tier::Sim, "clock", reason))])
}

/// Returns the times of a command.
pub(crate) fn figures() -> BTreeMap<String, Figure> {
    let seconds = |value| Figure::exact("s", value, Tier::Sw, "wait4");
    BTreeMap::from([
        ("user_s".to_owned(), seconds(16.52)),
        ("system_s".to_owned(), seconds(0.0123)),
        ("cpus_used".to_owned(), Figure::exact("processors", 0.978, Tier::Sw, "by hand")),
    ])
}

pub(crate) fn provenance() -> Provenance {
    Provenance {
        program: "linerate 0.1.0".to_owned(),
        commit: None,
        compiler: "rustc 1.88.0".to_owned(),
        command: "linerate stat -m rpistat -- ./naive".to_owned(),
        unix_s: 1_372_327_088,
        architecture: "arm".to_owned(),
        cpu: Some("ARMv6-compatible processor rev 7 (v6l)".to_owned()),
        cpus: vec![0],
        kernel: Some("Linux 3.6.11".to_owned()),
        hypervisor: None,
        emulated: Some(false),
        load_1min: Some(0.1),
        ticks_per_s: None,
        ticks_invariant: None,
        others: None,
        siblings: None,
        cpu_quota: None,
    }
}

/// Returns counts of nine multiplexed events, one of which was counted for the whole run.
pub(crate) fn turns() -> StatReport {
    let cycles = EventCount {
        native: Some("CPU_CYCLES (0xff)".to_owned()),
        periods: Some(169),
        ..always("cycles", 11_759_598_287, Tier::Hw)
    };
    let mut events = vec![
        always("task_clock_ns", 16_532_345_678, Tier::Sw),
        cycles,
        rotated("instructions", "INSTR_EXEC (0x07)", 315_810_640, 0.2544, 0.0041),
        rotated("ibuf_stall_cycles", "IFU_IBUF_STALL (0x01)", 65_981_902, 0.2544, 0.012),
        rotated("l1d_accesses", "DCACHE_CACHED (0x09)", 4_558_795, 0.2485, 0.0084),
        rotated("l1d_misses", "DCACHE_MISS (0x0b)", 933_837, 0.2485, 0.0312),
        rotated("micro_tlb_misses", "DTLB_MICRO_MISS (0x04)", 224_886, 0.2485, 0.0121),
        rotated("main_tlb_misses", "MAIN_TLB_MISS (0x0f)", 172_973, 0.2485, 0.118),
        rotated("branches", "BRANCH_EXEC (0x05)", 33_438_664, 0.2485, 0.0005),
        rotated("branch_misses", "BRANCH_MISPRED (0x06)", 366_383, 0.2485, 0.0204),
        missing(
            "l2_misses",
            Tier::Hw,
            "the ARM1176 has no event for its second level, which is outside the core",
            None,
        ),
    ];
    for event in &mut events {
        let value = event.count.as_number();
        event.per_unit = Some(match value {
            Some(value) => Figure::exact("events/unit", value / 27e6, event.count.tier, "by hand"),
            None => Figure::absent("events/unit", Tier::Hw, "by hand", "not counted"),
        });
    }
    let ratio = |unit: &str, value, error| within(unit, value, error, Tier::Hw);
    StatReport {
        unit_of_work: Some(UnitOfWork { name: "unit".to_owned(), count: exact(27e6, Tier::Sw) }),
        rotation: Some(RotationReport {
            sets: [
                ["instructions", "ibuf_stall_cycles"],
                ["l1d_accesses", "l1d_misses"],
                ["micro_tlb_misses", "main_tlb_misses"],
                ["branches", "branch_misses"],
            ]
            .map(|set| set.map(str::to_owned).to_vec())
            .to_vec(),
            slice_ns: 100_000_000,
            slices: 169,
            scaled_by: "cycles".to_owned(),
        }),
        metrics: rpistat_metrics(&ratio),
        ..report(Tier::Hw, &["./naive"], events)
    }
}

fn rpistat_metrics(ratio: &dyn Fn(&str, f64, f64) -> Figure) -> Vec<MetricValue> {
    let no_l2 = "needs l2_misses: the ARM1176 has no event for its second level, which is outside \
                 the core";
    let pti = |name, event, value, error| {
        let formula = format!("1000 * {event} / instructions");
        let figure = ratio("per thousand instructions", value, error);
        metric("rpistat", name, &formula, figure, "Rises when other work goes away.")
    };
    vec![
        metric(
            "rpistat",
            "cpi",
            "cycles / instructions",
            ratio("cycles per instruction", 9.473, 0.004),
            "How long an instruction takes on average. Says nothing of what it waits for.",
        ),
        metric(
            "rpistat",
            "ibuf_stall_percent",
            "100 * ibuf_stall_cycles / cycles",
            ratio("percent of cycles", 2.2056, 0.012),
            "Share of cycles in which the instruction buffer had nothing to deliver.",
        ),
        metric(
            "rpistat",
            "l1d_miss_percent",
            "100 * l1d_misses / l1d_accesses",
            ratio("percent of accesses", 20.484, 0.03),
            "On the ARM1176 only accesses that are not sequential count, so this is no miss ratio \
             of all loads and stores.",
        ),
        pti("micro_tlb_miss_pti", "micro_tlb_misses", 0.729, 0.012),
        pti("main_tlb_miss_pti", "main_tlb_misses", 0.5607, 0.12),
        pti("branch_pti", "branches", 108.396, 0.004),
        metric(
            "rpistat",
            "branch_miss_percent",
            "100 * branch_misses / branches",
            ratio("percent of branches", 1.0957, 0.02),
            "Share of branches that went where they were not expected to.",
        ),
        metric(
            "cache",
            "l1d_miss_pti",
            "1000 * l1d_misses / instructions",
            ratio("per thousand instructions", 3.027, 0.03),
            "Rises when work that is no miss goes away: read it with the misses per unit of work.",
        ),
        metric(
            "cache",
            "l2_miss_pti",
            "1000 * l2_misses / instructions",
            Figure::absent("per thousand instructions", Tier::Hw, "by hand", no_l2),
            "Misses that go to memory.",
        ),
    ]
}

/// Returns the same run without hardware counters.
pub(crate) fn without_pmu() -> StatReport {
    let reason = "the host of this virtual machine passes no hardware counters on";
    let fix = "linerate stat --tier sim -- ls -l";
    let mut events = vec![
        always("task_clock_ns", 1_234_567, Tier::Sw),
        always("context_switches", 3, Tier::Sw),
        always("migrations", 0, Tier::Sw),
        always("page_faults", 131, Tier::Sw),
    ];
    for name in ["cycles", "instructions", "branches", "branch_misses"] {
        events.push(missing(name, Tier::Sw, reason, Some(fix)));
    }
    let absent =
        |unit| Figure::absent(unit, Tier::Sw, "by hand", &format!("needs cycles: {reason}"));
    StatReport {
        elapsed_s: 0.001_712,
        is_known_processor: false,
        event_table: "generic".to_owned(),
        ended: Some(ExitStatus { status: Some(2), signal: None }),
        metrics: vec![
            metric(
                "default",
                "ipc",
                "instructions / cycles",
                absent("instructions/cycle"),
                "Work.",
            ),
            metric(
                "default",
                "cpi",
                "cycles / instructions",
                absent("cycles/instruction"),
                "Time.",
            ),
            metric(
                "default",
                "page_faults_per_s",
                "page_faults / task_clock_ns * 1e9",
                Figure::exact("1/s", 106_110.1, Tier::Sw, "by hand"),
                "Pages that were touched for the first time, or brought back.",
            ),
        ],
        ..report(Tier::Sw, &["ls", "-l"], events)
    }
}

/// Returns a repeated simulation, compared with a baseline.
pub(crate) fn simulated() -> StatReport {
    let not_simulated = "Valgrind simulates no address translation";
    let events = vec![
        always("instructions", 65_112_466, Tier::Sim),
        always("l1d_accesses", 23_512_006, Tier::Sim),
        always("l1d_misses", 1_717_903, Tier::Sim),
        missing("dtlb_misses", Tier::Sim, not_simulated, Some("linerate doctor")),
        missing("l2_misses", Tier::Sim, "not between the others", Some("-e l2_misses")),
        missing("l2_hits", Tier::Sim, "not between the others", Some("-e l2_hits")),
    ];
    let cache = |bytes, ways| CacheShape { bytes, ways, line_bytes: 64 };
    let change = |name: &str, before: f64, now: f64, is_regression| BaselineChange {
        name: name.to_owned(),
        before: Some(before),
        now: Some(now),
        change: (before != 0.0).then(|| now / before - 1.0),
        is_regression,
        judged: Judged::Yes,
    };
    let unjudged = |judged, change| BaselineChange { judged, ..change };
    StatReport {
        tier_asked: true,
        elapsed_s: 4.31,
        repetitions: 3,
        caches: Some(SimulatedCaches {
            name: "this machine".to_owned(),
            i1: cache(32 << 10, 8),
            d1: cache(32 << 10, 8),
            ll: cache(32 << 20, 16),
            note: "the last level has 33 MiB, taken as 32: the simulator knows powers of two only"
                .to_owned(),
            machine: None,
        }),
        baseline: vec![
            change("instructions", 65_000_000.0, 65_112_466.0, true),
            change("l1d_accesses", 23_512_006.0, 23_512_006.0, false),
            change("l1d_misses", 1_717_904.0, 1_717_903.0, false),
            change("ll_misses", 0.0, 12.0, true),
            unjudged(Judged::NoCost, change("l1d_miss_ratio", 0.07, 0.08, false)),
            unjudged(Judged::NoInterval, change("page_faults", 70.0, 70.0, false)),
            BaselineChange {
                now: None,
                change: None,
                ..unjudged(Judged::NotCountedNow, change("dtlb_misses", 9.0, 9.0, false))
            },
        ],
        environment: Some(Environment { variables: 35, bytes: 2144 }),
        baseline_of: Some(BaselineOf {
            target: StatTarget::Command { argv: vec!["other".to_owned()] },
            tier: Tier::Hw,
            caches: None,
            environment: Some(Environment { variables: 5, bytes: 144 }),
        }),
        ..report(Tier::Sim, &["matmul", "naive", "300"], events)
    }
}

/// Returns counts by function: two of the program, and 30 of its library.
pub(crate) fn hot() -> HotSpots {
    let line = |line, counts: [u64; 2]| HotLine {
        file: "/src/matmul.c".to_owned(),
        line,
        counts: counts.to_vec(),
    };
    let function = |name: &str, module: &str, counts: [u64; 2], lines| HotFunction {
        name: name.to_owned(),
        module: module.to_owned(),
        counts: counts.to_vec(),
        lines,
    };
    let mut functions = vec![
        function(
            "multiply",
            "matmul",
            [60_000_000, 1_700_000],
            vec![line(31, [20_000_000, 1_600_000]), line(30, [40_000_000, 100_000])],
        ),
        function("fill\x1b[1m", "matmul", [5_000_000, 16_903], vec![line(12, [10, 16_903])]),
    ];
    for number in 0..30 {
        let misses = if number < 25 { 40 - number } else { 0 };
        let name = format!("function_{number}_of_a_library");
        functions.push(function(&name, "libc.so.6", [3000, misses], Vec::new()));
    }
    let total = |place: usize| functions.iter().map(|function| function.counts[place]).sum();
    HotSpots {
        by: "l1d_misses".to_owned(),
        events: vec!["instructions".to_owned(), "l1d_misses".to_owned()],
        totals: vec![total(0), total(1)],
        functions,
        unread: vec![Unread {
            what: "lines".to_owned(),
            reason: "no source lines for libc.so.6: the file has no line tables".to_owned(),
            fix: None,
        }],
    }
}

/// Returns the counts of a process over time, by thread.
pub(crate) fn rows() -> StatReport {
    let mut report = turns();
    report.target = StatTarget::Process { pid: 4711 };
    report.ended = None;
    report.interrupted = true;
    report.unit_of_work = None;
    report.metrics.clear();
    let counts = |share: f64| -> Vec<Figure> {
        let scaled = |figure: &Figure| match (figure.as_number(), figure.low) {
            (Some(value), Some(_)) => within("events", value * share, 0.03, figure.tier),
            (Some(value), None) => exact(value * share, figure.tier),
            (None, _) => figure.clone(),
        };
        report.events.iter().map(|event| scaled(&event.count)).collect()
    };
    let first = IntervalCounts { from_s: 0.0, to_s: 8.0, counts: counts(0.4) };
    let mut second = IntervalCounts { from_s: 8.0, to_s: 16.9, counts: counts(0.6) };
    second.counts[3] = Figure::absent("events", Tier::Hw, "by hand", "too few slices");
    let thread =
        |tid, name: &str, share| ThreadCounts { tid, name: name.to_owned(), counts: counts(share) };
    let threads = vec![thread(4711, "naive", 0.9), thread(4712, "wor\x1bker", 0.1)];
    StatReport { intervals: vec![first, second], threads, ..report }
}

/// Returns the counts of a command that was run repeatedly and killed: medians with intervals, no
/// scaling.
pub(crate) fn repeated() -> StatReport {
    let runs = |name: &str, value: f64, share: f64| EventCount {
        raw: None,
        count: within("events", value, share, Tier::Hw),
        ..always(name, 0, Tier::Hw)
    };
    StatReport {
        repetitions: 12,
        tier_asked: true,
        is_known_processor: false,
        event_table: "generic".to_owned(),
        ended: Some(ExitStatus { status: None, signal: Some(9) }),
        ..report(
            Tier::User,
            &["sh", "-c", "kill -9 $$"],
            vec![runs("instructions", 1_203_441.5, 0.0003), runs("page_faults", 0.0, 0.0)],
        )
    }
}
