// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate plan`: plans from a run, from costs in the file, and for the Netra document's
//! processor; bad input.

use crate::rig::{Folder, linerate};
use linerate_record::{Body, Record};
use serde_json::Value;

const EDGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/edge.toml");
const RLP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/rlp-t1-config1.toml");

/// Two stages of unknown kinds, with costs.
const PATH: &str = "\
[source]
kind = \"generator\"
sizes = 60
[[stage]]
kind = \"classify\"
[[stage]]
kind = \"shape\"
[costs]
from = \"a spreadsheet\"
[[costs.stages]]
name = \"classify\"
state = \"flow\"
ns = 100
instructions = 200
[[costs.stages]]
name = \"shape\"
ns = 90
";

fn refused(args: &[&str], words: &[&str]) {
    let done = linerate(&[&["plan"], args].concat());
    assert_eq!(done.status, Some(2), "{args:?}: {done:?}");
    assert_eq!(done.stdout, "", "{args:?}");
    for word in words {
        assert!(done.stderr.contains(word), "{args:?}: {word}: {}", done.stderr);
    }
}

fn summary(args: &[&str]) -> Value {
    let done = linerate(&[&["plan", "--json"], args].concat());
    assert_eq!(done.status, Some(0), "{done:?}");
    let record = Record::from_json(&done.stdout).expect("a record");
    assert!(matches!(record.body, Body::Plan(_)));
    let json: Value = serde_json::from_str(&done.stdout).expect("JSON");
    json["summary"].clone()
}

#[test]
fn without_costs_it_says_how_to_get_them() {
    refused(
        &[EDGE],
        &["no stage costs for", "linerate run --record run.json", "--from run.json", "[costs]"],
    );
    refused(&["--machine", "t1", EDGE], &["UltraSPARC T1", "[[costs.stages]]"]);
}

#[test]
fn a_run_is_planned_from() {
    let folder = Folder::new();
    let [run, plan, plots] = ["run.json", "p.json", "plots"].map(|name| folder.file(name));
    let plot = format!("{plots}/plan.svg");
    let done = linerate(&["run", "--time", "200ms", "-q", "--record", &run, EDGE]);
    assert_eq!(done.status, Some(0), "{done:?}");
    let args = ["--from", &run, "--workers", "4", "--record", &plan, "--svg", &plots, EDGE];
    let summary = summary(&args);
    assert!(summary["predicted_kpps"].as_f64().is_some_and(|kpps| kpps > 0.0), "{summary}");
    assert!(summary["bottleneck"].is_string(), "{summary}");
    let all = summary["recommendations"].as_array().expect("a list");
    let first = &all[0];
    for name in ["gain", "low", "high"] {
        assert!(first[name].is_f64(), "{name}: {first}");
    }
    assert!(first["change"].is_string() && first["why"].is_string(), "{first}");
    let kept = std::fs::read_to_string(&plan).expect("a record");
    assert!(Record::from_json(&kept).is_ok());
    assert!(std::fs::read_to_string(&plot).expect("a plot").contains("<svg"));
    let text = linerate(&["plan", "--from", &run, "--workers", "4", EDGE]).stdout;
    assert!(
        text.contains("linerate tune ") && text.contains("nothing here was measured"),
        "{text}"
    );
    refused(
        &["--machine", "t1", "--from", &run, EDGE],
        &["--from: times measured on another machine"],
    );
    let other = folder.file("other.toml");
    std::fs::write(&other, PATH).expect("the folder can be written");
    refused(&["--from", &run, &other], &["--from", "the run used a different path"]);
    refused(&["--from", &plan, EDGE], &["the record has no packet costs"]);
    refused(&["--from", &plot, EDGE], &["plan.svg", "not JSON"]);
}

#[test]
fn a_path_of_foreign_stages_is_planned_and_not_run() {
    let folder = Folder::new();
    let file = folder.file("path.toml");
    std::fs::write(&file, PATH).expect("the folder can be written");
    let summary = summary(&["--workers", "3", &file]);
    // 190 ns on one worker.
    let kpps = summary["predicted_kpps"].as_f64().expect("a rate");
    assert!((kpps - 1e6 / 190.0).abs() < 1e-6, "{kpps}");
    assert_eq!(summary["bottleneck"], "classify");
    let done = linerate(&["run", "--check", &file]);
    assert_eq!(done.status, Some(2));
    assert!(done.stderr.contains("'kind' cannot be 'classify'"), "{}", done.stderr);
    assert!(done.stderr.contains("can be planned, not run"), "{}", done.stderr);
    let workers = "[mapping]\nworkers = [{ stages = [\"classify\"], replicas = 3 }, \
                   { stages = [\"shape\"] }]\n";
    std::fs::write(&file, format!("{PATH}{workers}")).expect("as before");
    refused(&["--workers", "3", &file], &["needs 4 workers, but only 3 are", "--workers"]);
    refused(&["--machine", "t1", &file], &["[costs] has no instruction count for `shape`"]);
    refused(&["--workers", "0", &file], &["--workers"]);
    refused(&["--machine", "t9", &file], &["t1, t2"]);
    std::fs::write(&file, PATH.replace("ns = 90", "ns = -90")).expect("as before");
    refused(&[&file], &["path.toml:17:6: 'ns' is -90"]);
    std::fs::write(&file, PATH.replace("ns = 100\n", "")).expect("as before");
    refused(&[&file], &["[costs] has no time for `classify`"]);
}

#[test]
fn workers_that_share_a_pipe_are_simulated() {
    let folder = Folder::new();
    let file = folder.file("path.toml");
    let text = PATH.replace("ns = 90", "ns = 90\ninstructions = 300");
    std::fs::write(&file, text).expect("the folder can be written");
    let summary = summary(&["--machine", "t1", "--workers", "2", &file]);
    // One worker, alone on its pipe: 500 instructions and one poll instruction per packet.
    let kpps = summary["predicted_kpps"].as_f64().expect("a rate");
    assert!((kpps / (1.2e6 / 501.0) - 1.0).abs() < 0.01, "{kpps}");
    assert_eq!(summary["bottleneck"], "shape");
    assert!(summary["workers"][0]["cpi"].as_f64().is_some_and(|cpi| (cpi - 1.0).abs() < 0.01));
}

#[test]
fn the_document_s_application_is_planned_on_its_processor() {
    refused(&["--machine", "t1", "--workers", "33", RLP], &["--workers 33", "32 strands"]);
    refused(
        &["--machine", "t1", "--workers", "31", RLP],
        &["needs 12 workers and [[costs.neighbours]] needs 20", "31 are available"],
    );
    refused(&[RLP], &["[costs] has no time for `PDSN_RXTX`", "--machine t1"]);
    let folder = Folder::new();
    let text = std::fs::read_to_string(RLP).expect("the example");
    let foreign = folder.file("foreign.toml");
    std::fs::write(&foreign, text.replace("\"RLP\"", "\"OTHER\"")).expect("it can be written");
    let done = linerate(&["run", "--check", &foreign]);
    assert_eq!(done.status, Some(2));
    assert!(done.stderr.contains("OTHER") && done.stderr.contains("plan"), "{}", done.stderr);
    let file = folder.file("much.toml");
    let much = text.replace("instructions = 433.8", "instructions = 1e9");
    std::fs::write(&file, much).expect("the folder can be written");
    refused(&["--machine", "t1", &file], &["much.toml:54:16: 'instructions' is 1e9"]);
    let slow = text.replace("poll_instructions = 15.0", "poll_instructions = 1e7");
    std::fs::write(&file, slow).expect("as before");
    refused(&["--machine", "t1", &file], &["no packet gets through", "[[costs.stages]]"]);
}

#[test]
fn what_a_path_from_regions_assumes_is_printed() {
    let folder = Folder::new();
    let file = crate::regions::recorded(&folder);
    let plan = ["plan", "--from", &file, "--packets", "96"];
    let done = linerate(&plan);
    assert_eq!(done.status, Some(0), "{done:?}");
    for assumed in [
        "so each has one replica (otherwise pass --state flow or --state none)",
        "64 bytes with FCS",
    ] {
        let count = done.stderr.lines().filter(|line| line.contains(assumed)).count();
        assert_eq!(count, 1, "{assumed}: {done:?}");
    }
    let given = linerate(&[&plan[..], &["--state", "flow", "--frame", "128"]].concat());
    assert!(!given.stderr.contains("assumed"), "{given:?}");
}

#[test]
fn times_of_another_program_apply_to_the_machine_that_was_recorded() {
    let folder = Folder::new();
    let file = crate::regions::recorded(&folder);
    let processors = concat!(env!("CARGO_MANIFEST_DIR"), "/../cmt/data/processors/t1.toml");
    let t1 = std::fs::read_to_string(processors).expect("the processor's file");
    let other = folder.file("other.toml");
    let wide = t1.replace("instructions_per_cycle = 1.0", "instructions_per_cycle = 4.0");
    std::fs::write(&other, wide).expect("the folder can be written");
    let from = ["--from", &file, "--packets", "96"];
    let words = ["times measured on another machine do not apply to UltraSPARC T1"];
    refused(&[&from[..], &["--machine", &other]].concat(), &words);
    // The instructions in a path file are not those of the record.
    let path = folder.file("path.toml");
    let given = [&from[..], &["--out", &path, "-q"]].concat();
    assert_eq!(linerate(&[&["plan"], &given[..]].concat()).status, Some(0));
    let text = std::fs::read_to_string(&path).expect("it was written");
    let text = text.replace("\nns = ", "\ninstructions = 200\nns = ");
    std::fs::write(&path, text).expect("as before");
    assert_eq!(linerate(&["plan", "--machine", "t1", &path]).status, Some(0));
    refused(&[&from[..], &["--machine", "t1", &path]].concat(), &words);
}
