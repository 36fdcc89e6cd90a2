// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON schema of path files, for editors and programs that write them.
//!
//! The schema covers keys individually. Constraints between keys (matching names, stages that must
//! not be replicated) and the units of rates and times are only checked by
//! [`read`](crate::check::read).

use crate::keys::{FILE, Key, Kind, MAX_BUFFER_BYTES, MAX_STAGES, MAX_WORKERS};
use crate::keys::{MIN_FRAME_BYTES, Omitted, PORTS, Section, Variant};
use crate::spec::{Default, Kinds, PLUGIN, ParamKind};
use crate::value::IMIX;
use serde_json::{Map, Value, json};

/// Returns the JSON schema (draft 2020-12) of path files with the given kinds of stage and source.
pub fn schema<'k>(kinds: impl Into<Kinds<'k>>) -> Value {
    let mut schema = section(&FILE, kinds.into());
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("linerate packet path");
    schema
}

fn section(section: &Section, kinds: Kinds<'_>) -> Value {
    let variants = section.variants(kinds);
    let mut schema = if variants.is_empty() {
        table(section.keys.iter(), None, kinds)
    } else {
        let one = |variant: &Variant| {
            let keys = section.keys.iter().chain(&variant.keys);
            let mut schema = table(keys, Some(variant), kinds);
            schema["description"] = json!(variant.help);
            if variant.kind == PLUGIN {
                // The shared object declares the other keys.
                schema["additionalProperties"] = json!(true);
            }
            schema
        };
        json!({ "oneOf": variants.iter().map(one).collect::<Vec<_>>() })
    };
    schema["description"] = json!(section.help);
    schema
}

fn table<'k>(
    keys: impl Iterator<Item = &'k Key>,
    variant: Option<&Variant>,
    kinds: Kinds<'_>,
) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for key in keys {
        let mut schema = match (key.kind, variant) {
            (Kind::Variant, Some(variant)) => json!({ "const": variant.kind }),
            _ => value(&key.kind, kinds),
        };
        if !key.help.is_empty() {
            schema["description"] = json!(key.help);
        }
        if let Omitted::Is(default) = key.omitted
            && let Some(default) = json_of(default)
            && (key.kind != Kind::Variant || schema["const"] == default)
        {
            schema["default"] = default;
        } else if must_be_given(key) {
            required.push(key.name);
        }
        properties.insert(key.name.to_owned(), schema);
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// Returns whether a variant's schema requires the key. The key that selects the variant may be
/// omitted only for the default variant.
fn must_be_given(key: &Key) -> bool {
    key.is_required() || key.kind == Kind::Variant
}

fn json_of(default: Default) -> Option<Value> {
    match default {
        Default::Required | Default::Absent(_) => None,
        Default::Bool(value) => Some(json!(value)),
        Default::Integer(value) => Some(json!(value)),
        Default::Text(value) => Some(json!(value)),
        Default::EmptyTexts => Some(json!([])),
    }
}

fn value(kind: &Kind, kinds: Kinds<'_>) -> Value {
    match *kind {
        Kind::Param(ParamKind::Bool) => json!({ "type": "boolean" }),
        Kind::Param(ParamKind::Integer { min, max }) => integer(min, max),
        Kind::Param(ParamKind::Word(words)) => json!({ "enum": words }),
        Kind::Param(ParamKind::Texts) => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Param(ParamKind::Text)
        | Kind::Variant
        | Kind::BitRate
        | Kind::Duration
        | Kind::OfferedRate => json!({ "type": "string" }),
        Kind::Param(ParamKind::Number { max }) => {
            json!({ "type": "number", "minimum": 0, "maximum": max })
        }
        Kind::Label => json!({ "type": "string", "minLength": 1 }),
        Kind::Name => json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]+$" }),
        Kind::PowerOfTwo { min, max } => {
            let powers = (0..63).map(|shift| 1_i64 << shift);
            json!({ "enum": powers.filter(|n| (min..=max).contains(n)).collect::<Vec<_>>() })
        }
        Kind::Sizes => {
            let size = integer(i64::from(MIN_FRAME_BYTES), i64::from(MAX_BUFFER_BYTES));
            let list = json!({ "type": "array", "items": size, "minItems": 1 });
            json!({ "oneOf": [{ "const": IMIX }, size, list] })
        }
        Kind::Processors => {
            let (min, max) = Kind::CPU_RANGE;
            json!({ "type": "array", "items": integer(min, max), "uniqueItems": true })
        }
        Kind::StageNames => {
            json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 })
        }
        Kind::Table(inner) => section(inner, kinds),
        Kind::Tables(inner) => {
            let items = section(inner, kinds);
            // The limit for costs is higher: the ends of the path have costs too, and neighbours
            // (threads outside the path) have the same limit as workers.
            let of_costs = inner.title.starts_with("[[costs.");
            let most = match inner.title {
                "[[port]]" => PORTS,
                _ if of_costs => MAX_WORKERS,
                _ => MAX_STAGES,
            };
            json!({ "type": "array", "items": items, "minItems": 1, "maxItems": most })
        }
    }
}

fn integer(min: i64, max: i64) -> Value {
    json!({ "type": "integer", "minimum": min, "maximum": max })
}
