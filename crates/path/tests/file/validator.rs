// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a JSON value obeys a JSON schema, for the keywords the schema of a path uses.
//!
//! Any other keyword is a panic, so that no rule of the schema is passed over in silence.

use serde_json::Value;

/// Whether `value` obeys `schema`.
pub(crate) fn obeys(value: &Value, schema: &Value) -> bool {
    let rules = schema.as_object().expect("a schema is an object");
    rules.iter().all(|(keyword, rule)| match keyword.as_str() {
        "$schema" | "title" | "description" | "default" => true,
        "const" => value == rule,
        "enum" => entries(rule).contains(value),
        "type" => has_type(value, rule),
        "oneOf" => entries(rule).iter().filter(|schema| obeys(value, schema)).count() == 1,
        "minimum" => within(value, rule, |n, least| n >= least, |n, least| n >= least),
        "maximum" => within(value, rule, |n, most| n <= most, |n, most| n <= most),
        "minLength" => value.as_str().is_none_or(|s| s.chars().count() as i64 >= whole(rule)),
        "pattern" => value.as_str().is_none_or(|s| is_name(s, rule)),
        "items" => value.as_array().is_none_or(|list| list.iter().all(|v| obeys(v, rule))),
        "minItems" => value.as_array().is_none_or(|list| list.len() as i64 >= whole(rule)),
        "maxItems" => value.as_array().is_none_or(|list| list.len() as i64 <= whole(rule)),
        "uniqueItems" => value
            .as_array()
            .is_none_or(|list| (1..list.len()).all(|i| !list[..i].contains(&list[i]))),
        "required" => {
            entries(rule).iter().all(|key| value.get(key.as_str().expect("a key")).is_some())
        }
        "properties" => {
            let schema_of = |key: &str| rule.get(key);
            let table = value.as_object();
            table.is_none_or(|t| {
                t.iter().all(|(key, v)| schema_of(key).is_none_or(|schema| obeys(v, schema)))
            })
        }
        "additionalProperties" => {
            assert_eq!(rule, &Value::Bool(false), "tables are closed");
            let known = rules.get("properties").expect("a closed table lists its keys");
            value.as_object().is_none_or(|t| t.keys().all(|key| known.get(key).is_some()))
        }
        other => panic!("the keyword '{other}' needs a line here"),
    })
}

fn entries(rule: &Value) -> &[Value] {
    rule.as_array().expect("a list")
}

/// Whole numbers are compared as such; numbers with a fraction may be on either side.
fn within(
    value: &Value,
    rule: &Value,
    whole: fn(i64, i64) -> bool,
    any: fn(f64, f64) -> bool,
) -> bool {
    match (value.as_i64(), rule.as_i64()) {
        (Some(n), Some(end)) => whole(n, end),
        _ => value.as_f64().is_none_or(|n| any(n, rule.as_f64().expect("a number"))),
    }
}

fn whole(rule: &Value) -> i64 {
    rule.as_i64().expect("a whole number")
}

fn has_type(value: &Value, rule: &Value) -> bool {
    match rule.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64(),
        Some("number") => value.is_number(),
        other => panic!("the type {other:?} needs a line here"),
    }
}

/// The one pattern there is.
fn is_name(text: &str, pattern: &Value) -> bool {
    assert_eq!(pattern, "^[A-Za-z0-9_-]+$");
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}
