// SPDX-License-Identifier: MIT OR Apache-2.0
//! A hand-written `plan` record, and the fields that scripts read.

use crate::example::record;
use linerate_record::plan::{
    Bottleneck, Change, Input, LineHold, Model, Origin, PlanReport, PlannedWorker, Proof,
    Recommendation, Search,
};
use linerate_record::stats::Estimate;
use linerate_record::tune::RuledOut;
use linerate_record::{Body, Figure, Record, Tier};
use serde_json::{Value, json};

fn model(unit: &str, value: f64) -> Figure {
    let estimate = Estimate { value, low: 0.9 * value, high: 1.2 * value, confidence: 0.9, n: 3 };
    Figure::number(unit, estimate, Tier::Model, "a formula")
}

/// Builds a plan for a path with one recommendation.
pub(crate) fn plan() -> Record {
    let absent = Figure::absent("cycles/instruction", Tier::Model, "a formula", "times only");
    record(Body::Plan(Box::new(PlanReport {
        path: "edge".to_owned(),
        machine: "a processor".to_owned(),
        machine_source: "this machine".to_owned(),
        model: Model::Formula,
        costs: "run.json".to_owned(),
        mapping: "parse | verify".to_owned(),
        burst: 32,
        cpus: 2,
        flows: 1,
        predicted_kpps: model("kpps", 1000.0),
        line_rate_kpps: None,
        line_hold: Some(LineHold {
            cpus: Some(2),
            mapping: "a | b".to_owned(),
            burst: 32,
            predicted_kpps: Figure::exact("kpps", 2400.0, Tier::Model, "a model"),
            sentence: "2 CPUs hold it".to_owned(),
        }),
        limits: vec!["the line".to_owned()],
        bottleneck: Bottleneck {
            stage: Some("verify".to_owned()),
            worker: Some("1.0".to_owned()),
            sentence: "worker 1.0 sets the pace".to_owned(),
        },
        workers: vec![PlannedWorker {
            name: "1.0".to_owned(),
            runs: "verify".to_owned(),
            cpu: Some(1),
            utilisation: Figure::exact("ratio", 1.0, Tier::Model, "a formula"),
            ns_per_packet: Figure::exact("ns/packet", 1000.0, Tier::Model, "a formula"),
            cpi: absent,
        }],
        recommendations: vec![Recommendation {
            change: "merge and replicate x2".to_owned(),
            kind: Change::Replicate,
            mapping: "parse+verify x2".to_owned(),
            cpus: None,
            beside: Vec::new(),
            burst: 32,
            predicted_kpps: model("kpps", 1500.0),
            gain: model("ratio", 0.5),
            why: "no ring".to_owned(),
            proof: Proof {
                sentence: "a speed-up below 1.45 proves it wrong".to_owned(),
                command: Some("linerate tune edge.toml".to_owned()),
            },
        }],
        ruled_out: vec![RuledOut { name: "park".to_owned(), reason: "no term".to_owned() }],
        search: Search {
            there_are: 5.0,
            exact: true,
            gap: Some(0.0),
            sentence: "exact".to_owned(),
        },
        inputs: vec![Input {
            name: "a ring".to_owned(),
            value: "15 ns".to_owned(),
            origin: Origin::Assumed,
        }],
    })))
}

#[test]
fn scripts_read_what_to_change_and_what_it_gains() {
    let json = plan().to_json_pretty().expect("finite numbers");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        json["summary"]["recommendations"],
        json!([{
            "change": "merge and replicate x2",
            "gain": 0.5,
            "low": 0.45,
            "high": 0.6,
            "why": "no ring",
        }])
    );
    assert_eq!(
        json["summary"]["workers"],
        json!([{ "name": "1.0", "runs": "verify", "utilisation": 1.0, "cpi": null }])
    );
}
