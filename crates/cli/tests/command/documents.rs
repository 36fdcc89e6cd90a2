// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the path file reference with the actual stages.

use crate::rig::answered;
use linerate_path::check::read;
use linerate_path::help::help;
use linerate_path::spec::{Kinds, SourceSpec};
use linerate_stages::{KINDS, specs};

const REFERENCE: &str = include_str!("../../../../docs/path.md");

/// Returns the reference's fenced code blocks in the given language.
fn blocks(language: &str) -> Vec<String> {
    let opening = format!("```{language}\n");
    let block = |part: &str| part.split("```").next().unwrap_or_default().to_owned();
    REFERENCE.split(&opening).skip(1).map(block).collect()
}

#[test]
fn the_published_schemas_are_what_the_program_prints() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema");
    for format in ["record", "path"] {
        let file = format!("{folder}/{format}.json");
        let published = std::fs::read_to_string(&file).unwrap_or_default();
        let printed = answered(0, &["schema", format]);
        assert!(published == printed, "{file} is old; run `cargo xtask schema`");
    }
}

#[test]
fn the_example_of_the_reference_is_a_path_of_real_stages() {
    let examples = blocks("toml");
    assert!(!examples.is_empty(), "docs/path.md has an example");
    for example in examples {
        let described = read(&example, "path", &specs());
        let described = described.unwrap_or_else(|e| panic!("{}", e.display("docs/path.md")));
        let context = linerate_dataplane::BuildContext { replica: 0, replicas: 1 };
        for used in &described.path.stages {
            let kind = KINDS.iter().find(|kind| kind.spec.kind == used.kind).expect("it is known");
            (kind.build)(&used.params, &context).unwrap_or_else(|e| panic!("{}: {e}", used.name));
        }
    }
}

/// Returns the registered sources.
fn sources() -> Vec<SourceSpec> {
    linerate_rlp::app::EXTENSION.sources.iter().map(|kind| kind.spec).collect()
}

#[test]
fn the_reference_has_every_key() {
    // The reference does not list the kinds of stage: `linerate stages` does.
    let expected = help(Kinds { stages: &[], sources: &sources(), plugins: &[] });
    assert!(
        blocks("text").contains(&expected),
        "docs/path.md must contain this block:\n```text\n{expected}```"
    );
}

#[test]
fn the_reference_of_keys_holds_with_the_real_stages() {
    let help = help(Kinds { stages: &specs(), sources: &sources(), plugins: &[] });
    let [reference] = &blocks("text")[..] else { panic!("docs/path.md has one list of keys") };
    for line in reference.lines().filter(|line| *line != "  kind - a word; required") {
        assert!(help.lines().any(|said| said == line), "`{line}` in docs/path.md is not so");
    }
}

#[test]
fn the_largest_buffer_is_the_same_for_the_file_and_for_the_buffers() {
    let file = linerate_path::keys::MAX_BUFFER_BYTES as usize;
    assert_eq!(file, linerate_dataplane::pool::MAX_BUFFER_BYTES);
}
