// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the published schema: the committed file is up to date, and records conform to it.

use crate::example;
use crate::validator::{Validator, Verdict};
use linerate_record::{fixtures, schema_json};
use serde_json::{Value, json};

#[test]
fn the_published_schema_is_the_generated_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/record.json");
    let published = std::fs::read_to_string(path).expect("docs/schema/record.json");
    assert!(published == schema_json(), "docs/schema/record.json is old; run `cargo xtask schema`");
}

#[test]
fn the_schema_names_its_draft() {
    let schema: Value = serde_json::from_str(&schema_json()).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
}

fn verdict(value: &Value) -> Verdict {
    Validator::new(&schema_json()).verdict(value)
}

fn example_values() -> [Value; 10] {
    example::all().map(|record| serde_json::from_str(&record.to_json_pretty().unwrap()).unwrap())
}

#[test]
fn records_obey_the_schema() {
    let stored = fixtures::ALL.iter().map(|(_, text)| serde_json::from_str(text).unwrap());
    for value in example_values().into_iter().chain(stored) {
        assert_eq!(verdict(&value), Ok(()), "{}", value["kind"]);
    }
}

#[test]
fn the_schema_refuses_what_reading_refuses() {
    let [run, _, _, stat, doctor, _, memory, strands, answers, _] = example_values();
    let changes: [fn(&mut Value); 6] = [
        |v| v["schema"] = json!("other"),
        |v| v["version"] = json!("3.0"),
        |v| v["kind"] = json!("memory"),
        |v| drop(v.as_object_mut().unwrap().remove("workers")),
        |v| v["rings"][0]["held"] = json!(-1),
        |v| v["figures"]["finding"]["tier"] = json!("guess"),
    ];
    for change in changes {
        assert_refused(&run, change);
    }
    let changes: [fn(&mut Value); 8] = [
        |v| v["target"]["what"] = json!("container"),
        |v| v["tier"] = json!(null),
        |v| v["events"][0]["raw"] = json!("<not counted>"),
        |v| v["events"][1]["duty"] = json!("0 %"),
        |v| v["events"][1]["count"]["value"] = json!({}),
        |v| v["elapsed_s"] = json!(null),
        |v| drop(v["metrics"][0].as_object_mut().unwrap().remove("formula")),
        |v| v["rotation"]["sets"][0] = json!("cycles"),
    ];
    for change in changes {
        assert_refused(&stat, change);
    }
    let changes: [fn(&mut Value); 2] = [
        |v| v["observations"][0]["verdict"] = json!("bad"),
        |v| v["tiers"][0]["works"] = json!("yes"),
    ];
    for change in changes {
        assert_refused(&doctor, change);
    }
    let changes: [fn(&mut Value); 5] = [
        |v| v["tlb"][0]["pages"] = json!("giant"),
        |v| v["curves"][0]["points"][0]["passes_ns"] = json!([null]),
        |v| v["histograms"][0]["bins"][0]["count"] = json!(-1),
        |v| v["noise"]["lost"] = json!(0.045),
        |v| drop(v.as_object_mut().unwrap().remove("os_view")),
    ];
    for change in changes {
        assert_refused(&memory, change);
    }
    let changes: [fn(&mut Value); 4] = [
        |v| v["format"] = json!("sar"),
        |v| v["strands"][0]["packets"] = json!("2,000,000"),
        |v| v["strands"][0]["cpi_by_cause"]["bound"] = json!("io"),
        |v| drop(v["strands"][0].as_object_mut().unwrap().remove("slices")),
    ];
    for change in changes {
        assert_refused(&strands, change);
    }
    assert_refused(&answers, |v| v["answers"][0]["verdict"] = json!("yes"));
}

#[track_caller]
fn assert_refused(value: &Value, change: fn(&mut Value)) {
    let mut value = value.clone();
    change(&mut value);
    assert!(verdict(&value).is_err(), "the schema takes {value}");
    assert!(linerate_record::Record::from_json(&value.to_string()).is_err(), "{value} is read");
}
