// SPDX-License-Identifier: MIT OR Apache-2.0
//! Validates JSON values against a JSON schema. Shared by the tests of packet paths and of programs
//! that write records.

use serde_json::{Map, Value, json};

/// Validates values against the subset of JSON Schema used here. Panics on unknown keywords, so
/// that no keyword goes unchecked. A full JSON Schema crate would add 70 dependencies.
pub(crate) struct Validator {
    root: Value,
}

pub(crate) type Verdict = Result<(), String>;

impl Validator {
    pub(crate) fn new(schema: &str) -> Self {
        Self { root: serde_json::from_str(schema).unwrap() }
    }

    /// Validates a value. The error contains the location in the value and the violated keyword.
    pub(crate) fn verdict(&self, value: &Value) -> Verdict {
        self.check(value, &self.root, "")
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
            "$schema" | "$defs" | "title" | "description" | "format" | "default" => true,
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
                value.as_str().is_none_or(|text| matches(text, argument.as_str().unwrap()))
            }
            "minimum" => value.as_f64().is_none_or(|v| v >= argument.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|v| v <= argument.as_f64().unwrap()),
            "minLength" => value
                .as_str()
                .is_none_or(|s| s.chars().count() as u64 >= argument.as_u64().unwrap()),
            "required" => argument.as_array().unwrap().iter().all(|name| {
                value.as_object().is_none_or(|object| object.contains_key(name.as_str().unwrap()))
            }),
            "properties" => return self.properties(value, argument, at),
            "additionalProperties" if argument == &json!(false) => {
                let known = schema["properties"].as_object().unwrap();
                value.as_object().is_none_or(|o| o.keys().all(|name| known.contains_key(name)))
            }
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
            "uniqueItems" => {
                value.as_array().is_none_or(|v| (1..v.len()).all(|i| !v[..i].contains(&v[i])))
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

/// Returns whether the text matches `pattern`, which must be one of those in our schemas; panics
/// otherwise.
fn matches(text: &str, pattern: &str) -> bool {
    match pattern {
        r"^2\.[0-9]+$" => text.strip_prefix("2.").is_some_and(|m| m.parse::<u32>().is_ok()),
        "^[A-Za-z0-9_-]+$" => {
            !text.is_empty()
                && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        }
        other => panic!("the pattern {other} is not handled"),
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
