// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate tune --from`: predictions from a stored `tune` record, without packets.

use crate::rig::{Done, Folder, answered, edge, linerate, record, refused, tuned};
use linerate_record::tune::{Candidate, TuneReport};
use linerate_record::{Body, fixtures};

/// Returns everything about a candidate that is known before it runs.
fn predicted(report: &TuneReport) -> Vec<Candidate> {
    let unmeasured = |one: &Candidate| Candidate {
        measured_kpps: None,
        speedup: None,
        latency: None,
        ..one.clone()
    };
    report.candidates.iter().map(unmeasured).collect()
}

#[test]
fn predicts_what_the_tuning_predicted() {
    let folder = Folder::new();
    let path = folder.write("edge.toml", edge(&[]));
    let file = folder.file("tune.json");
    let Some((_, report)) = tuned(&[&path, "--time", "200ms", "--record", &file], None) else {
        let refusal = refused(&["tune", "--from", &file]);
        assert!(refusal.contains("tune.json: the record lacks `calibration`"), "{refusal}");
        return;
    };
    let json = answered(0, &["tune", "--from", &file, "--json"]);
    let Body::Tune(again) = record(&json).body else { panic!("{json}") };
    assert_eq!(again.candidates, predicted(&report));
    assert_eq!((&again.finding, &again.ruled_out), (&report.finding, &report.ruled_out));
}

#[test]
fn a_prediction_from_a_record_says_that_nothing_was_run() {
    let folder = Folder::new();
    let stored = fixtures::ALL.iter().find(|(kind, _)| *kind == "tune").expect("it is stored").1;
    let (file, again) = (folder.write("tune.json", stored), folder.file("again.json"));
    let Done { status, stdout, stderr } = linerate(&["tune", "--from", &file, "--record", &again]);
    assert_eq!(status, Some(0), "{stderr}");
    let words = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let kept = format!("kept nothing was run; the rates are predicted from {file}");
    assert!(words.contains(&kept), "{stdout}");
    assert_eq!(answered(0, &["report", &again]), stdout);
    let again = record(&std::fs::read_to_string(&again).expect("it was written"));
    assert_eq!(again.provenance.cpu, record(stored).provenance.cpu, "the CPU of the measurement");
    assert!(again.provenance.command.contains("--from"), "{}", again.provenance.command);
    let figures = again.figures();
    assert_eq!((figures["tuned_kpps"].as_number(), figures["speedup"].as_number()), (None, None));
    assert!(figures["predicted_kpps"].as_number().is_some());
    let Body::Tune(report) = again.body else { panic!("{stdout}") };
    assert_eq!((report.chosen, report.rounds), (None, 0));
    assert_eq!(report.candidates, predicted(&report), "none was run");
}

#[test]
fn a_record_of_run_is_refused_with_what_it_lacks() {
    let folder = Folder::new();
    let path = folder.write("edge.toml", edge(&[]));
    let file = folder.file("run.json");
    answered(0, &["run", &path, "--time", "100ms", "--cpus", "0", "--record", &file]);
    let refusal = refused(&["tune", "--from", &file]);
    for lacking in ["ring", "burst", "memory-bound", "replicable", "linerate plan --from"] {
        assert!(refusal.contains(lacking), "{lacking}: {refusal}");
    }
    let budget = folder.file("budget.json");
    answered(0, &["budget", "--clock", "2.5", "--record", &budget]);
    let refusal = refused(&["tune", "--from", &budget]);
    assert!(refusal.contains("not a tune record"), "{refusal}");
}

#[test]
fn a_path_and_a_record_exclude_each_other_and_one_is_needed() {
    let folder = Folder::new();
    let path = folder.write("edge.toml", edge(&[]));
    assert!(refused(&["tune", &path, "--from", "x.json"]).contains("cannot be used with"));
    assert!(refused(&["tune", "--from", "x.json", "--out", "y"]).contains("cannot be used with"));
    assert!(refused(&["tune"]).contains("PATH.toml"));
    assert!(refused(&["tune", "--from", &folder.file("none.json")]).contains("none.json"));
    let record = refused(&["tune", "--from", &path, "--record", &path]);
    assert!(record.contains("would overwrite the input"), "{record}");
}
