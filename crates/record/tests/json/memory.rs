// SPDX-License-Identifier: MIT OR Apache-2.0
//! A hand-written `memory` record, and the field names that scripts may rely on.

use crate::example;
use linerate_record::memory::{
    Bandwidth, Bin, ChainsPoint, Conditions, Cost, Curve, CurvePoint, Effort, EventOfChase,
    EventsOfSize, Histogram, LoadedLatency, MemoryLevel, MemoryReport, Mode, Noise, Operation,
    Order, OsVerdict, OsView, PageKind, Pages, PagesVerdict, Parallelism, Timer, TlbLevel,
    TlbState, Unresolved,
};
use linerate_record::stats::Estimate;
use linerate_record::{Body, Figure, Record, Tier};
use serde_json::{Value, json};

fn figure(unit: &str, value: f64) -> Figure {
    let estimate =
        Estimate { value, low: value / 2.0, high: f64::INFINITY, confidence: 0.95, n: 5 };
    Figure::number(unit, estimate, Tier::Sw, "fastest windows")
}

fn absent(unit: &str) -> Figure {
    Figure::absent(unit, Tier::Sw, "fastest windows", "the plateau moved")
}

fn conditions() -> Conditions {
    Conditions {
        effort: Effort::Full,
        elapsed_s: 58.5,
        cpu: 3,
        cpus: vec![1, 3],
        line_bytes: 64,
        max_bytes: 1 << 40,
        max_reason: "--max".to_owned(),
        load_before: Some(0.25),
        load_after: None,
        windows: u64::MAX,
        windows_dropped: 7,
        interrupted: true,
    }
}

fn timer() -> Timer {
    Timer {
        source: "cntvct".to_owned(),
        invariant: None,
        rate_ghz: figure("GHz", 0.0192),
        step_ns: figure("ns", 52.0),
        overhead_ns: absent("ns"),
        core_ghz: figure("GHz", 1.5),
    }
}

fn pages() -> Pages {
    Pages {
        base_bytes: 4096,
        huge_bytes: Some(2 << 20),
        used: PageKind::Huge,
        granted: figure("ratio", 0.75),
        time_ratio: absent("ratio"),
        verdict: PagesVerdict::NotGranted,
        sentence: "a quarter was not given".to_owned(),
    }
}

fn curves() -> Vec<Curve> {
    let point = CurvePoint {
        bytes: 4096,
        lines: 64,
        loads: 1 << 33,
        elapsed_s: 0.1,
        passes_ns: vec![1.0 / 3.0, 1.25],
        passes_ghz: Vec::new(),
        latency_ns: figure("ns", 1.0 / 3.0),
        cycles: absent("cycles"),
        windows: 11,
        windows_dropped: 2,
    };
    let curve = |order, pages| Curve { order, pages, points: vec![point.clone()] };
    vec![
        curve(Order::PageLocal, PageKind::Huge),
        curve(Order::Random, PageKind::Base),
        curve(Order::Sequential, PageKind::Huge),
    ]
}

fn levels() -> Vec<MemoryLevel> {
    let level = MemoryLevel {
        name: "L1".to_owned(),
        size_bytes: figure("B", 32_768.0),
        latency_ns: figure("ns", 2.5),
        latency_cycles: figure("cycles", 4.0),
        settled: true,
        note: None,
    };
    let memory = MemoryLevel {
        name: "memory".to_owned(),
        size_bytes: absent("B"),
        latency_cycles: absent("cycles"),
        settled: false,
        note: Some("two plateaus".to_owned()),
        ..level.clone()
    };
    vec![level, memory]
}

fn tlb() -> Vec<TlbLevel> {
    vec![TlbLevel {
        name: "L2 dTLB".to_owned(),
        pages: PageKind::Base,
        entries: absent("pages"),
        onset: figure("pages", 2230.0),
        half: figure("pages", 4096.0),
        cost_ns: figure("ns", 12.5),
        cost_cycles: absent("cycles"),
        note: Some("it climbs".to_owned()),
    }]
}

fn costs() -> Vec<Cost> {
    let cost = |tlb| Cost {
        level: "L1".to_owned(),
        tlb,
        ns: figure("ns", 2.5),
        cycles: absent("cycles"),
        overlapped_ns: figure("ns", 0.5),
    };
    [TlbState::Hit, TlbState::MissL1, TlbState::Walk].map(cost).to_vec()
}

fn histograms() -> Vec<Histogram> {
    vec![Histogram {
        bytes: 4096,
        level: None,
        samples: 9,
        bias_ns: figure("ns", 22.7),
        bins: vec![
            Bin { from_ns: -10.0, to_ns: Some(0.0), count: 8 },
            Bin { from_ns: 0.0, to_ns: None, count: 1 },
        ],
        modes: vec![Mode {
            name: Some("L1".to_owned()),
            ns: 2.5,
            low_ns: None,
            high_ns: None,
            share: 8.0 / 9.0,
        }],
        slope_ns: absent("ns"),
    }]
}

fn bandwidth() -> Vec<Bandwidth> {
    let row = |operation| Bandwidth {
        level: "memory".to_owned(),
        bytes: 1 << 28,
        operation,
        threads: 2,
        gb_per_s: figure("GB/s", 31.5),
        bound: absent("GB/s"),
    };
    [Operation::Read, Operation::Write, Operation::Copy].map(row).to_vec()
}

fn os_view() -> Vec<OsView> {
    use OsVerdict::{Agrees, CannotTell, Larger, NotStated, Smaller, Unseen};
    let view = |verdict| OsView {
        name: "L3".to_owned(),
        stated_bytes: (verdict != NotStated).then_some(32 << 20),
        found_bytes: figure("B", 7.5e6),
        verdict,
        sentence: "only 7.15 MiB available now".to_owned(),
    };
    [Agrees, Smaller, Larger, Unseen, NotStated, CannotTell].map(view).to_vec()
}

fn events() -> Vec<EventsOfSize> {
    let event = |plausible, doubt: Option<&str>| EventOfChase {
        event: "loads".to_owned(),
        per_load: figure("1/load", 0.18),
        plausible,
        doubt: doubt.map(str::to_owned),
    };
    let events = vec![event(Some(false), Some("less than 1")), event(None, None)];
    vec![EventsOfSize { bytes: 4096, loads: 1 << 20, events }]
}

fn memory_report() -> MemoryReport {
    MemoryReport {
        conditions: conditions(),
        timer: timer(),
        pages: pages(),
        curves: curves(),
        levels: levels(),
        unresolved: vec![Unresolved {
            from_bytes: 4 << 20,
            to_bytes: 9 << 20,
            cause: "moved".to_owned(),
            sentence: "measure again".to_owned(),
        }],
        resolution: 2.0,
        tlb: tlb(),
        costs: costs(),
        histograms: histograms(),
        parallelism: vec![Parallelism {
            level: "L1".to_owned(),
            bytes: 16_384,
            points: vec![ChainsPoint { chains: 32, ns_per_load: figure("ns", 0.5) }],
            outstanding: figure("loads", 5.0),
        }],
        bandwidth: bandwidth(),
        loaded: vec![LoadedLatency {
            threads: 1,
            duty: 0.5,
            gb_per_s: absent("GB/s"),
            latency_ns: figure("ns", 143.0),
        }],
        noise: Noise {
            elapsed_s: 3.0,
            lost: figure("ratio", 0.045),
            gaps_per_s: figure("1/s", 412.0),
            longest_us: figure("us", 22_500.0),
            gaps: vec![Bin { from_ns: 1000.0, to_ns: None, count: 1236 }],
            stolen: absent("ratio"),
            others: absent("ratio"),
            quota_cpus: None,
        },
        os_view: os_view(),
        events: events(),
        events_reason: None,
    }
}

pub(crate) fn memory() -> Record {
    example::record(Body::Memory(Box::new(memory_report())))
}

fn written() -> Value {
    serde_json::from_str(&memory().to_json_pretty().unwrap()).unwrap()
}

/// The summary has the names that scripts may rely on.
#[test]
fn the_summary_has_the_hierarchy() {
    let value = written();
    assert_eq!(value["kind"], "memory");
    let summary = &value["summary"];
    assert_eq!(
        summary["levels"],
        json!([
            {
                "name": "L1", "size_bytes": 32768.0, "size_low": 16384.0, "size_high": null,
                "latency_ns": 2.5, "latency_cycles": 4.0, "low": 1.25, "high": null,
            },
            {
                "name": "memory", "size_bytes": null, "size_low": null, "size_high": null,
                "latency_ns": 2.5, "latency_cycles": null, "low": 1.25, "high": null,
            },
        ])
    );
    let tlb = json!([{
        "name": "L2 dTLB", "pages": "base", "entries": null, "onset": 2230.0, "half": 4096.0,
        "cost_ns": 12.5, "cost_cycles": null,
    }]);
    assert_eq!(summary["tlb"], tlb);
    let pages = json!({
        "base_bytes": 4096, "huge_bytes": 2_097_152, "granted": 0.75, "verdict": "not_granted",
    });
    assert_eq!(summary["pages"], pages);
    let noise = json!({"elapsed_s": 3.0, "lost": 0.045, "longest_us": 22_500.0, "load": 0.25});
    assert_eq!(summary["noise"], noise);
    let timer = json!({"source": "cntvct", "step_ns": 52.0, "overhead_ns": null, "core_ghz": 1.5});
    assert_eq!(summary["timer"], timer);
    let verdict = |view: &Value| view["verdict"].as_str().map(str::to_owned);
    let verdicts: Vec<_> = summary["os_view"].as_array().unwrap().iter().map(verdict).collect();
    let expected = ["agrees", "smaller", "larger", "unseen", "not_stated", "cannot_tell"];
    assert_eq!(verdicts, expected.map(|word| Some(word.to_owned())));
    assert_eq!(summary["core_ghz"], timer["core_ghz"], "figures are next to it");
}

#[test]
fn the_curves_have_their_points() {
    let value = written();
    let orders: Vec<&Value> =
        value["curves"].as_array().unwrap().iter().map(|curve| &curve["order"]).collect();
    assert_eq!(orders, ["page_local", "random", "sequential"]);
    let point = &value["curves"][0]["points"][0];
    assert_eq!(point["passes_ns"], json!([1.0 / 3.0, 1.25]));
    assert_eq!(point["cycles"]["reason"], "the plateau moved");
    assert_eq!(value["histograms"][0]["bins"][1]["to_ns"], json!(null));
}

#[test]
fn a_nan_time_is_never_written_to_json() {
    let places: [fn(&mut MemoryReport); 4] = [
        |report| report.curves[0].points[0].passes_ns[1] = f64::NAN,
        |report| report.curves[2].points[0].passes_ghz = vec![f64::INFINITY],
        |report| report.histograms[0].bins[0].from_ns = f64::NAN,
        |report| report.loaded[0].duty = f64::NAN,
    ];
    for change in places {
        let mut report = memory_report();
        change(&mut report);
        let record = example::record(Body::Memory(Box::new(report)));
        assert!(record.to_json_pretty().is_err());
    }
}
