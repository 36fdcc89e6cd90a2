// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate stages`: what a path can be made of.

use crate::args::StagesArgs;
use crate::failure::Failure;
use crate::kinds::specs;
use linerate_path::spec::{Default as Omitted, ParamKind, ParamSpec, StageSpec, State};
use serde_json::{Value, json};
use std::fmt::Write;

/// Prints the kinds of stage.
pub(crate) fn stages(args: &StagesArgs) -> Result<String, Failure> {
    let mut chosen = specs();
    if let Some(kind) = &args.kind {
        chosen.retain(|spec| spec.kind == kind);
        if chosen.is_empty() {
            let all: Vec<_> = specs().iter().map(|spec| spec.kind).collect();
            let known = all.join(", ");
            return Err(Failure::new(format!("no stage of kind '{kind}'; there are: {known}")));
        }
    }
    if args.json {
        let all: Vec<Value> = chosen.iter().map(json_of).collect();
        return Ok(format!("{:#}\n", Value::Array(all)));
    }
    let texts: Vec<String> = chosen.iter().map(text_of).collect();
    Ok(texts.join("\n"))
}

fn forbids(spec: &StageSpec) -> Vec<&'static str> {
    let mut forbids = Vec::new();
    if spec.state == State::Global {
        forbids.push("replication");
    }
    if spec.keeps_order {
        forbids.push("reordering");
    }
    forbids
}

fn state(spec: &StageSpec) -> &'static str {
    match spec.state {
        State::None => "none",
        State::PerFlow => "per flow",
        State::Global => "one for all packets",
    }
}

fn text_of(spec: &StageSpec) -> String {
    let mut text = format!("{}\n    {}\n", spec.kind, spec.help);
    let forbids = forbids(spec);
    let forbids = if forbids.is_empty() { "nothing".to_owned() } else { forbids.join(", ") };
    let needs = if spec.needs_headers { "; stands behind parse" } else { "" };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "    state: {}; forbids: {forbids}{needs}", state(spec));
    for param in spec.params {
        let default = match default_of(param) {
            Value::Null => "required".to_owned(),
            value => format!("default {value}"),
        };
        let kind = kind_of(param);
        let _ = writeln!(text, "    {} = {kind}, {default}\n        {}", param.name, param.help);
    }
    if !spec.drop_causes.is_empty() {
        let _ = writeln!(text, "    drops: {}", spec.drop_causes.join(", "));
    }
    text
}

fn kind_of(param: &ParamSpec) -> String {
    match param.kind {
        ParamKind::Bool => "true | false".to_owned(),
        ParamKind::Integer { min, max } => format!("{min} to {max}"),
        ParamKind::Text => "text".to_owned(),
        ParamKind::Word(words) => words.join(" | "),
        ParamKind::Texts => "list of texts".to_owned(),
    }
}

fn default_of(param: &ParamSpec) -> Value {
    match param.default {
        Omitted::Required => Value::Null,
        Omitted::Bool(value) => json!(value),
        Omitted::Integer(value) => json!(value),
        Omitted::Text(value) => json!(value),
        Omitted::EmptyTexts => json!([]),
    }
}

fn json_of(spec: &StageSpec) -> Value {
    let params = spec.params.iter().map(|param| {
        json!({
            "name": param.name,
            "type": kind_of(param),
            "default": default_of(param),
            "required": param.default == Omitted::Required,
            "help": param.help,
        })
    });
    json!({
        "kind": spec.kind,
        "help": spec.help,
        "state": state(spec),
        "forbids": forbids(spec),
        "needs_headers": spec.needs_headers,
        "params": params.collect::<Vec<_>>(),
        "drop_causes": spec.drop_causes,
    })
}
