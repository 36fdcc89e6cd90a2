// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate stages`: lists the stage kinds.

use crate::appearance::{self, Form};
use crate::args::StagesArgs;
use crate::emit;
use crate::failure::Failure;
use crate::kinds::{load_plugin, specs};
use linerate_path::class::PacketClass;
use linerate_path::spec::{Default as Omitted, ParamKind, ParamSpec, StageSpec, State};
use linerate_path::suggest;
use serde_json::{Value, json};
use std::path::Path;

/// Prints the stage kinds.
pub(crate) fn stages(args: &StagesArgs) -> Result<String, Failure> {
    let mut chosen = specs().stages.to_vec();
    if let Some(object) = args.kind.as_ref().filter(|kind| kind.contains('/')) {
        chosen = vec![load_plugin(object, Path::new(object)).map_err(Failure::new)?];
    } else if let Some(kind) = &args.kind {
        chosen.retain(|spec| spec.kind == kind);
        if chosen.is_empty() {
            let help = suggest::help(kind, specs().stages.iter().map(|spec| spec.kind));
            return Err(Failure::new(format!("unknown stage kind '{kind}'; {help}")));
        }
    }
    if args.json || appearance::form() == Some(Form::Json) {
        let all: Vec<Value> = chosen.iter().map(json_of).collect();
        return Ok(format!("{:#}\n", Value::Array(all)));
    }
    if args.kind.is_none() && !args.details && !appearance::details() {
        return Ok(overview(&chosen));
    }
    let texts: Vec<String> = chosen.iter().map(text_of).collect();
    let footer =
        if args.kind.is_none() { format!("\n{}", of_every_stage()) } else { String::new() };
    Ok(texts.join("\n") + &footer)
}

/// Returns a one-screen overview: all stage kinds, with a short description of each.
fn overview(specs: &[StageSpec]) -> String {
    let indent = 2 + specs.iter().map(|spec| spec.kind.len()).max().unwrap_or(0);
    let mut text = String::new();
    for spec in specs {
        let purpose = linerate_report::paragraph(spec.help, indent, &emit::style());
        text += spec.kind;
        text += &purpose[spec.kind.len()..];
    }
    text + "\nevery stage also takes `name` and `only`, a class of packets (see --details)\n\
            linerate stages KIND|./FILE.so shows a kind's parameters; --details shows all\n"
}

/// Describes the keys that stages of all kinds have in common.
fn of_every_stage() -> String {
    let classes = PacketClass::WORDS.join(" | ");
    let text =
        format!("every stage also has `name`, and `only` = {classes} (which packets it processes)");
    linerate_report::paragraph(&text, 0, &emit::style())
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
        State::Global => "shared by all packets",
    }
}

fn text_of(spec: &StageSpec) -> String {
    let style = emit::style();
    let paragraph = |text: &str, indent| linerate_report::paragraph(text, indent, &style);
    let mut text = format!("{}\n{}", spec.kind, paragraph(spec.help, 4));
    let forbids = forbids(spec);
    let forbids = if forbids.is_empty() { "nothing".to_owned() } else { forbids.join(", ") };
    let needs = if spec.needs_headers { "; must follow parse" } else { "" };
    text += &paragraph(&format!("state: {}; forbids: {forbids}{needs}", state(spec)), 4);
    for param in spec.params {
        let default = match param.default {
            Omitted::Required => "required".to_owned(),
            Omitted::Absent(meaning) => format!("default: {meaning}"),
            _ => format!("default {}", default_of(param)),
        };
        let kind = kind_of(param);
        // This line is not wrapped, so that it can be copied.
        text += &format!("    {} = {kind}, {default}\n", param.name);
        text += &paragraph(param.help, 8);
    }
    if !spec.drop_causes.is_empty() {
        text += &paragraph(&format!("drops: {}", spec.drop_causes.join(", ")), 4);
    }
    text
}

fn kind_of(param: &ParamSpec) -> String {
    match param.kind {
        ParamKind::Bool => "true | false".to_owned(),
        ParamKind::Integer { min, max } => format!("{min} to {max}"),
        ParamKind::Text => "text".to_owned(),
        ParamKind::Word(words) => words.join(" | "),
        ParamKind::Texts => "list of strings".to_owned(),
        ParamKind::Number { max } => format!("0 to {max}"),
    }
}

fn default_of(param: &ParamSpec) -> Value {
    match param.default {
        Omitted::Required | Omitted::Absent(_) => Value::Null,
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
