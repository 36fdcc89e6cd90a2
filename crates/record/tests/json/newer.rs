// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of reading records of a newer minor version: an invented version 2.99.

use linerate_record::profile::{BoundBy, BoundMeasure, CostClass, MemoryKind, ProfileReport};
use linerate_record::why::{Cause, Circumstance};
use linerate_record::{Body, ReadError, Record, fixtures};
use serde_json::{Value, json};

/// An observation of version 2.99 with a cause, a figure, a warning and fields that do not exist.
const WHY: &str = include_str!("../v2_99/why.json");

/// Returns a stored record of the current version with changes that its derived values do not
/// reflect.
fn changed(kind: &str, change: impl FnOnce(&mut Value)) -> String {
    let stored = fixtures::ALL.iter().find(|(stored, _)| *stored == kind).unwrap().1;
    let mut value = serde_json::from_str(stored).unwrap();
    change(&mut value);
    value.to_string()
}

/// Returns the stored profile with keywords that do not exist.
fn profile(version: Option<&str>) -> String {
    changed("profile", |v| {
        if let Some(version) = version {
            v["version"] = json!(version);
        }
        v["functions"][1]["class"] = json!("matrix_multiplication");
        v["classes"][0]["class"] = json!("matrix_multiplication");
        v["bounds"][0]["bound_by"] = json!("tensor_unit");
        v["evidence"][0]["measures"][0]["measure"] = json!("in_tensor_unit");
        let share = v["classes"][0]["share"].clone();
        v["memory"] = json!([{"kind": "tensor_memory", "samples": 3, "share": share}]);
    })
}

fn profile_of(json: &str) -> Box<ProfileReport> {
    match Record::from_json(json).unwrap().body {
        Body::Profile(report) => report,
        other => panic!("{other:?}"),
    }
}

fn refused(json: &str) -> (String, String) {
    match Record::from_json(json).unwrap_err() {
        ReadError::UnknownValue { field, value } => (field, value),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cause_of_a_newer_version_is_read_with_its_sentence_gain_and_fix() {
    let record = Record::from_json(WHY).unwrap();
    let Body::Why(report) = &record.body else { panic!("{record:?}") };
    let finding = &report.findings[0];
    assert_eq!((finding.cause, finding.cause.title()), (Cause::Unknown, "unknown to this version"));
    assert!(finding.cause.is_removable());
    assert!(finding.sentence.contains("800 MHz"), "{}", finding.sentence);
    assert_eq!(finding.gain.percent.as_number(), Some(337.5));
    assert_eq!(finding.fix.as_deref(), Some("Clean the fans."));
    assert_eq!(record.summary()["finding"], "unknown");
}

#[test]
fn a_circumstance_of_a_newer_version_is_read_with_its_sentence_and_evidence() {
    let record = Record::from_json(WHY).unwrap();
    let Body::Why(report) = &record.body else { panic!("{record:?}") };
    let remark = &report.remarks[0];
    let named = (remark.id, remark.id.title());
    assert_eq!(named, (Circumstance::Unknown, "unknown to this version"));
    assert!(remark.sentence.contains("3 us"), "{}", remark.sentence);
    assert_eq!((remark.evidence[0].low, remark.evidence[0].high), (Some(2.5), Some(3.5)));
    assert_eq!(remark.next, "Boot with clocksource=hpet.");
    assert_eq!(record.summary()["remarks"], json!(["unknown"]));
    // In a record of this version, the keyword is an error.
    let json = changed("why", |v| {
        v["remarks"] = json!([{"id": "clock_drift", "sentence": "", "evidence": [], "next": "",
            "wrong_if": ""}]);
    });
    assert_eq!(refused(&json), ("remarks[0].id".to_owned(), "\"clock_drift\"".to_owned()));
}

/// Version 2.9 had neither remarks nor intervals of evidence.
#[test]
fn a_record_of_an_earlier_version_has_no_remarks() {
    let json = changed("why", |v| {
        v["version"] = json!("2.9");
        assert!(v.as_object_mut().unwrap().remove("remarks").is_some());
        assert!(v["summary"].as_object_mut().unwrap().remove("remarks").is_some());
    });
    let record = Record::from_json(&json).unwrap();
    let Body::Why(report) = &record.body else { panic!("{record:?}") };
    assert_eq!(report.remarks, []);
    assert_eq!(record.body, fixtures::record("why").body);
}

/// Keywords are the same in the body and in the summary.
#[test]
fn circumstances_have_their_keyword_in_the_summary() {
    for id in Circumstance::ALL {
        let name = serde_json::to_value(id).unwrap();
        assert_eq!((name, id.title()), (json!(id.name()), id.name()));
    }
}

/// What was read from a newer record can be written, with `unknown`, and read again.
#[test]
fn a_newer_record_survives_a_round_trip() {
    for json in [WHY, &profile(Some("2.99"))] {
        let record = Record::from_json(json).unwrap();
        let written = record.to_json_pretty().unwrap();
        assert_eq!(Record::from_json(&written).unwrap(), record);
    }
}

#[test]
fn keywords_of_a_newer_profile_are_read_as_unknown() {
    let (report, stored) = (profile_of(&profile(Some("2.99"))), fixtures::profile());
    assert_eq!(report.functions[1].class, CostClass::Unknown);
    assert_eq!(report.functions[0].class, stored.functions[0].class);
    assert_eq!(report.classes[0].class.title(), "unknown");
    assert_eq!(report.bounds[0].bound_by, BoundBy::Unknown);
    assert_eq!(report.bounds[0].sentence, stored.bounds[0].sentence);
    assert_eq!(report.evidence[0].measures[0].measure, BoundMeasure::Unknown);
    assert_eq!(report.memory[0].kind, MemoryKind::Unknown);
}

/// Causes are part of `run` and `stream` records, too.
#[test]
fn causes_of_newer_runs_and_streams_are_read() {
    let cause = fixtures::why().findings.remove(0);
    for (kind, list) in [("run", "causes"), ("stream", "findings")] {
        let json = changed(kind, |v| {
            v["version"] = json!("2.99");
            v[list] = json!([cause]);
            v[list][0]["cause"] = json!("clock_throttling");
        });
        let found = match Record::from_json(&json).unwrap().body {
            Body::Run(report) => report.causes[0].cause,
            Body::Stream(report) => report.findings[0].cause,
            other => panic!("{other:?}"),
        };
        assert_eq!(found, Cause::Unknown, "{kind}");
    }
}

/// In a record of this version or of an earlier one, a value that does not exist is an error.
#[test]
fn values_that_do_not_exist_are_refused_unless_the_record_is_newer() {
    let current: Value = serde_json::from_str(fixtures::ALL[0].1).unwrap();
    for version in [current["version"].as_str().unwrap(), "2.0"] {
        let (field, value) = refused(&WHY.replacen("2.99", version, 1));
        assert_eq!((&*field, &*value), ("findings[0].cause", "\"clock_throttling\""));
        assert!(!refused(&profile(Some(version))).0.is_empty());
    }
    for (list, name) in [("functions", "class"), ("classes", "class"), ("bounds", "bound_by")] {
        let json = changed("profile", |v| v[list][0][name] = json!("tensors"));
        assert_eq!(refused(&json), (format!("{list}[0].{name}"), "\"tensors\"".to_owned()));
    }
    let json = changed("why", |v| v["findings"][0]["cause"] = json!({"tensors": null}));
    assert_eq!(refused(&json).0, "findings[0].cause");
    let error = Record::from_json(&json).unwrap_err().to_string();
    assert!(error.starts_with("`findings[0].cause` is {\"tensors\":null}, which does"), "{error}");
}

/// Other enumerations do not grow within a major version.
#[test]
fn other_enumerations_are_strict_in_every_version() {
    let json = changed("profile", |v| {
        v["version"] = json!("2.99");
        v["functions"][0]["share"]["tier"] = json!("guess");
    });
    assert!(matches!(Record::from_json(&json), Err(ReadError::Field { .. })));
}
