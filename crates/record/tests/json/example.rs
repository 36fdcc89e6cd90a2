// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records made by hand, with every kind of value in them.

use linerate_record::run::{
    Latency, Ledger, RingReport, RunReport, StageReport, StrandReport, Tally, TimeShares,
    WindowCount,
};
use linerate_record::stats::Estimate;
use linerate_record::tune::{Candidate, Finding, Limit, RuledOut, TuneReport};
use linerate_record::{Body, Figure, Provenance, Record, Tier, Warning};
use std::collections::BTreeMap;

fn figure(unit: &str, value: f64) -> Figure {
    let (low, high) = (value * 0.98, value / 0.99);
    let estimate = Estimate { value, low, high, confidence: 0.9, n: 731 };
    Figure::number(unit, estimate, Tier::Sw, "median of clean windows")
}

fn stage(name: &str) -> StageReport {
    let input = Tally { packets: 1000, octets: 64_000 };
    let drop = Tally { packets: 7, octets: 448 };
    StageReport {
        name: name.to_owned(),
        packets: 1000,
        kpps: Some(1234.5),
        ticks_per_packet: figure("ticks/packet", 211.3),
        cycles_per_packet: Figure::absent("cycles/packet", Tier::Sw, "chase", "the clock moved"),
        busy: Some(0.91),
        starved: Some(0.02),
        blocked: None,
        empty_polls: 12,
        drops: BTreeMap::from([("bad checksum".to_owned(), 7)]),
        ledger: Ledger {
            input,
            output: Tally { packets: 993, octets: 63_552 },
            drops: BTreeMap::from([("bad checksum".to_owned(), drop)]),
            ..Ledger::default()
        },
        counts: BTreeMap::from([("rule 1".to_owned(), 5)]),
    }
}

pub(crate) fn run_report() -> RunReport {
    RunReport {
        path: "edge \"north\"".to_owned(),
        mapping: "parse | verify".to_owned(),
        seconds: 2.0,
        ticks_per_second: 2.4e9,
        throughput_kpps: figure("kpps", 1234.5),
        processed_kpps: figure("kpps", 1250.25),
        line_rate_kpps: None,
        strands: vec![StrandReport {
            name: "0.0".to_owned(),
            cpu: 2,
            segment: 0,
            replica: 0,
            stages: vec![stage("parse"), stage("verify")],
            time: Some(TimeShares {
                busy: 0.93,
                starved: 0.02,
                blocked: 0.0,
                lost: 0.04,
                unaccounted: 0.01,
            }),
            run_delay_ns: Some(u64::MAX),
            lost_ns: 80_000_000,
            ticks_per_packet: figure("ticks/packet", 422.6),
            empty_polls: 12,
            burst_sizes: vec![0, 1, 5, 9],
            windows: WindowCount { total: 1900, lost_to_preemption: 55 },
            involuntary_switches: 61,
            cpu_ns: 2_061_000_000,
        }],
        rings: vec![RingReport {
            name: "0.0 > 1.0".to_owned(),
            capacity: 1024,
            occupancy: vec![5, 4, 3, 2, 1, 0, 0, 0, 0, 0, 9],
            full_pushes: 3,
            held: 0,
        }],
        latency: Latency {
            p50: figure("ns", 812.0),
            p99: figure("ns", 12_000.0),
            p999: Figure::absent("ns", Tier::Sw, "sampled", "too few samples"),
        },
        rejected: BTreeMap::from([("cut header".to_owned(), 4)]),
        interrupted: false,
    }
}

fn record(body: Body) -> Record {
    Record {
        provenance: Provenance {
            program: "linerate 0.1.0".to_owned(),
            commit: None,
            compiler: "rustc 1.85.0".to_owned(),
            command: "linerate run edge.toml".to_owned(),
            unix_seconds: 1_790_000_000,
            architecture: "x86_64".to_owned(),
            cpu: Some("a processor".to_owned()),
            cpus: vec![0, 1],
            kernel: Some("Linux 6.1".to_owned()),
            hypervisor: None,
            emulated: Some(false),
            load_1min: Some(0.1),
            ticks_per_second: Some(2.4e9),
        },
        figures: BTreeMap::from([
            ("throughput_kpps".to_owned(), figure("kpps", 1234.5)),
            ("finding".to_owned(), Figure::text("verify is the bottleneck", Tier::Sw, "profile")),
            ("line_rate_kpps".to_owned(), Figure::absent("kpps", Tier::Model, "line", "no [line]")),
            ("third".to_owned(), Figure::exact("ratio", 1.0 / 3.0, Tier::Sw, "division")),
        ]),
        warnings: vec![Warning::Emulated, Warning::NotIdle { share: 0.25 }],
        body,
    }
}

pub(crate) fn run() -> Record {
    record(Body::Run(Box::new(run_report())))
}

pub(crate) fn tune() -> Record {
    record(Body::Tune(Box::new(TuneReport {
        given_mapping: "parse | verify | nat44".to_owned(),
        baseline_mapping: "parse | verify".to_owned(),
        baseline: run_report(),
        baseline_kpps: figure("kpps", 1240.0),
        finding: Finding {
            limit: Limit::Processing,
            bottleneck: Some("verify".to_owned()),
            strand: Some("1.0".to_owned()),
            sentence: "verify takes 211 of 422 ticks".to_owned(),
        },
        candidates: vec![Candidate {
            name: "merge and replicate x2".to_owned(),
            mapping: "parse+verify x2".to_owned(),
            burst: 32,
            predicted_kpps: Figure::exact("kpps", 2400.0, Tier::Model, "service times"),
            memory_bound: false,
            measured_kpps: Some(figure("kpps", 2310.0)),
            speedup: None,
        }],
        ruled_out: vec![RuledOut { name: "split".to_owned(), reason: "too few CPUs".to_owned() }],
        chosen: Some(0),
        tuned: run_report(),
        rounds: 7,
    })))
}
