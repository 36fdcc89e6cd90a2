// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the schema and the user reference with the parser.

use crate::generate::{cases, file};
use crate::kinds::{KINDS, STEM};
use crate::validator::Validator;
use linerate_path::check::read;
use linerate_path::help::help;
use linerate_path::schema::schema;
use linerate_path::spec::{Default, ParamKind, ParamSpec, StageSpec};
use proptest::prelude::*;
use serde_json::{Map, Value};
use toml_edit::{Item, Value as Toml};

fn json_of_value(value: &Toml) -> Value {
    match value {
        Toml::String(text) => text.value().as_str().into(),
        Toml::Integer(number) => (*number.value()).into(),
        Toml::Float(number) => (*number.value()).into(),
        Toml::Boolean(flag) => (*flag.value()).into(),
        Toml::Datetime(time) => time.value().to_string().into(),
        Toml::Array(array) => array.iter().map(json_of_value).collect(),
        Toml::InlineTable(table) => {
            Value::Object(table.iter().map(|(k, v)| (k.to_owned(), json_of_value(v))).collect())
        }
    }
}

fn json_of_table<'a>(entries: impl Iterator<Item = (&'a str, &'a Item)>) -> Value {
    let entry = |(key, item): (&str, &Item)| {
        let value = match item {
            Item::Value(value) => json_of_value(value),
            Item::Table(table) => json_of_table(table.iter()),
            Item::ArrayOfTables(tables) => {
                tables.iter().map(|table| json_of_table(table.iter())).collect()
            }
            Item::None => Value::Null,
        };
        (key.to_owned(), value)
    };
    Value::Object(entries.map(entry).collect::<Map<_, _>>())
}

fn json_of(text: &str) -> Value {
    let document: toml_edit::DocumentMut = text.parse().expect("it is TOML");
    json_of_table(document.iter())
}

/// Files that the schema must reject. The schema covers values individually, but not constraints
/// between keys.
const WRONG: &[&str] = &[
    "nmae = 'x'",
    "name = ''",
    "name = 3",
    "[lines]",
    "[line]",
    "[line]\nrate = '10Gb/s'\nports = 0",
    "[sink]\nkind = 'file'",
    "[sink]\nkind = 'capture'",
    "[sink]\npackets = 1",
    "[mapping]",
    "[mapping]\nworkers = []",
    "[mapping]\nworkers = [{ stages = [] }]",
    "[mapping]\nworkers = [{ stages = ['parse'], replicas = 65 }]",
    "[mapping]\nworkers = [{ stages = ['parse'], cpus = [-1] }]",
    "[run]\nring = 300",
    "[run]\nburst = '32'",
    "[run]\nfull_ring = 'x'",
    "[run]\ntime = 2",
    "[idle]\npolicy = 'doze'",
    "[idle]\npark_after = 3",
    "[mapping]\nworkers = [{ stages = ['parse'], idle = 'doze' }]",
    "[[stage]]\nkind = 'xyz'",
    "[[stage]]",
    "[[stage]]\nkind = 'count'\nname = 'a b'",
    "[[stage]]\nkind = 'count'\nrules = []",
    "[[stage]]\nkind = 'filter'\nrules = [3]",
    "[[stage]]\nkind = 'nat44'",
    "[[stage]]\nkind = 'nat44'\noutside = 'x'\nflows = 0",
];

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn the_schema_accepts_what_is_read(file in file()) {
        let schema = Validator::new(&schema(KINDS).to_string());
        prop_assert_eq!(schema.verdict(&json_of(&file.text)), Ok(()), "{}", file.text);
    }
}

#[test]
fn the_schema_refuses_what_is_refused() {
    let schema = Validator::new(&schema(KINDS).to_string());
    let good = "stage = [{ kind = 'parse' }]\nsource = { kind = 'generator' }\n";
    assert_eq!(schema.verdict(&json_of(good)), Ok(()));
    for wrong in WRONG {
        let text = match wrong.strip_prefix("[[stage]]") {
            Some(stage) => format!(
                "source = {{ kind = 'generator' }}\n[[stage]]\nkind = 'parse'\n[[stage]]{stage}\n"
            ),
            None => format!("{good}{wrong}\n"),
        };
        assert!(read(&text, STEM, KINDS).is_err(), "{wrong}");
        assert!(schema.verdict(&json_of(&text)).is_err(), "{wrong}");
    }
    for source in ["", "kind = 'capture'", "kind = 'generator'\nsizes = [59]", "kind = 3"] {
        let text = format!("stage = [{{ kind = 'parse' }}]\n[source]\n{source}\n");
        assert!(read(&text, STEM, KINDS).is_err(), "{source}");
        assert!(schema.verdict(&json_of(&text)).is_err(), "{source}");
    }
}

const REFERENCE: &str = include_str!("../../../../docs/path.md");

/// Returns the reference's fenced code blocks in the given language.
fn blocks(language: &str) -> Vec<String> {
    let opening = format!("```{language}\n");
    let block = |part: &str| part.split("```").next().unwrap_or_default().to_owned();
    REFERENCE.split(&opening).skip(1).map(block).collect()
}

/// Returns the stage kinds used by the example in the reference, with their parameters.
fn example_kinds() -> Vec<StageSpec> {
    const fn param(name: &'static str, kind: ParamKind, default: Default) -> ParamSpec {
        ParamSpec { name, kind, default, help: "A parameter." }
    }
    const OTHER: &[ParamSpec] =
        &[param("other", ParamKind::Word(&["drop", "pass"]), Default::Text("drop"))];
    const L4: &[ParamSpec] = &[param("l4", ParamKind::Bool, Default::Bool(true))];
    const RULES: &[ParamSpec] = &[param("rules", ParamKind::Texts, Default::EmptyTexts)];
    const NAT44: &[ParamSpec] = &[
        param("inside", ParamKind::Text, Default::Required),
        param("outside", ParamKind::Text, Default::Required),
    ];
    const FORWARD: &[ParamSpec] = &[
        param("source_mac", ParamKind::Text, Default::Required),
        param("next_hop_mac", ParamKind::Text, Default::Text("")),
    ];
    let kinds: [(&'static str, &'static [ParamSpec]); 5] = [
        ("parse", OTHER),
        ("verify", L4),
        ("filter", RULES),
        ("nat44", NAT44),
        ("forward", FORWARD),
    ];
    let parse = KINDS.stages[0];
    kinds.map(|(kind, params)| StageSpec { kind, params, ..parse }).to_vec()
}

#[test]
fn the_example_of_the_reference_is_a_path() {
    let examples = blocks("toml");
    assert!(!examples.is_empty(), "docs/path.md has an example");
    for example in examples {
        if let Err(problems) = read(&example, STEM, &example_kinds()) {
            panic!("{}", problems.display("docs/path.md"));
        }
    }
}

#[test]
fn the_help_has_every_parameter() {
    let help = help(KINDS);
    for spec in KINDS.stages {
        assert!(help.contains(&format!("  kind = \"{}\": {}\n", spec.kind, spec.help)));
    }
    for line in [
        "    l4 - true or false; default true\n",
        "    rules - a list of strings; default []\n",
        "    otherwise - one of 'pass', 'drop'; default \"pass\"\n",
        "    outside - a string; required\n",
        "    flows - an integer from 1 to 65536; default 4096\n",
    ] {
        assert!(help.contains(line), "{line}");
    }
}
