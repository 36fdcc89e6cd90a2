// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the reader never panics, and that error positions are within the text.

use crate::generate::{cases, file};
use crate::kinds::{KINDS, STEM};
use linerate_path::check::{read, read_to_plan};
use linerate_path::write::with_mapping;
use proptest::prelude::*;

/// Reads the text. Checks that each reported problem is at a position within the text and can be
/// displayed.
fn answers(text: &str) -> Result<(), TestCaseError> {
    let to_run = read(text, STEM, KINDS);
    let to_plan = read_to_plan(text, STEM, KINDS);
    // A path that can be run can also be planned. A path that can only be planned has costs and a
    // foreign stage, whose kind is missing from this build.
    if let Ok(planned) = &to_plan {
        prop_assert_eq!(planned.specs.len(), planned.path.stages.len());
        let foreign = planned.specs.iter().filter(|spec| spec.kind == "foreign").count();
        prop_assert_eq!(to_run.is_ok(), foreign == 0);
        prop_assert!(foreign == 0 || planned.costs.is_some());
    }
    prop_assert!(to_run.is_err() || to_plan.is_ok());
    let problems = match read(text, STEM, KINDS) {
        Ok(described) => {
            let written =
                with_mapping(text, &described.path, &described.path.mapping, 32).expect("TOML");
            prop_assert!(read(&written, STEM, KINDS).is_ok(), "{}", written);
            for param in ["kind", "rules", "nothing"] {
                let problem = described.problem_at(0, param, Some(3), "refused");
                prop_assert!(problem.line <= text.split('\n').count());
            }
            return Ok(());
        }
        Err(problems) => problems,
    };
    prop_assert!(problems.iter().next().is_some());
    let mut before = (0, 0);
    for problem in problems.iter() {
        let line = text.split('\n').nth(problem.line - 1);
        let width = line.map(|line| line.chars().count());
        prop_assert!(width.is_some_and(|width| (1..=width + 1).contains(&problem.column)));
        prop_assert!((problem.line, problem.column) >= before);
        before = (problem.line, problem.column);
    }
    let shown = problems.display("a.toml").to_string();
    prop_assert!(!shown.contains(|c: char| c.is_control() && c != '\n' && c != '\t'), "{}", shown);
    Ok(())
}

/// Generates random texts, about half of which resemble TOML.
fn tomlish() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(&[
        "[",
        "]",
        "[[",
        "]]",
        "=",
        ".",
        ",",
        "{",
        "}",
        "\n",
        "\r\n",
        "\r",
        " ",
        "#",
        "\"",
        "'",
        "\"\"\"",
        "\\u00e9",
        "name",
        "line",
        "source",
        "stage",
        "sink",
        "mapping",
        "run",
        "costs",
        "[costs]\nfrom='x'\n",
        "[[costs.stages]]\nname='parse'\nns=",
        "workers",
        "stages",
        "kind",
        "rate",
        "rules",
        "cpus",
        "\"parse\"",
        "\"generator\"",
        "\"max\"",
        "1",
        "-0x9",
        "1e9",
        "nan",
        "true",
        "1979-05-27",
        "é",
        "\u{feff}",
        "\u{0}",
        "\u{1b}[2J",
        "𝄞",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Generates valid files with up to four random edits, in which parts are removed, duplicated or
/// replaced.
fn mutated() -> impl Strategy<Value = String> {
    let edit = (any::<prop::sample::Index>(), 0..12_usize, tomlish(), 0..3);
    (file(), prop::collection::vec(edit, 1..5)).prop_map(|(file, edits)| {
        let mut text: Vec<char> = file.text.chars().collect();
        for (at, length, piece, how) in edits {
            let start = at.index(text.len() + 1);
            let end = (start + length).min(text.len());
            let replacement: Vec<char> = match how {
                0 => Vec::new(),
                1 => text[start..end].repeat(2),
                _ => piece.chars().take(6).collect(),
            };
            text.splice(start..end, replacement);
        }
        text.into_iter().collect()
    })
}

proptest! {
    #![proptest_config(cases(3000))]

    #[test]
    fn handles_any_text(text in any::<String>()) {
        answers(&text)?;
    }

    #[test]
    fn any_pieces_of_toml_get_an_answer(text in tomlish()) {
        answers(&text)?;
    }

    #[test]
    fn handles_damaged_files(text in mutated()) {
        answers(&text)?;
    }
}

#[test]
fn handles_deep_nesting() {
    for open in ["[", "{a=", "[{a="] {
        assert!(read(&format!("x = {}", open.repeat(50_000)), STEM, KINDS).is_err(), "{open}");
    }
    assert!(read(&format!("{}x = 1", "a.".repeat(50_000)), STEM, KINDS).is_err());
}
