// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests writing, reading and rejecting records.

use crate::example;
use linerate_record::stats::Estimate;
use linerate_record::{Body, Figure, ReadError, Record, Scalar, Tier, fixtures};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Returns the JSON text of the example run record, with one change.
fn changed(change: impl FnOnce(&mut Value)) -> String {
    let mut value = serde_json::from_str(&example::run().to_json_pretty().unwrap()).unwrap();
    change(&mut value);
    serde_json::to_string_pretty(&value).unwrap()
}

fn refused(change: impl FnOnce(&mut Value)) -> ReadError {
    Record::from_json(&changed(change)).unwrap_err()
}

#[test]
fn what_is_written_is_read_back() {
    for record in example::all() {
        let json = record.to_json_pretty().unwrap();
        assert!(json.ends_with("}\n"));
        assert_eq!(Record::from_json(&json).unwrap(), record);
    }
}

/// Stored records have the current version and survive a round trip digit for digit.
#[test]
fn stored_records_are_written_as_they_were_read() {
    for (kind, text) in fixtures::ALL {
        let record = fixtures::record(kind);
        assert_eq!(record.to_json_pretty().as_deref(), Ok(*text), "{kind}");
        assert_eq!(record.body.kind(), *kind);
    }
}

#[test]
fn body_fields_are_at_the_level_of_the_envelope() {
    let value: Value = serde_json::from_str(&example::run().to_json_pretty().unwrap()).unwrap();
    assert_eq!(value["schema"], "linerate-record");
    assert_eq!(value["version"], "2.10");
    assert_eq!(value["kind"], "run");
    assert_eq!(value["workers"][0]["stages"][1]["ticks_per_packet"]["value"], 211.3);
    assert_eq!(value["warnings"][0]["code"], "not_idle");
}

#[test]
fn summary_has_the_bare_values() {
    let value: Value = serde_json::from_str(&example::run().to_json_pretty().unwrap()).unwrap();
    for (name, figure) in value["figures"].as_object().unwrap() {
        assert_eq!(value["summary"][name], figure["value"], "{name}");
    }
    let summary = &value["summary"];
    assert_eq!(summary["finding"], "verify takes 211 of 422 ticks");
    assert_eq!(summary["throughput_kpps"], 1234.5);
    assert_eq!(summary["line_rate_kpps"], Value::Null);
    assert_eq!(summary.as_object().unwrap().len(), value["figures"].as_object().unwrap().len());
}

/// Rows of a `kernels` record have the field names that scripts rely on.
#[test]
fn rows_of_kernels_have_their_names() {
    let value: Value = serde_json::from_str(&example::kernels().to_json_pretty().unwrap()).unwrap();
    assert_eq!(value["kind"], "kernels");
    let promised = |row: &Value| {
        json!([
            row["kernel"],
            row["variant"],
            row["size"],
            row["src_offset"],
            row["dst_offset"],
            row["state"],
            row["cycles"],
            row["bytes_per_cycle"],
            row["of_bound"]
        ])
    };
    let rows = value["rows"].as_array().unwrap();
    assert_eq!(
        promised(&rows[0]),
        json!(["copy_checksum", "selected", 1460, 14, 2, "warm", 58.4, 25.0, 1.08])
    );
    assert_eq!(
        promised(&rows[1]),
        json!(["checksum", "smoltcp", null, null, null, "cold", null, null, null])
    );
    assert_eq!(rows[1]["mix"], "uniform_20_1500");
    assert_eq!(rows[1]["reason"], "stopped before the first round was over");
}

#[test]
fn a_newer_minor_version_is_read_without_what_is_new() {
    let json = changed(|v| {
        v["version"] = json!("2.99");
        v["weather"] = json!({"rain": true});
        v["workers"][0]["colour"] = json!("red");
        v["warnings"][0] = json!({"code": "solar_flare", "kelvin": 6000});
    });
    let read = Record::from_json(&json).unwrap();
    assert_eq!(read.body, Body::Run(Box::new(example::run_report())));
}

#[test]
fn another_major_version_is_refused() {
    for version in ["3.0", "0.9"] {
        let error = refused(|v| v["version"] = json!(version));
        assert_eq!(error, ReadError::OtherVersion { version: version.to_owned() });
        assert!(error.to_string().contains("this linerate reads 2.x and 1.x"), "{error}");
    }
}

#[test]
fn what_is_not_a_record_is_refused() {
    let found = |json: &str| match Record::from_json(json) {
        Err(ReadError::NotARecord { found }) => found,
        other => panic!("{json}: {other:?}"),
    };
    assert_eq!(found("[1]"), "not a JSON object");
    assert_eq!(found("{}"), "`schema` is missing");
    assert_eq!(found(r#"{"schema": "criterion"}"#), "`schema` is `criterion`");
    assert_eq!(found(&changed(|v| v["version"] = json!("latest"))), "`version` is `latest`");
    assert_eq!(found(&changed(|v| v["version"] = json!(1.0))), "`version` is not a string");
    assert_eq!(
        found(&changed(|v| drop(v.as_object_mut().unwrap().remove("kind")))),
        "`kind` is missing"
    );
}

#[test]
fn an_unknown_kind_is_refused() {
    let error = refused(|v| v["kind"] = json!("weather"));
    assert_eq!(error, ReadError::UnknownKind { kind: "weather".to_owned() });
}

#[test]
fn distinguishes_truncated_from_invalid_text() {
    let json = example::run().to_json_pretty().unwrap();
    let cut = &json[..json.len() / 2];
    let end = cut.lines().count();
    match Record::from_json(cut).unwrap_err() {
        ReadError::Truncated { line, .. } => assert_eq!(line, end),
        other => panic!("{other:?}"),
    }
    assert!(matches!(Record::from_json(""), Err(ReadError::Truncated { .. })));
    match Record::from_json("{\n  \"schema\": linerate}").unwrap_err() {
        ReadError::Syntax { line: 2, column: 13, message } => assert_eq!(message, "expected value"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_missing_field_is_named_with_its_place() {
    let json = changed(|v| {
        v["workers"][0]["stages"][1].as_object_mut().unwrap().remove("packets");
    });
    let ReadError::Field { field, message, line, column } = Record::from_json(&json).unwrap_err()
    else {
        panic!("not a field error");
    };
    assert_eq!(
        (field.as_str(), message.as_str()),
        ("workers[0].stages[1]", "missing field `packets`")
    );
    // The position in the error is that of the closing brace of the stage.
    assert_eq!(json.lines().nth(line - 1).unwrap()[..column].trim(), "}");
}

#[test]
fn a_field_of_another_type_is_named() {
    let field = |change: fn(&mut Value)| match refused(change) {
        ReadError::Field { field, .. } => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(field(|v| v["provenance"]["cpus"] = json!(4)), "provenance.cpus");
    assert_eq!(field(|v| v["elapsed_s"] = json!(null)), "elapsed_s");
    assert_eq!(field(|v| v["rings"][0]["held"] = json!(-1)), "rings[0].held");
    assert_eq!(field(|v| drop(v.as_object_mut().unwrap().remove("summary"))), ".");
}

/// Derived values are not trusted: a record in which they contradict the body must have been edited
/// and is rejected.
#[test]
fn what_does_not_follow_is_refused_by_name() {
    let name = |change: fn(&mut Value)| match refused(change) {
        ReadError::Changed { field } => field,
        other => panic!("{other:?}"),
    };
    type Change = fn(&mut Value);
    let changes: [(Change, &str); 7] = [
        (|v| v["summary"]["throughput_kpps"] = json!(1300.0), "summary.throughput_kpps"),
        (|v| v["summary"]["extra"] = json!(null), "summary.extra"),
        (|v| drop(v["summary"].as_object_mut().unwrap().remove("finding")), "summary.finding"),
        (|v| v["figures"]["flow_kpps"] = v["figures"]["kernels"].clone(), "figures.flow_kpps"),
        (|v| v["figures"]["latency_p50_ns"]["n"] = json!(1_000_000), "figures.latency_p50_ns"),
        (|v| v["throughput_kpps"]["value"] = json!(9e9), "figures.throughput_kpps"),
        (|v| drop(v["warnings"].as_array_mut().unwrap().pop()), "warnings"),
    ];
    for (change, field) in changes {
        assert_eq!(name(change), field);
    }
}

/// Another build may compute the last bit of a derived number differently, because its C library
/// does. A larger difference is a change.
#[test]
fn the_last_bit_of_a_derived_number_may_differ() {
    let nudged = |factor: f64| {
        let mut value: Value =
            serde_json::from_str(&example::run().to_json_pretty().unwrap()).unwrap();
        for pointer in [
            "/figures/throughput_kpps/value",
            "/figures/throughput_kpps/low",
            "/figures/throughput_kpps/high",
            "/summary/throughput_kpps",
        ] {
            let number = value.pointer_mut(pointer).expect("it is derived");
            let shifted = number.as_f64().map(|number| json!(number * factor));
            *number = shifted.unwrap_or_else(|| number.clone());
        }
        Record::from_json(&value.to_string())
    };
    assert!(nudged(1.0 + 2.0 * f64::EPSILON).is_ok());
    assert!(nudged(1.0 - 2.0 * f64::EPSILON).is_ok());
    assert!(matches!(nudged(1.0 + 1e-6), Err(ReadError::Changed { .. })));
}

/// Other versions may word methods differently. This is not an error if the figure is otherwise
/// unchanged.
#[test]
fn the_wording_of_a_method_may_differ() {
    let json = changed(|value| {
        value["figures"]["throughput_kpps"]["method"] = json!("as an earlier version worded it");
    });
    assert!(matches!(Record::from_json(&json).unwrap().body, Body::Run(_)));
}

/// All numbers behind the figures round-trip, so derived values are identical after reading.
#[test]
fn every_example_says_what_follows() {
    for record in example::all() {
        let read = Record::from_json(&record.to_json_pretty().unwrap()).unwrap();
        assert_eq!(read.figures(), record.figures());
        assert_eq!(read.summary(), record.summary());
        assert_eq!(read.warnings(), record.warnings());
    }
}

/// An earlier version derived different figures, so its figures are compared only with the record's
/// own summary.
#[test]
fn an_earlier_version_is_read_if_it_agrees_with_itself() {
    let earlier = |change: fn(&mut Value)| {
        changed(|v| {
            v["version"] = json!("1.3");
            drop(v.as_object_mut().unwrap().remove("finding"));
            drop(v["provenance"].as_object_mut().unwrap().remove("others"));
            change(v);
        })
    };
    let read = Record::from_json(&earlier(|_| ())).unwrap();
    let share = read.provenance.others.and_then(|others| others.as_number());
    assert_eq!(share, Some(0.25), "of the warning");
    let error = Record::from_json(&earlier(|v| v["summary"]["throughput_kpps"] = json!(1.0)));
    let field = "summary.throughput_kpps".to_owned();
    assert_eq!(error.unwrap_err(), ReadError::Changed { field });
}

/// The sum of an empty float iterator is -0.0.
#[test]
fn zero_has_no_sign() {
    let nothing: f64 = [0.0; 0].iter().sum();
    let estimate = Estimate { low: nothing, ..Estimate::exactly(nothing) };
    let figures =
        [Figure::exact("", nothing, Tier::Sw, ""), Figure::number("", estimate, Tier::Sw, "")];
    for figure in figures {
        assert!(!serde_json::to_string(&figure).unwrap().contains("-0"), "{figure:?}");
    }
}

#[test]
fn numbers_that_are_none_never_reach_json() {
    let mut record = example::run();
    let Body::Run(report) = &mut record.body else { unreachable!() };
    report.elapsed_s = f64::NAN;
    let error = record.to_json_pretty().unwrap_err();
    assert_eq!(error.field, "elapsed_s");
    assert_eq!(error.message, "NaN is not a finite number");

    let with_rate = |change: fn(&mut Figure)| {
        let mut record = example::run();
        let Body::Run(report) = &mut record.body else { unreachable!() };
        change(&mut report.throughput_kpps);
        record
    };
    assert!(with_rate(|rate| rate.value = Scalar::Number(f64::INFINITY)).to_json_pretty().is_err());
    let record = with_rate(|rate| rate.low = Some(f64::NAN));
    let read = Record::from_json(&record.to_json_pretty().unwrap()).unwrap();
    assert_eq!(read.figures()["throughput_kpps"].low, None);
}

#[test]
fn figures_without_a_number_say_why() {
    let figure = Figure::exact("ratio", f64::NAN, Tier::Sw, "division");
    assert_eq!((figure.value, figure.n), (Scalar::Absent, 0));
    assert!(figure.reason.is_some());
}

/// Descends into a JSON value along a path of indices, each modulo the number of children.
fn descend<'a>(mut value: &'a mut Value, path: &[usize]) -> &'a mut Value {
    for &step in path {
        let value_len = match value {
            Value::Object(map) => map.len(),
            Value::Array(list) => list.len(),
            _ => 0,
        };
        if value_len == 0 {
            break;
        }
        value = match value {
            Value::Object(map) => map.values_mut().nth(step % value_len).unwrap(),
            Value::Array(list) => &mut list[step % value_len],
            _ => unreachable!(),
        };
    }
    value
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        Just(json!(-1)),
        Just(json!(1e300)),
        Just(json!("text")),
        Just(json!([])),
        Just(json!([1, 2])),
        Just(json!({"packets": 1})),
    ]
}

/// Asserts that a text is either read or rejected with a message, and that whatever is read can be
/// written and read again.
fn is_answered(json: &str) {
    match Record::from_json(json) {
        Ok(record) => {
            let again = record.to_json_pretty().unwrap();
            assert_eq!(Record::from_json(&again).unwrap(), record);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_record_with_a_value_replaced_is_answered(
        path in prop::collection::vec(0usize..20, 1..6),
        value in any_value(),
    ) {
        is_answered(&changed(|v| *descend(v, &path) = value));
    }

    #[test]
    fn a_record_with_bytes_changed_is_answered(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
        shorten in any::<bool>(),
    ) {
        let mut bytes = example::tune().to_json_pretty().unwrap().into_bytes();
        for (index, byte) in edits {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        if shorten {
            bytes.truncate(cut.index(bytes.len()));
        }
        is_answered(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_finite_number_comes_back_bit_for_bit(
        x in prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL,
    ) {
        let mut record = example::run();
        let Body::Run(report) = &mut record.body else { unreachable!() };
        report.throughput_kpps = Figure::exact("", x, Tier::Sw, "");
        let read = Record::from_json(&record.to_json_pretty().unwrap()).unwrap();
        let figures = read.figures();
        prop_assert_eq!(figures["throughput_kpps"].as_number().unwrap().to_bits(), x.to_bits());
    }
}
