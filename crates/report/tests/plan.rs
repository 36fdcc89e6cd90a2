// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rendering of a plan by formula and by simulation, wide, narrow and without advice, and of its
//! plot. Golden files: see `common`.

mod common;

use common::{PLAIN, assert_golden, assert_same};
use linerate_record::plan::{
    Bottleneck, Change, Input, Model, Origin, PlanReport, PlannedWorker, Proof, Recommendation,
    Search, WorkersBeside,
};
use linerate_record::stats::Estimate;
use linerate_record::tune::RuledOut;
use linerate_record::{Figure, Tier};
use linerate_report::{Style, plan, svg};

fn within(unit: &str, value: f64, low: f64, high: f64) -> Figure {
    let estimate = Estimate { value, low, high, confidence: 0.9, n: 400 };
    Figure::number(unit, estimate, Tier::Model, "by hand")
}

fn exact(unit: &str, value: f64) -> Figure {
    Figure::exact(unit, value, Tier::Model, "by hand")
}

fn worker(name: &str, runs: &str, cpu: Option<u32>, share: f64, cpi: Option<f64>) -> PlannedWorker {
    let absent = Figure::absent("cycles/instruction", Tier::Model, "by hand", "times only");
    PlannedWorker {
        name: name.to_owned(),
        runs: runs.to_owned(),
        cpu,
        utilisation: exact("ratio", share),
        ns_per_packet: exact("ns/packet", 4363.4 * share),
        cpi: cpi.map_or(absent, |cpi| exact("cycles/instruction", cpi)),
    }
}

fn input(name: &str, value: &str, origin: Origin) -> Input {
    Input { name: name.to_owned(), value: value.to_owned(), origin }
}

fn recommendation(change: &str, kind: Change, kpps: f64, gain: [f64; 3]) -> Recommendation {
    let [value, low, high] = gain;
    Recommendation {
        change: change.to_owned(),
        kind,
        mapping: "RX x4 | RLP x4 | TX x8".to_owned(),
        cpus: Some(vec![0, 2, 4, 6, 20, 21, 22, 23, 1, 3, 5, 7, 8, 12, 16, 24]),
        beside: vec![WorkersBeside { name: "polls".to_owned(), cpus: vec![9, 10] }],
        burst: 32,
        predicted_kpps: within("kpps", kpps, 0.9 * kpps, 1.1 * kpps),
        gain: within("ratio", value, low, high),
        why: "as written `TX` is the bottleneck; then limited by line rate".to_owned(),
        proof: Proof { sentence: "less than 272 kpps, and it is wrong".to_owned(), command: None },
    }
}

/// Returns a plan for a path on strands that share pipelines.
fn simulated() -> PlanReport {
    PlanReport {
        path: "rlp".to_owned(),
        machine: "UltraSPARC T1".to_owned(),
        machine_source: "a document".to_owned(),
        model: Model::Simulation,
        costs: "its table 7".to_owned(),
        mapping: "RX x4 | RLP x4 | TX x4".to_owned(),
        burst: 32,
        cpus: 32,
        flows: 4,
        predicted_kpps: within("kpps", 229.6, 208.9, 250.8),
        line_rate_kpps: Some(345.3),
        line_hold: None,
        limits: Vec::new(),
        bottleneck: Bottleneck {
            stage: Some("TX".to_owned()),
            worker: Some("2.0".to_owned()),
            sentence: "worker 2.0 (`TX`) sets the pace, working 100 % of its time".to_owned(),
        },
        workers: vec![
            worker("0.0", "RX", Some(0), 0.734, Some(8.43)),
            worker("2.0", "TX", Some(1), 1.0, Some(12.07)),
            worker("idle", "next to the path, on 20 processors", None, 0.0, None),
        ],
        recommendations: vec![
            recommendation("replicate `TX`, x8", Change::Replicate, 306.0, [0.333, 0.21, 0.468]),
            recommendation("park `idle`", Change::Park, 236.0, [0.03, -0.04, 0.11]),
        ],
        ruled_out: vec![RuledOut {
            name: "replicate `RX`".to_owned(),
            reason: "it keeps one state for all packets (global)".to_owned(),
        }],
        search: Search {
            there_are: 1e17,
            exact: false,
            gap: Some(0.13),
            sentence: "single changes and up to 3 in a row of 1 x 10^17 ways".to_owned(),
        },
        inputs: vec![
            input("RX instructions", "434", Origin::Given),
            input("RX io_ns", "900", Origin::Fitted),
            input("hand-over", "23 cycles", Origin::Assumed),
        ],
    }
}

/// Returns a plan for a path on CPUs of the local machine.
fn by_formula() -> PlanReport {
    let mut change = recommendation("bursts of 256", Change::Burst, 12_100.0, [0.029, 0.01, 0.05]);
    change.mapping = "parse…count".to_owned();
    change.cpus = None;
    change.burst = 256;
    change.proof.command = Some("linerate tune edge.toml".to_owned());
    PlanReport {
        model: Model::Formula,
        mapping: "parse…count".to_owned(),
        flows: 1,
        cpus: 2,
        predicted_kpps: within("kpps", 11_760.0, 8_000.0, 16_000.0),
        line_rate_kpps: None,
        workers: vec![worker("0.0", "parse+verify+count", None, 1.0, None)],
        recommendations: vec![change],
        inputs: vec![input("parse", "20.1 ns (19.8 to 20.5)", Origin::Measured)],
        ..simulated()
    }
}

#[test]
fn a_plan_by_simulation() {
    assert_golden("plan-simulated.txt", &PLAIN, &plan(&simulated(), &PLAIN));
    let color = Style { color: true, ..Style::plain(100) };
    assert_golden("plan-color.txt", &color, &plan(&simulated(), &color));
}

#[test]
fn a_plan_by_formula_and_within_72_columns() {
    assert_golden("plan-formula.txt", &PLAIN, &plan(&by_formula(), &PLAIN));
    let narrow = Style::plain(72);
    assert_golden("plan-72.txt", &narrow, &plan(&simulated(), &narrow));
}

#[test]
fn nothing_to_change_is_said() {
    let report = PlanReport { recommendations: Vec::new(), ..by_formula() };
    assert!(plan(&report, &PLAIN).contains("no change is predicted to gain more than 2 %"));
    assert!(!svg::plan(&report).svg.contains("do 1"));
}

#[test]
fn a_plan_is_drawn() {
    let plot = svg::plan(&simulated());
    assert_same("plan.svg", &plot.svg);
    for part in ["as written", "do 2", "Do 2: park", "line"] {
        assert!(plot.svg.contains(part), "{part}");
    }
}
