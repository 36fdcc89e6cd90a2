// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests guarantees for scripts that read `--json`, and that packets are neither lost nor invented
//! between stages.

use crate::rig::{EDGE_STAGES, EDGE_WORKERS, Folder, answered, edge};
use crate::rig::{record, refused, report, split_path, tuned, workers};
use linerate_record::run::{RunReport, Tally, WorkerReport};
use linerate_record::tune::{Limit, TuneReport};
use serde_json::Value;

/// Asserts that packets are conserved within each stage, between the stages of a worker, and
/// between workers.
pub(crate) fn assert_conserved(report: &RunReport) {
    for worker in &report.workers {
        for stage in &worker.stages {
            let (ledger, name) = (&stage.ledger, &stage.name);
            assert!(ledger.is_conserved(), "{} {name}: {ledger:?}", worker.name);
            let given = if name == "source" { ledger.created } else { ledger.input };
            assert_eq!(stage.packets, given.packets, "{name}");
            let drops = ledger.drops.iter().map(|(cause, t)| (cause.clone(), t.packets));
            assert_eq!(stage.drops, drops.collect(), "{name}");
        }
        for pair in worker.stages.windows(2) {
            let [left, given] = [pair[0].ledger.output, pair[1].ledger.input];
            let [around, around_next] = [pair[0].bypassed, pair[1].bypassed];
            assert_eq!(left.packets + around, given.packets + around_next, "{}", pair[1].name);
            // The record does not contain the bytes of packets that bypassed a stage.
            assert!(around + around_next > 0 || left == given, "{}", pair[1].name);
        }
    }
    let sum = |segment: u32, pick: &dyn Fn(&WorkerReport) -> Tally| {
        let workers = report.workers.iter().filter(move |worker| worker.segment == segment);
        workers.map(pick).sum::<Tally>()
    };
    let held: u64 = report.rings.iter().map(|ring| ring.held).sum();
    assert_eq!(held, 0, "every run here drains its rings");
    let last = report.workers.iter().map(|worker| worker.segment).max().expect("a worker");
    for segment in 0..last {
        let out = sum(segment, &|s| s.stages[s.stages.len() - 1].ledger.output);
        let next = sum(segment + 1, &|s| s.stages[0].ledger.input);
        assert_eq!(out, next, "between segments {segment} and {}", segment + 1);
    }
}

#[test]
fn a_run_has_all_stage_values_for_scripts() {
    let folder = Folder::new();
    let file = folder.write("path.toml", edge(&[]));
    let json = answered(0, &["run", &file, "--time", "200ms", "--json"]);
    record(&json);
    let value: Value = serde_json::from_str(&json).expect("JSON");
    let stages = value["workers"][0]["stages"].as_array().expect("stages");
    let names: Vec<_> =
        stages.iter().map(|stage| stage["name"].as_str().expect("a text")).collect();
    assert_eq!(names, [&["source"], &EDGE_STAGES[..], &["sink"]].concat());
    for stage in stages {
        assert!(stage["packets"].as_u64().expect("a count") > 0, "{stage}");
        for share in ["busy", "starved", "blocked"] {
            let share = stage[share].as_f64().expect("a share");
            assert!((0.0..=1.0).contains(&share), "{stage}");
        }
        assert!(stage["kpps"].as_f64().is_some_and(|kpps| kpps > 0.0), "{stage}");
        assert!(stage["empty_polls"].is_u64() && stage["drops"].is_object(), "{stage}");
        for figure in ["ticks_per_packet", "cycles_per_packet"] {
            let figure = &stage[figure];
            let known = figure["value"].as_f64().is_some_and(|ticks| ticks > 0.0);
            let absent = figure["value"].is_null() && figure["reason"].is_string();
            assert!(known || absent, "{stage}");
        }
    }
    for name in ["throughput_kpps", "processed_kpps", "line_rate_kpps", "bottleneck", "finding"] {
        assert_eq!(value["summary"][name], value["figures"][name]["value"], "{name}");
    }
}

#[test]
fn packets_and_bytes_are_conserved_under_every_mapping() {
    let folder = Folder::new();
    for segments in [&[(7, 1)][..], &[(2, 1), (3, 2), (2, 1)], &[(3, 3), (4, 2)]] {
        let workers = workers(&EDGE_STAGES, segments);
        let file = folder.write("path.toml", edge(&[(EDGE_WORKERS, workers.as_str())]));
        let arguments = ["run", &file, "--time", "100ms", "--json", "--oversubscribe", "--audit"];
        for arguments in [&arguments[..], &arguments[..6]] {
            let report = report(arguments);
            assert_conserved(&report);
            let sinks = report.workers.iter().filter_map(|worker| worker.stages.last());
            let delivered: u64 = sinks.filter(|s| s.name == "sink").map(|s| s.packets).sum();
            assert!(delivered > 0, "{segments:?}");
        }
    }
}

#[test]
fn packets_dropped_at_a_full_ring_are_counted() {
    let folder = Folder::new();
    let text = split_path(&["parse", "work"], "packets = 20000\nring = 64\nfull_ring = \"drop\"");
    let file = folder.write("path.toml", text.replace("\"work\"\n[m", "\"work\"\nadds = 9999\n[m"));
    let report = report(&["run", &file, "--json", "--oversubscribe", "--audit"]);
    assert_conserved(&report);
    let dropped = |worker: usize| -> u64 {
        report.workers[worker].stages.iter().filter_map(|stage| stage.drops.get("ring_full")).sum()
    };
    let sink = report.workers[1].stages.last().expect("a worker has a tail");
    assert!(dropped(0) > 0 && dropped(1) == 0, "{report:?}");
    assert_eq!(sink.packets + dropped(0), 20_000);
}

/// Asserts that every candidate has a prediction, and a measurement if it ran.
fn assert_candidates(report: &TuneReport) {
    assert!(!report.candidates.is_empty(), "{report:?}");
    let mut ran = 0;
    for candidate in &report.candidates {
        let predicted = &candidate.predicted_kpps;
        let value = predicted.as_number().expect("a prediction is a number");
        let (low, high) = (predicted.low.expect("an end"), predicted.high.expect("an end"));
        assert!(0.0 < low && low <= value && value <= high, "{candidate:?}");
        assert_eq!(candidate.measured_kpps.is_some(), candidate.speedup.is_some(), "{candidate:?}");
        ran += usize::from(candidate.measured_kpps.is_some());
    }
    assert!((1..=3).contains(&ran), "{ran} candidates ran");
    let best_first = report
        .candidates
        .windows(2)
        .all(|pair| pair[0].predicted_kpps.as_number() >= pair[1].predicted_kpps.as_number());
    assert!(best_first, "{:?}", report.candidates);
    if let Some(chosen) = report.chosen {
        let chosen = &report.candidates[chosen as usize];
        assert!(chosen.measured_kpps.is_some(), "{chosen:?}");
        assert_eq!(report.tuned.mapping, chosen.mapping);
    }
    if linerate_linux::allowed_cpus().expect("the kernel reports the CPUs").len() > 1 {
        let merged_and_replicated = |mapping: &str| mapping == "parse…count x2";
        assert!(report.candidates.iter().any(|c| merged_and_replicated(&c.mapping)), "{report:?}");
    }
}

const TUNE_SUMMARY: [&str; 8] = [
    "baseline_kpps",
    "tuned_kpps",
    "speedup",
    "predicted_kpps",
    "prediction_error",
    "line_rate_kpps",
    "bottleneck",
    "finding",
];

#[test]
fn a_tuning_has_all_values_for_scripts_and_writes_a_valid_path() {
    let folder = Folder::new();
    let given = workers(&EDGE_STAGES, &[(3, 1), (4, 1)]);
    let file = folder.write("path.toml", edge(&[(EDGE_WORKERS, given.as_str())]));
    let out = folder.file("tuned.toml");
    let Some((json, report)) = tuned(&[&file, "--time", "500ms"], Some(&out)) else { return };
    assert_eq!(report.given_mapping, "parse+verify+filter | nat44+forward+gre_encap+count");
    assert_candidates(&report);
    assert_conserved(&report.baseline);
    assert_conserved(&report.tuned);
    let value: Value = serde_json::from_str(&json).expect("JSON");
    for name in TUNE_SUMMARY {
        assert_eq!(value["summary"].get(name), value["figures"][name].get("value"), "{name}");
        assert!(value["summary"].get(name).is_some(), "{name}");
    }
    let ran = report.candidates.iter().map(|candidate| candidate.measured_kpps.is_some());
    for (candidate, ran) in value["candidates"].as_array().expect("a list").iter().zip(ran) {
        let keys = [candidate.get("measured_kpps"), candidate.get("speedup")];
        assert!(keys.iter().all(|key| key.is_some_and(|key| key.is_null() != ran)), "{candidate}");
    }
    let again = crate::rig::report(&["run", &out, "--time", "100ms", "--json"]);
    assert_eq!(again.mapping, report.tuned.mapping);
}

#[test]
fn a_path_that_keeps_up_with_what_is_offered_is_left_as_it_is() {
    let folder = Folder::new();
    let file = folder.write("path.toml", edge(&[]));
    let arguments = [&file, "--time", "300ms", "--rate", "2kpps"];
    let said = refused(&[&["tune"], &arguments[..], &["--json", "--goal", "900Gpps"]].concat());
    assert!(said.contains("cannot tell whether the goal is met"), "{said}");
    let met = tuned(&[&arguments[..], &["--goal", "1pps"]].concat(), None);
    // Which limit is found also depends on timing; findings are covered by the tests of `plan`.
    let Some((_, report)) = met.filter(|(_, report)| report.finding.limit == Limit::Offered) else {
        return;
    };
    assert_eq!((report.chosen, report.candidates.len()), (None, 0));
    assert_eq!(report.tuned.mapping, report.given_mapping);
}

#[test]
fn a_tuned_path_runs_wherever_it_is_written() {
    let folder = Folder::new();
    std::fs::create_dir(folder.file("elsewhere")).expect("the folder can be written");
    folder.write("in.pcap", crate::rig::pcap([&crate::rig::udp(1)[..]]));
    let text = edge(&[]).replace(crate::rig::EDGE_CAPTURE, "in.pcap");
    let file = folder.write("path.toml", text);
    let out = folder.file("elsewhere/tuned.toml");
    let common = [&file, "--time", "300ms", "--rate", "2kpps"];
    if tuned(&common, Some(&out)).is_some() {
        answered(0, &["run", &out, "--check"]);
    }
    let nowhere = folder.file("missing/tuned.toml");
    let said = refused(&[&["tune"], &common[..], &["--out", &nowhere]].concat());
    assert!(said.contains("cannot write") && said.contains(&nowhere), "{said}");
}
