// SPDX-License-Identifier: MIT OR Apache-2.0
//! Upgrades 1.x records to the field names of version 2.0 before deserialisation.
//!
//! Version 2.0 renamed fields without changing values, units or meanings, so names are simply
//! replaced throughout the record. Fields missing in 1.x become `null`.
//!
//! | 1.x | 2.0 | where |
//! |---|---|---|
//! | `octets` as a word of a name | `bytes` | everywhere |
//! | `strand`, `strands` in the same way | `worker`, `workers` | `run`, `tune`, `plan`; warnings |
//! | `tiers`; `tier` of a load, not of a figure | `levels`, `level` | `memory` |
//! | see [`SINGLE`] | | everywhere |
//!
//! Version 2.0 derives `figures` and `warnings` from the body. In versions 1.0 to 1.3 they held
//! values of their own, which are moved to the body by [`with_stated`].

use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// Individually renamed fields, as old and new name.
const SINGLE: [(&str, &str); 8] = [
    ("bits_per_second", "bits_per_s"),
    ("is_interrupted", "interrupted"),
    ("lost_to_preemption", "preempted"),
    ("one_turn_in", "one_iteration_in"),
    ("packets_tier", "packets_level"),
    ("seconds", "elapsed_s"),
    ("ticks_per_second", "ticks_per_s"),
    ("unix_seconds", "unix_s"),
];

/// Converts a 1.x record to the field names of version `major`.0. Returns its text and original
/// version. Any other text, even if it is invalid, is returned unchanged.
pub(crate) fn to_current(json: &str, major: u32) -> (Cow<'_, str>, Option<String>) {
    let unchanged = (Cow::Borrowed(json), None);
    let Ok(Value::Object(mut record)) = serde_json::from_str(json) else { return unchanged };
    let version = match record.get("version") {
        Some(Value::String(version)) if version.starts_with("1.") => version.clone(),
        _ => return unchanged,
    };
    let kind = record.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    let warnings = record.remove("warnings");
    let mut record = Value::Object(renamed(record, &kind));
    record["version"] = Value::String(format!("{major}.0"));
    if let Some(warnings) = warnings {
        record["warnings"] = deep(warnings, "run");
    }
    with_stated(&mut record, &kind);
    let json = serde_json::to_string_pretty(&record).expect("a parsed value can be serialized");
    (Cow::Owned(json), Some(version))
}

/// Moves values that 1.x stored only in `figures` and `warnings` into the body: a `stat` record's
/// times and remarks, a `run` record's bottleneck and packet cache level, and the CPU load from
/// other programs.
fn with_stated(record: &mut Value, kind: &str) {
    let stated = |name: &str| record["figures"].get(name).cloned();
    let mut found: Vec<(&str, Option<Value>)> = Vec::new();
    match kind {
        "stat" => {
            found.push(("times", Some(times(record))));
            found.push(("remarks", Some(warnings(record, &REMARKS).collect())));
        }
        "run" => {
            let home = || {
                Some(json!({
                    "bytes": stated("packets_bytes")?,
                    "level": stated("packets_level")?,
                    "miss_ns": stated("packets_miss_ns")?,
                    "miss_cycles": stated("packets_miss_cycles")?,
                    "sentence": null,
                }))
            };
            found.extend([("finding", finding(record)), ("packets_home", home())]);
        }
        _ => {}
    }
    let others = warnings(record, &["not_idle"]).next().map(|warning| others(&warning["share"]));
    for (name, value) in found {
        add(record, name, value);
    }
    if record["provenance"].is_object() {
        add(&mut record["provenance"], "others", others);
    }
}

/// Adds a field if there is a value and the object lacks the field.
fn add(object: &mut Value, name: &str, value: Option<Value>) {
    if let (None, Some(value)) = (object.get(name), value) {
        object[name] = value;
    }
}

/// Codes of simulator warnings, which cannot be derived from counts.
const REMARKS: [&str; 5] = [
    "unknown_instruction",
    "unfinished_processes",
    "uncounted_processes",
    "overwritten_counts",
    "unfollowed_program",
];

fn warnings<'a>(record: &'a Value, codes: &'a [&str]) -> impl Iterator<Item = Value> + 'a {
    let all = record["warnings"].as_array().into_iter().flatten();
    let is_wanted = |warning: &&Value| warning["code"].as_str().is_some_and(|c| codes.contains(&c));
    all.filter(is_wanted).cloned()
}

/// Returns the figures of a `stat` record other than metrics, event counts, and counts per unit of
/// work.
fn times(record: &Value) -> Value {
    let names = |list: &str| -> Vec<&str> {
        let entries = record[list].as_array().into_iter().flatten();
        entries.filter_map(|entry| entry["name"].as_str()).collect()
    };
    let (events, metrics) = (names("events"), names("metrics"));
    let is_of_event = |name: &str| {
        events.iter().any(|event| {
            name.strip_prefix(event)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with("_per_"))
        })
    };
    let figures = record["figures"].as_object().into_iter().flatten();
    let times = figures.filter(|(name, _)| !is_of_event(name) && !metrics.contains(&name.as_str()));
    times.map(|(name, figure)| (name.clone(), figure.clone())).collect::<Map<_, _>>().into()
}

/// Returns the path's bottleneck if the record names the stage.
fn finding(record: &Value) -> Option<Value> {
    let text = |name: &str| record["figures"][name]["value"].as_str();
    let (bottleneck, sentence) = (text("bottleneck")?, text("finding")?);
    Some(json!({
        "limit": "processing",
        "bottleneck": bottleneck,
        "worker": null,
        "sentence": sentence,
    }))
}

/// Returns other programs' share of CPU time as a figure. In 1.x, it was stored only as a warning.
fn others(share: &Value) -> Value {
    json!({
        "value": share, "unit": "ratio", "n": 1, "low": share, "high": null, "confidence": null,
        "tier": "sw", "method": "taken from a warning in the original record", "reason": null,
    })
}

/// Renames all fields of `value` recursively, for a record of kind `kind`.
fn deep(value: Value, kind: &str) -> Value {
    match value {
        Value::Object(object) => Value::Object(renamed(object, kind)),
        Value::Array(items) => items.into_iter().map(|item| deep(item, kind)).collect(),
        other => other,
    }
}

fn renamed(object: Map<String, Value>, kind: &str) -> Map<String, Value> {
    let is_figure = object.contains_key("method");
    let entries = object.into_iter().map(|(name, value)| {
        let value = match value {
            Value::String(text) => Value::String(text_of(&name, text, kind)),
            other => deep(other, kind),
        };
        (name_of(&name, kind, is_figure), value)
    });
    entries.collect()
}

fn name_of(name: &str, kind: &str, is_figure: bool) -> String {
    if let Some((_, now)) = SINGLE.iter().find(|(before, _)| *before == name) {
        return (*now).to_owned();
    }
    match name {
        "tiers" if kind == "memory" => "levels".to_owned(),
        "tier" if kind == "memory" && !is_figure => "level".to_owned(),
        _ => name.split('_').map(|word| word_of(word, kind)).collect::<Vec<_>>().join("_"),
    }
}

fn word_of<'a>(word: &'a str, kind: &str) -> &'a str {
    let has_workers = ["run", "tune", "plan"].contains(&kind);
    match word {
        "octets" => "bytes",
        "strand" if has_workers => "worker",
        "strands" if has_workers => "workers",
        _ => word,
    }
}

/// Updates strings that contain old terms: the unit `octets`, and level names such as
/// `tier of 6 MiB`.
fn text_of(field: &str, text: String, kind: &str) -> String {
    match (field, text.strip_prefix("tier of ")) {
        ("name", Some(size)) if kind == "memory" => format!("level of {size}"),
        ("unit", _) if text == "octets" => "bytes".to_owned(),
        _ => text,
    }
}
