// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests writing and reading back a synthetic tuning record.

use super::*;
use crate::predict::Predicted;
use linerate_path::model::{Mapping, Segment};
use linerate_record::run::{RunReport, StageReport, TimeShares, WorkerReport};
use linerate_record::stats::CONFIDENCE;
use linerate_record::{Provenance, Record, fixtures};
use std::collections::BTreeMap;

const STAGES: [&str; 4] = ["parse", "verify", "nat44", "count"];

fn about(value: f64) -> Estimate {
    Estimate { value, low: 0.93 * value, high: 1.1 * value, confidence: CONFIDENCE, n: 30 }
}

fn ticks(value: f64) -> Figure {
    Figure::number("ticks/packet", about(value), Tier::Sw, "synthetic")
}

fn kpps(value: f64) -> Figure {
    Figure::number("kpps", about(value), Tier::Sw, "synthetic")
}

fn worker(segment: u32, stages: &[&str]) -> WorkerReport {
    let stage = |name: &&str| StageReport {
        name: (*name).to_owned(),
        packets: 100_000,
        drops: BTreeMap::new(),
        ticks_per_packet: ticks(70.0),
        kernels: None,
        ..fixtures::stage()
    };
    WorkerReport {
        name: format!("{segment}.0"),
        segment,
        stages: stages.iter().map(stage).collect(),
        time: Some(TimeShares { busy: 1.0, ..TimeShares::default() }),
        ticks_per_packet: ticks(70.0 * stages.len() as f64),
        ..fixtures::worker()
    }
}

/// Returns the run of a baseline with two workers of two stages each.
fn baseline() -> RunReport {
    RunReport {
        mapping: "parse+verify | nat44+count".to_owned(),
        workers: vec![
            worker(0, &["source", "parse", "verify", "ring out"]),
            worker(1, &["ring in", "nat44", "count", "sink"]),
        ],
        ..fixtures::run()
    }
}

fn cost(name: &str, value: f64, hot: Option<f64>) -> StageCost {
    let hot_ticks = hot.map(about);
    StageCost { name: name.to_owned(), ticks: about(value), reach: 0.9, hot_ticks }
}

/// Returns a calibration with one memory-bound stage, in which the interval of the burst cost has
/// no upper end.
fn calibrated() -> Calibration {
    let costs = Costs {
        source: cost("source", 41.3, None),
        stages: STAGES.map(|name| cost(name, 61.7, (name == "nat44").then_some(11.9))).to_vec(),
        sink: cost("sink", 20.1, None),
        burst: 32,
        workers: 2,
    };
    let machine = Environment {
        ticks_per_s: 2.5e9,
        cpus: 4,
        scaling: Calibration::scaling(),
        handover: Handover { producer_ticks: about(17.3), consumer_ticks: about(29.1), burst: 32 },
        burst_ticks: Estimate { high: f64::INFINITY, ..about(1310.7) },
        drift: 0.02,
        largest_share: vec![1.0, 0.53, 0.37, 0.29],
    };
    Calibration { costs, machine, kernels: "portable".to_owned() }
}

fn shape() -> PathShape {
    let state = |name: &str| if name == "count" { State::Global } else { State::PerFlow };
    let stages = STAGES.map(|name| (name.to_owned(), state(name))).to_vec();
    PathShape { stages, ring: 1024 }
}

fn mapping() -> Mapping {
    let segment = |stages| Segment { stages, replicas: 1, cpus: Vec::new() };
    Mapping { segments: vec![segment(0..2), segment(2..4)] }
}

/// Returns the predictions and the report of a tuning session that was stopped before its rounds.
fn tuned() -> (Predicted, TuneReport) {
    let measured = Measured::explain(mapping(), baseline());
    let predicted = predict(&shape(), &measured, &calibrated(), None);
    let report = TuneReport {
        candidates: predicted.candidates(&shape()),
        ruled_out: predicted.ruled_out.clone(),
        calibration: Some(recorded(&calibrated(), &shape())),
        ..measured.untried()
    };
    (predicted, report)
}

fn body(report: &TuneReport) -> Body {
    Body::Tune(Box::new(report.clone()))
}

/// Returns the report's body after writing and reading it back.
fn stored(report: &TuneReport) -> Body {
    let record = Record { provenance: Provenance::default(), body: body(report) };
    let json = record.to_json_pretty().expect("the record can be written");
    Record::from_json(&json).expect("the record can be read").body
}

#[test]
fn a_record_predicts_what_the_tuning_predicted() {
    let (predicted, report) = tuned();
    assert!(predicted.proposals.len() > 3 && !predicted.ruled_out.is_empty(), "{predicted:?}");
    let again = from_record(&stored(&report), "tune.json").expect("the record has a calibration");
    assert_eq!(again.candidates, report.candidates);
    assert_eq!(again.predicted_from.as_deref(), Some("tune.json"));
    assert_eq!(again, TuneReport { predicted_from: again.predicted_from.clone(), ..report });
}

#[test]
fn other_kernels_are_among_the_predictions() {
    let (_, report) = tuned();
    assert!(report.candidates.iter().any(|one| one.name == "kernels portable only"));
}

#[test]
fn what_was_measured_in_rounds_is_not_predicted() {
    let (_, mut report) = tuned();
    report.candidates[0].measured_kpps = Some(kpps(2000.0));
    let measured = TuneReport { rounds: 8, chosen: Some(0), ..report };
    let again = from_record(&stored(&measured), "tune.json").expect("the record has a calibration");
    assert_eq!((again.rounds, again.chosen), (0, None));
    assert!(again.candidates.iter().all(|one| one.measured_kpps.is_none()));
}

#[test]
fn names_what_the_record_lacks() {
    let lacking = |body: &Body| from_record(body, "x.json").expect_err("the record is incomplete");
    let run = lacking(&Body::Run(Box::new(baseline())));
    assert_eq!(run, Lacking::Run);
    assert!(run.to_string().contains("ring and burst costs"), "{run}");
    let (_, report) = tuned();
    let none = TuneReport { calibration: None, ..report.clone() };
    assert_eq!(lacking(&body(&none)), Lacking::Calibration);
    let with = |change: fn(&mut CalibrationReport)| {
        let mut report = report.clone();
        report.calibration.as_mut().map(change).expect("the report has a calibration");
        lacking(&body(&report))
    };
    let ring = Lacking::Figure { name: "ring_out".to_owned(), reason: "too few".to_owned() };
    assert_eq!(with(|all| all.ring_out = Figure::absent("", Tier::Sw, "", "too few")), ring);
    assert!(matches!(with(|all| all.stages.truncate(3)), Lacking::Whole { .. }));
    assert!(matches!(with(|all| all.cpus = 1), Lacking::Whole { .. }));
    assert!(matches!(with(|all| all.cpus = u32::MAX), Lacking::Whole { .. }));
    assert!(matches!(with(|all| all.burst = 0), Lacking::Whole { .. }));
    assert!(matches!(with(|all| all.ticks_per_s = 0.0), Lacking::Whole { .. }));
}

#[test]
fn a_path_that_the_source_limits_needs_no_calibration() {
    let mut idle = RunReport { offered_kpps: Some(kpps(1000.0)), ..baseline() };
    for worker in &mut idle.workers {
        worker.time = Some(TimeShares { busy: 0.2, starved: 0.8, ..TimeShares::default() });
    }
    let report = Measured::explain(mapping(), idle).untried();
    assert_eq!(report.finding.limit, Limit::Offered);
    let again = from_record(&body(&report), "tune.json").expect("there is nothing to predict");
    assert_eq!((again.candidates.len(), &again.finding), (0, &report.finding));
}
