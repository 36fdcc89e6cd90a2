// SPDX-License-Identifier: MIT OR Apache-2.0
//! The published schema: the committed file is the generated one, and records obey it.

use crate::example;
use linerate_record::schema_json;
use serde_json::{Map, Value, json};

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

/// Checks values against the part of JSON Schema that the generator uses. It panics at a keyword it
/// does not know, so that none goes unchecked. A crate for all of JSON Schema has 70 dependencies.
struct Validator {
    root: Value,
}

type Verdict = Result<(), String>;

impl Validator {
    fn new() -> Self {
        Self { root: serde_json::from_str(&schema_json()).unwrap() }
    }

    fn check(&self, value: &Value, schema: &Value, at: &str) -> Verdict {
        let Value::Object(schema) = schema else {
            return if schema == &json!(true) { Ok(()) } else { Err(format!("{at}: forbidden")) };
        };
        for (keyword, argument) in schema {
            self.keyword(value, keyword, argument, schema, at)?;
        }
        Ok(())
    }

    fn keyword(
        &self,
        value: &Value,
        keyword: &str,
        argument: &Value,
        schema: &Map<String, Value>,
        at: &str,
    ) -> Verdict {
        let fits = |s: &Value| self.check(value, s, at).is_ok();
        let holds = match keyword {
            "$schema" | "$defs" | "title" | "description" | "format" => true,
            "$ref" => {
                let pointer = argument.as_str().unwrap().strip_prefix('#').unwrap();
                return self.check(value, self.root.pointer(pointer).unwrap(), at);
            }
            "type" => match argument {
                Value::Array(types) => types.iter().any(|t| has_type(value, t)),
                one => has_type(value, one),
            },
            "const" => value == argument,
            "enum" => argument.as_array().unwrap().contains(value),
            "pattern" => {
                assert_eq!(argument, r"^1\.[0-9]+$");
                let minor = value.as_str().and_then(|v| v.strip_prefix("1."));
                minor.is_some_and(|m| m.parse::<u32>().is_ok())
            }
            "minimum" => value.as_f64().is_none_or(|v| v >= argument.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|v| v <= argument.as_f64().unwrap()),
            "required" => argument.as_array().unwrap().iter().all(|name| {
                value.as_object().is_none_or(|object| object.contains_key(name.as_str().unwrap()))
            }),
            "properties" => return self.properties(value, argument, at),
            "additionalProperties" => {
                assert!(!schema.contains_key("properties"), "{at}: only maps are handled");
                let Some(object) = value.as_object() else {
                    return Ok(());
                };
                return object
                    .iter()
                    .try_for_each(|(name, v)| self.check(v, argument, &format!("{at}.{name}")));
            }
            "items" => {
                let Some(list) = value.as_array() else {
                    return Ok(());
                };
                return list.iter().try_for_each(|v| self.check(v, argument, &format!("{at}[]")));
            }
            "minItems" => {
                value.as_array().is_none_or(|v| v.len() as u64 >= argument.as_u64().unwrap())
            }
            "maxItems" => {
                value.as_array().is_none_or(|v| v.len() as u64 <= argument.as_u64().unwrap())
            }
            "anyOf" => argument.as_array().unwrap().iter().any(fits),
            "oneOf" => argument.as_array().unwrap().iter().filter(|s| fits(s)).count() == 1,
            other => panic!("{at}: keyword {other} is not handled"),
        };
        if holds { Ok(()) } else { Err(format!("{at}: {value} breaks {keyword}: {argument}")) }
    }

    fn properties(&self, value: &Value, properties: &Value, at: &str) -> Verdict {
        for (name, schema) in properties.as_object().unwrap() {
            if let Some(field) = value.get(name) {
                self.check(field, schema, &format!("{at}.{name}"))?;
            }
        }
        Ok(())
    }
}

fn has_type(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("type {other} is not handled"),
    }
}

fn verdict(value: &Value) -> Verdict {
    let validator = Validator::new();
    validator.check(value, &validator.root, "")
}

fn example_values() -> [Value; 6] {
    example::all().map(|record| serde_json::from_str(&record.to_json_pretty().unwrap()).unwrap())
}

#[test]
fn records_obey_the_schema() {
    for value in example_values() {
        assert_eq!(verdict(&value), Ok(()));
    }
}

#[test]
fn the_schema_refuses_what_reading_refuses() {
    let [run, _, _, stat, doctor, _] = example_values();
    let changes: [fn(&mut Value); 6] = [
        |v| v["schema"] = json!("other"),
        |v| v["version"] = json!("2.0"),
        |v| v["kind"] = json!("memory"),
        |v| drop(v.as_object_mut().unwrap().remove("strands")),
        |v| v["rings"][0]["held"] = json!(-1),
        |v| v["figures"]["third"]["tier"] = json!("guess"),
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
}

#[track_caller]
fn assert_refused(value: &Value, change: fn(&mut Value)) {
    let mut value = value.clone();
    change(&mut value);
    assert!(verdict(&value).is_err(), "the schema takes {value}");
    assert!(linerate_record::Record::from_json(&value.to_string()).is_err(), "{value} is read");
}
