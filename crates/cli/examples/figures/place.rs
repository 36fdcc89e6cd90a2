// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks up a figure in the records of a run, given its path.
//!
//! ```text
//! kpps                                      the figure with this name
//! /rows/0/task/workers                      a value of the body; components are keys or indices
//! /regions/name=program/events/1/count      `KEY=VALUE` selects the first matching list entry;
//!                                           `~` in a value stands for `/`
//! 2:kpps                                    in the second record of the run
//! tuned_kpps over baseline_kpps             a quotient
//! ```

use linerate_record::Record;
use serde_json::Value;

/// A value with its interval, if any.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) value: f64,
    pub(crate) interval: Option<(f64, f64)>,
}

/// Returns the value at a path, or an error that explains why it is not a number.
pub(crate) fn find(records: &[Record], place: &str) -> Result<Found, String> {
    if let Some((above, under)) = place.split_once(" over ") {
        let value = find(records, above)?.value / find(records, under)?.value;
        return Ok(Found { value, interval: None });
    }
    let numbered = place.split_once(':');
    let numbered = numbered.and_then(|(n, rest)| Some((n.parse::<usize>().ok()?, rest)));
    let (number, place) = numbered.unwrap_or((1, place));
    let record = number.checked_sub(1).and_then(|at| records.get(at));
    let record = record.ok_or_else(|| format!("{place}: no record {number}"))?;
    let value = match place.strip_prefix('/') {
        Some(path) => in_body(record, path)?,
        None => {
            let figures = record.figures();
            let figure = figures.get(place).ok_or_else(|| format!("no figure {place}"))?;
            serde_json::to_value(figure).map_err(|error| error.to_string())?
        }
    };
    number_of(&value).ok_or_else(|| {
        let reason = value.get("reason").and_then(Value::as_str);
        reason.map_or_else(|| format!("{place}: not a number"), str::to_owned)
    })
}

fn in_body(record: &Record, path: &str) -> Result<Value, String> {
    let body = serde_json::to_value(&record.body).map_err(|error| error.to_string())?;
    let found = path.split('/').try_fold(&body, |value, part| step(value, part));
    found.cloned().ok_or_else(|| format!("/{path}: not in the record"))
}

fn step<'v>(value: &'v Value, part: &str) -> Option<&'v Value> {
    match (value, part.split_once('=')) {
        (Value::Array(list), Some((key, wanted))) => {
            let wanted = wanted.replace('~', "/");
            // Numbers are compared as JSON.
            let shown = |value: &Value| value.as_str().map_or(value.to_string(), str::to_owned);
            let is_wanted = |one: &&Value| one.get(key).map(shown).as_ref() == Some(&wanted);
            list.iter().find(is_wanted)
        }
        (Value::Array(list), None) => list.get(part.parse::<usize>().ok()?),
        _ => value.get(part),
    }
}

fn number_of(value: &Value) -> Option<Found> {
    let number = |key: &str| value.get(key).and_then(Value::as_f64);
    match value.as_f64() {
        Some(value) => Some(Found { value, interval: None }),
        None => {
            Some(Found { value: number("value")?, interval: number("low").zip(number("high")) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{find, step};
    use serde_json::{Value, json};

    fn at(value: &Value, path: &str) -> Option<Value> {
        path.split('/').try_fold(value, |value, part| step(value, part)).cloned()
    }

    #[test]
    fn a_path_selects_by_key_index_and_content() {
        let body = json!({"list": [{"name": "a", "n": 1}, {"name": "a/b", "cpu": 3, "n": [2]}]});
        assert_eq!(at(&body, "list/0/n"), Some(json!(1)));
        assert_eq!(at(&body, "list/name=a~b/n/0"), Some(json!(2)));
        assert_eq!(at(&body, "list/cpu=3/name"), Some(json!("a/b")));
        assert_eq!(at(&body, "list/2"), None);
        assert_eq!(at(&body, "nothing"), None);
    }

    #[test]
    fn a_record_that_is_not_there_is_named() {
        assert_eq!(find(&[], "2:kpps"), Err("kpps: no record 2".to_owned()));
    }
}
