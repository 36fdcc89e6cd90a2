// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of reading old records: version 1.3 records as written by linerate 0.1.0 (for `kernels`,
//! only the first rows).

use linerate_record::warning::Warning;
use linerate_record::{Body, ReadError, Record};
use serde_json::{Value, json};

const STORED: [(&str, &str); 11] = [
    ("answers", include_str!("../v1/answers.json")),
    ("budget", include_str!("../v1/budget.json")),
    ("doctor", include_str!("../v1/doctor.json")),
    ("kernels", include_str!("../v1/kernels.json")),
    ("memory", include_str!("../v1/memory.json")),
    ("plan", include_str!("../v1/plan.json")),
    ("run", include_str!("../v1/run.json")),
    ("stat", include_str!("../v1/stat.json")),
    ("strands", include_str!("../v1/strands.json")),
    ("tcp", include_str!("../v1/tcp.json")),
    ("tune", include_str!("../v1/tune.json")),
];

fn stored(kind: &str) -> &'static str {
    STORED.iter().find(|(of, _)| *of == kind).unwrap().1
}

/// Collects all values of a record, without field names.
fn leaves(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => object.values().for_each(|value| leaves(value, found)),
        Value::Array(items) => items.iter().for_each(|value| leaves(value, found)),
        Value::Number(number) => found.push(number.as_f64().unwrap().to_string()),
        other => found.push(other.to_string()),
    }
}

fn names(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => object.iter().for_each(|(name, value)| {
            found.push(name.clone());
            names(value, found);
        }),
        Value::Array(items) => items.iter().for_each(|value| names(value, found)),
        _ => {}
    }
}

#[test]
fn reads_stored_records_of_every_kind() {
    for (kind, json) in STORED {
        let before: Value = serde_json::from_str(json).unwrap();
        assert_eq!((&before["version"], &before["kind"]), (&json!("1.3"), &json!(kind)));
        let record = Record::from_json(json).unwrap_or_else(|error| panic!("{kind}: {error}"));
        let written = record.to_json_pretty().unwrap();
        assert_eq!(Record::from_json(&written).unwrap(), record, "{kind}");
        let now: Value = serde_json::from_str(&written).unwrap();
        let mut found = Vec::new();
        names(&now, &mut found);
        let is_old = |name: &&String| name.split('_').any(|word| word == "octets");
        assert_eq!(found.iter().find(is_old), None, "{kind}");
    }
}

/// Every value of an old record is preserved under its new name.
#[test]
fn keeps_every_value() {
    for (kind, json) in STORED {
        let written = Record::from_json(json).unwrap().to_json_pretty().unwrap();
        let [mut before, mut now] = [json, &written].map(|text| {
            let mut value: Value = serde_json::from_str(text).unwrap();
            // The value of `others` is derived from figures and warnings, which have their own
            // test.
            value["provenance"].as_object_mut().unwrap().remove("others");
            let object = value.as_object_mut().unwrap();
            let made: &[&str] = match kind {
                "run" => &["finding", "packets_home"],
                "stat" => &["times", "remarks"],
                _ => &[],
            };
            made.iter().for_each(|name| drop(object.remove(*name)));
            object.retain(|name, _| !["version", "summary", "figures"].contains(&name.as_str()));
            let mut found = Vec::new();
            leaves(&value, &mut found);
            found
        });
        before.sort_unstable();
        now.sort_unstable();
        let is_new = |text: &&String| !before.contains(*text) && *text != "null";
        assert_eq!(now.iter().find(is_new), None, "{kind}");
        assert!(now.len() >= before.len(), "{kind}: {} of {}", now.len(), before.len());
    }
}

#[test]
fn renames_fields_where_they_stood() {
    let before: Value = serde_json::from_str(stored("run")).unwrap();
    let Body::Run(run) = Record::from_json(stored("run")).unwrap().body else { panic!("a run") };
    assert_eq!(run.ticks_per_s, before["ticks_per_second"].as_f64().unwrap());
    let (worker, strand) = (&run.workers[0], &before["strands"][0]);
    assert_eq!(worker.windows.preempted, strand["windows"]["lost_to_preemption"]);
    assert_eq!(
        worker.stages[0].ledger.input.bytes,
        strand["stages"][0]["ledger"]["input"]["octets"]
    );

    let before: Value = serde_json::from_str(stored("memory")).unwrap();
    let Body::Memory(memory) = Record::from_json(stored("memory")).unwrap().body else {
        panic!("a memory")
    };
    assert_eq!(memory.levels[0].name, before["tiers"][0]["name"]);
    assert_eq!(memory.costs[0].level, before["costs"][0]["tier"]);
}

/// Values that 1.x stored outside the body are moved into it, so that derived figures and warnings
/// stay the same.
#[test]
fn takes_what_only_figures_and_warnings_stated() {
    for (kind, names) in [
        ("stat", &["elapsed_s", "user_s", "system_s"][..]),
        ("run", &["bottleneck", "finding", "packets_bytes", "packets_level"]),
    ] {
        let before: Value = serde_json::from_str(stored(kind)).unwrap();
        let record = Record::from_json(stored(kind)).unwrap();
        let figures = record.figures();
        for name in names {
            let was = &before["figures"][name.replace("level", "tier")]["value"];
            let value = serde_json::to_value(&figures[*name].value).unwrap();
            assert_eq!(&value, was, "{kind} {name}");
        }
        let codes = |warnings: &Value| -> Vec<String> {
            let warnings = warnings.as_array().unwrap().iter();
            warnings.map(|warning| warning["code"].as_str().unwrap().to_owned()).collect()
        };
        let now = serde_json::to_value(record.warnings()).unwrap();
        assert_eq!(codes(&now), codes(&before["warnings"]), "{kind}");
    }
}

/// Remarks of the simulator are kept, because they cannot be derived from the counts.
#[test]
fn keeps_remarks_of_the_simulator() {
    let mut value: Value = serde_json::from_str(stored("stat")).unwrap();
    value["warnings"] = json!([{ "code": "unfinished_processes", "processes": 3 }]);
    let record = Record::from_json(&value.to_string()).unwrap();
    assert_eq!(record.warnings(), [Warning::UnfinishedProcesses { processes: 3 }]);
}

/// The word `strand` is kept in records of imported strands and of a budget, where it means a
/// hardware thread; only workers of a path were renamed.
#[test]
fn leaves_strands_that_are_hardware() {
    let record = Record::from_json(stored("strands")).unwrap();
    assert!(matches!(&record.body, Body::Strands(report) if !report.strands.is_empty()));
    assert!(matches!(Record::from_json(stored("budget")).unwrap().body, Body::Budget(_)));
}

#[test]
fn says_what_an_old_record_lacks_and_what_to_do() {
    let mut value: Value = serde_json::from_str(stored("run")).unwrap();
    value.as_object_mut().unwrap().remove("strands");
    let error = Record::from_json(&value.to_string()).unwrap_err();
    let ReadError::NotUpgraded { version, message, .. } = &error else { panic!("{error:?}") };
    assert_eq!((version.as_str(), message.as_str()), ("1.3", "missing field `workers`"));
    assert!(error.to_string().contains("measure again"), "{error}");
}
