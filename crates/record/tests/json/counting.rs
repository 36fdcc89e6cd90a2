// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hand-written `stat`, `doctor` and `regions` records, and the fields that scripts may rely on.

use crate::example;
use linerate_record::doctor::{DoctorReport, Observation, Section, TierState, Verdict};
use linerate_record::regions::{RegionEvent, RegionReport, RegionsReport};
use linerate_record::stat::{
    BaselineChange, BaselineOf, CacheShape, Environment, EventCount, ExitStatus, HotFunction,
    HotLine, HotSpots, IntervalCounts, Judged, MetricValue, RotationReport, SimulatedCaches,
    StatReport, StatTarget, ThreadCounts, UnitOfWork,
};
use linerate_record::stats::Estimate;
use linerate_record::why::Unread;
use linerate_record::{Body, Figure, Record, Tier, Warning};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const REASON: &str = "the host passes no counters on";

fn scaled(value: f64) -> Figure {
    let estimate =
        Estimate { value, low: value * 0.99, high: value * 1.01, confidence: 0.95, n: 40 };
    Figure::number("events", estimate, Tier::Hw, "scaled")
}

fn absent() -> Figure {
    Figure::absent("events", Tier::Hw, "perf events", REASON)
}

fn events() -> Vec<EventCount> {
    let instructions = EventCount {
        name: "instructions".to_owned(),
        native: Some("INST_RETIRED (0x08)".to_owned()),
        raw: Some(u64::MAX),
        count: scaled(4e19),
        duty: Some(0.25),
        periods: Some(40),
        per_unit: Some(scaled(12.5)),
        fix: None,
    };
    let missing = EventCount {
        name: "cycles".to_owned(),
        native: None,
        raw: None,
        count: absent(),
        duty: None,
        periods: None,
        per_unit: Some(absent()),
        fix: Some("linerate stat --tier sim -- true".to_owned()),
    };
    vec![instructions, missing]
}

fn stat_report() -> StatReport {
    let cache = CacheShape { bytes: 32_768, ways: 8, line_bytes: 64 };
    StatReport {
        times: BTreeMap::from([(
            "elapsed_s".to_owned(),
            Figure::exact("s", 0.001_25, Tier::Sw, "clock"),
        )]),
        remarks: vec![Warning::UnfinishedProcesses { processes: 1 }],
        target: StatTarget::Command { argv: vec!["true".to_owned()] },
        tier: Tier::Hw,
        tier_asked: false,
        event_table: "armv8".to_owned(),
        is_known_processor: true,
        caches: Some(SimulatedCaches {
            name: "arm1176".to_owned(),
            i1: cache,
            d1: cache,
            ll: cache,
            note: String::new(),
            machine: None,
        }),
        elapsed_s: 0.001_25,
        ended: Some(ExitStatus { status: None, signal: Some(9) }),
        interrupted: true,
        is_time_up: true,
        environment: Some(Environment { variables: 35, bytes: 2144 }),
        repetitions: 2,
        unit_of_work: Some(UnitOfWork { name: "unit".to_owned(), count: scaled(1e6) }),
        rotation: Some(RotationReport {
            sets: vec![vec!["instructions".to_owned(), "cycles".to_owned()]],
            slice_ns: 4_000_000,
            slices: 160,
            scaled_by: "time".to_owned(),
        }),
        events: events(),
        metrics: vec![MetricValue {
            name: "ipc".to_owned(),
            set: "pipeline".to_owned(),
            formula: "instructions / cycles".to_owned(),
            figure: absent(),
            prose: "Work per cycle.".to_owned(),
        }],
        intervals: vec![IntervalCounts {
            from_s: 0.0,
            to_s: 0.1,
            counts: vec![scaled(5.0), absent()],
        }],
        threads: vec![ThreadCounts {
            tid: 77,
            name: "true".to_owned(),
            counts: vec![scaled(5.0), absent()],
        }],
        baseline: vec![BaselineChange {
            name: "instructions".to_owned(),
            before: Some(0.0),
            now: Some(4e19),
            change: None,
            is_regression: true,
            judged: Judged::Yes,
        }],
        baseline_of: Some(BaselineOf {
            target: StatTarget::Command { argv: vec!["false".to_owned()] },
            tier: Tier::Sim,
            caches: None,
            environment: None,
        }),
        hot: Some(hot()),
    }
}

fn hot() -> HotSpots {
    let function = HotFunction {
        name: "walk".to_owned(),
        module: "true".to_owned(),
        counts: vec![u64::MAX, 0],
        lines: vec![HotLine { file: "walk.c".to_owned(), line: 7, counts: vec![4, 0] }],
    };
    HotSpots {
        by: "l1d_misses".to_owned(),
        events: vec!["l1d_misses".to_owned(), "instructions".to_owned()],
        totals: vec![u64::MAX, 0],
        functions: vec![function],
        unread: vec![Unread {
            what: "lines".to_owned(),
            reason: "libc.so.6 has no line tables".to_owned(),
            fix: None,
        }],
    }
}

pub(crate) fn stat() -> Record {
    example::record(Body::Stat(Box::new(stat_report())))
}

pub(crate) fn doctor() -> Record {
    let tiers = vec![
        TierState {
            tier: Tier::Hw,
            way: Some("registers".to_owned()),
            works: false,
            sentence: REASON.to_owned(),
            cause: Some("no_virtual_pmu".to_owned()),
            fix: None,
        },
        TierState {
            tier: Tier::Sw,
            way: None,
            works: true,
            sentence: "events of the kernel".to_owned(),
            cause: None,
            fix: None,
        },
    ];
    let observation = |section, verdict, value: Option<&str>| Observation {
        section,
        name: "governor".to_owned(),
        verdict,
        value: value.map(str::to_owned),
        sentence: "the clock moves with the load".to_owned(),
        fix: Some("cpupower frequency-set -g performance".to_owned()),
    };
    let observations = vec![
        observation(Section::Processor, Verdict::Advice, Some("schedutil")),
        observation(Section::Topology, Verdict::Fact, Some("2")),
        observation(Section::Counters, Verdict::Missing, None),
        observation(Section::DataPlane, Verdict::Unknown, None),
        observation(Section::DataPlane, Verdict::Good, Some("0")),
    ];
    let report = DoctorReport { tiers, best_tier: Tier::Sw, observations };
    example::record(Body::Doctor(Box::new(report)))
}

pub(crate) fn regions() -> Record {
    let region = RegionReport {
        name: "poll/parse".to_owned(),
        tid: 77,
        visits: 1_000_000,
        units: 0,
        ticks: Figure::exact("ticks", 4e8, Tier::Sw, "timestamp counter"),
        own_ticks: Figure::exact("ticks", 3e8, Tier::Sw, "timestamp counter"),
        events: vec![RegionEvent { name: "instructions".to_owned(), count: absent() }],
        is_sampled: false,
        verdict: "cannot tell: shorter than ten times what measuring it costs".to_owned(),
    };
    let report = RegionsReport {
        tier: Tier::Sw,
        reading: "timestamp counter only".to_owned(),
        own_ticks: Figure::exact("ticks", 52.0, Tier::Sw, "empty regions"),
        regions: vec![region],
    };
    example::record(Body::Regions(Box::new(report)))
}

fn json_of(record: &Record) -> Value {
    serde_json::from_str(&record.to_json_pretty().unwrap()).unwrap()
}

#[test]
fn kinds_have_their_names() {
    let kinds = [stat(), doctor(), regions()].map(|record| json_of(&record)["kind"].clone());
    assert_eq!(kinds, [json!("stat"), json!("doctor"), json!("regions")]);
}

#[test]
fn a_missing_count_is_null_with_a_reason() {
    let value = json_of(&stat());
    let event = &value["events"][1];
    for field in ["raw", "duty", "periods", "native"] {
        assert!(event.as_object().unwrap()[field].is_null(), "{field}: {event}");
    }
    for figure in [&event["count"], &value["figures"]["cycles"], &value["metrics"][0]["figure"]] {
        assert_eq!((&figure["value"], &figure["reason"]), (&Value::Null, &json!(REASON)));
        assert_eq!(figure["n"], 0);
    }
    assert_eq!(value["summary"].as_object().unwrap()["cycles"], Value::Null);
}

#[test]
fn counts_of_64_bits_keep_their_digits() {
    assert_eq!(json_of(&stat())["events"][0]["raw"], json!(u64::MAX));
}

#[test]
fn targets_say_what_they_are() {
    let target = |target: StatTarget| {
        let body = Body::Stat(Box::new(StatReport { target, ..stat_report() }));
        json_of(&example::record(body))["target"].clone()
    };
    let argv = vec!["ls".to_owned()];
    assert_eq!(target(StatTarget::Command { argv }), json!({"what": "command", "argv": ["ls"]}));
    assert_eq!(target(StatTarget::Process { pid: 7 }), json!({"what": "process", "pid": 7}));
    assert_eq!(
        target(StatTarget::Cpus { cpus: vec![0, 3] }),
        json!({"what": "cpus", "cpus": [0, 3]})
    );
}

#[test]
fn times_that_are_none_never_reach_json() {
    let changes: [fn(&mut StatReport); 4] = [
        |report| report.elapsed_s = f64::NAN,
        |report| report.intervals[0].to_s = f64::INFINITY,
        |report| report.baseline[0].before = Some(f64::NAN),
        |report| report.events[0].count.value = linerate_record::Scalar::Number(f64::NAN),
    ];
    let fields = ["elapsed_s", "intervals[0].to_s", "baseline[0].before", "summary.instructions"];
    for (change, field) in changes.into_iter().zip(fields) {
        let mut report = stat_report();
        change(&mut report);
        let record = example::record(Body::Stat(Box::new(report)));
        assert_eq!(record.to_json_pretty().unwrap_err().field, field);
    }
}
