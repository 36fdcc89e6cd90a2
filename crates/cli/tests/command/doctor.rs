// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `linerate doctor` reports completely on any machine, with the same content as text
//! and as JSON.

use crate::rig::{Folder, answered, linerate, record, refused};
use crate::validator::Validator;
use linerate_record::doctor::{DoctorReport, Verdict};
use linerate_record::{Body, Record, Scalar, Tier};
use serde_json::Value;

fn examined() -> (Record, DoctorReport) {
    let record = record(&answered(0, &["doctor", "--json"]));
    match record.body.clone() {
        Body::Doctor(report) => (record, *report),
        _ => panic!("not a record of a machine"),
    }
}

#[test]
fn the_record_obeys_the_schema_and_holds_the_figures_by_name() {
    let json: Value = serde_json::from_str(&answered(0, &["doctor", "--json"])).expect("JSON");
    assert_eq!(Validator::new(&linerate_record::schema_json()).verdict(&json), Ok(()));
    assert_eq!(json["kind"], "doctor");
    let names: Vec<&String> = json["summary"].as_object().expect("an object").keys().collect();
    assert_eq!(names[..3], ["advice", "best_tier", "counters_at_once"]);
    // On ARM, there are also entries for registers.
    let tiers = names[3..].iter().filter(|name| !name.ends_with("_registers"));
    let tiers: Vec<&str> = tiers.map(|name| name.as_str()).collect();
    assert_eq!(tiers, ["tier_hw", "tier_model", "tier_sim", "tier_sw", "tier_user"]);
}

#[test]
fn what_does_not_work_is_null_with_a_reason_and_a_command() {
    let (record, report) = examined();
    assert!(report.tiers.iter().any(|state| state.tier == report.best_tier && state.works));
    for state in &report.tiers {
        let tier = format!("tier_{:?}", state.tier).to_lowercase();
        let name = state.way.as_ref().map_or_else(|| tier.clone(), |way| format!("{tier}_{way}"));
        let figure = &record.figures()[&name];
        match state.works {
            true => assert_eq!(figure.value, Scalar::Text("works".to_owned())),
            false => {
                assert_eq!(
                    (&figure.value, &figure.reason),
                    (&Scalar::Absent, &Some(state.sentence.clone()))
                );
                assert!(state.cause.is_some() && state.fix.is_some(), "{state:?}");
            }
        }
    }
    for observation in &report.observations {
        let is_unknown = observation.verdict == Verdict::Unknown;
        assert_eq!(observation.value.is_none(), is_unknown, "{observation:?}");
        let can_have = matches!(observation.verdict, Verdict::Advice | Verdict::Missing);
        assert!(can_have || observation.fix.is_none(), "{observation:?}");
    }
}

/// The tiers for the timestamp counter and for models have no prerequisites.
#[test]
fn some_tiers_work_anywhere() {
    let (_, report) = examined();
    let works = |tier| report.tiers.iter().any(|state| state.tier == tier && state.works);
    assert!(works(Tier::Sw) && works(Tier::Model), "{:?}", report.tiers);
}

#[test]
fn people_read_the_same() {
    let text = answered(0, &["doctor", "--quiet"]);
    let (_, report) = examined();
    assert!(text.starts_with("best tier   "), "{text}");
    for head in ["tiers", "processor", "topology", "counters", "data plane"] {
        assert!(text.lines().any(|line| line == head), "{head}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    // Long commands continue on the next line.
    let text = text.replace(" \\\n    ", " ");
    // These values are measured in each run.
    let moves = ["core_clock", "load", "steal", "huge_pages", "irq_affinity"];
    for observation in report.observations.iter().filter(|o| !moves.contains(&o.name.as_str())) {
        assert!(text.contains(&observation.name), "{observation:?}: {text}");
        if let Some(fix) = &observation.fix {
            let command = fix.split("  # ").next().unwrap_or(fix);
            assert_eq!(text.lines().filter(|line| *line == command).count(), 1, "{fix}: {text}");
        }
    }
}

#[test]
fn the_record_is_written_only_to_the_requested_path() {
    let folder = Folder::new();
    let kept = folder.file("doctor.json");
    let json = answered(0, &["doctor", "--json", "--record", &kept]);
    assert_eq!(std::fs::read_to_string(&kept).expect("the record is written"), json);
    let nowhere = folder.file("no/such/folder.json");
    assert!(refused(&["doctor", "--record", &nowhere]).contains("cannot write"));
    assert!(refused(&["doctor", "surplus"]).contains("surplus"));
}

/// Without a PATH, Valgrind is not found: the simulator is unavailable, but nothing else changes.
#[test]
fn reports_missing_valgrind() {
    let output = crate::rig::command(&["doctor", "--json"]).env("PATH", "").output();
    let output = output.expect("the program starts");
    assert_eq!(output.status.code(), Some(0));
    let found = record(&String::from_utf8(output.stdout).expect("UTF-8"));
    let reason = found.figures()["tier_sim"].reason.clone().expect("a reason");
    assert!(reason.contains("(package qemu-user) nor Valgrind"), "{reason}");
    let Body::Doctor(report) = found.body else { panic!("not a record of a machine") };
    let valgrind = report.observations.iter().find(|o| o.name == "valgrind").expect("looked for");
    assert_eq!((valgrind.verdict, valgrind.value.as_deref()), (Verdict::Missing, Some("none")));
    let fix = valgrind.fix.as_deref();
    // Without a PATH, no package manager is found that could install Valgrind.
    let wanted = "export PATH=\"$PATH:DIR\"  # DIR has qemu-user's emulators or Valgrind";
    assert_eq!(fix, Some(wanted));
}

#[test]
fn every_fix_is_a_line_for_a_shell() {
    let (_, report) = examined();
    let of_tiers = report.tiers.into_iter().filter_map(|state| state.fix);
    for fix in of_tiers.chain(report.observations.into_iter().filter_map(|o| o.fix)) {
        let checked = std::process::Command::new("sh").args(["-n", "-c", &fix]).status();
        assert!(checked.expect("there is a shell").success(), "{fix}");
        assert!(!fix.starts_with(['#', '(']) && !fix.starts_with("on "), "{fix}");
    }
}

#[test]
fn help_says_that_nothing_is_changed() {
    let done = linerate(&["doctor", "--help"]);
    assert_eq!(done.status, Some(0));
    assert!(done.stdout.contains("No settings are changed"), "{}", done.stdout);
}
