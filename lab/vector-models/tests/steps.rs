// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that the models have the same steps as the C code, with the same names in the same order.
#![forbid(unsafe_code)]

use linerate_vector_models::{
    Full, Guard, Line, exclusive, nested, note, of_tasks, schemes, switch,
};
use std::collections::BTreeMap;
use std::path::Path;

/// Returns, for each inline function, the names of its steps and of the functions it calls, in
/// order.
fn functions(file: &str) -> BTreeMap<String, Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../native").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut found = BTreeMap::new();
    for function in text.split("\nstatic inline ").skip(1) {
        let body = function.split("\n}").next().expect("a function ends");
        let (head, body) = body.split_once("\n{").expect("a function has a body");
        let name = head.split('(').next().and_then(|head| head.split([' ', '*']).next_back());
        let mut steps = Vec::new();
        for line in body.lines() {
            if let Some((_, rest)) = line.split_once("LR_VEC_STEP(") {
                steps.push(rest.split(')').next().expect("a name").to_owned());
            }
            for helper in ["note_take", "note_give"] {
                if line.contains(&format!("{helper}(")) {
                    steps.push(format!("{helper}()"));
                }
            }
        }
        found.insert(name.expect("a name").to_owned(), steps);
    }
    found
}

/// Returns a function's steps, including those of the functions it calls.
fn steps(functions: &BTreeMap<String, Vec<String>>, name: &str) -> Vec<String> {
    let of = functions.get(name).unwrap_or_else(|| panic!("no inline function {name}"));
    of.iter()
        .flat_map(|step| match step.strip_suffix("()") {
            Some(called) => steps(functions, called),
            None => vec![step.clone()],
        })
        .collect()
}

fn names(lines: &[Line]) -> Vec<&'static str> {
    lines.iter().map(|line| line.name).collect()
}

#[test]
fn ours_are_the_steps_of_the_header() {
    let header = functions("include/linerate/vector_context.h");
    for (function, lines) in [
        ("lr_vec_enter", exclusive().enter),
        ("lr_vec_leave", exclusive().leave),
        ("lr_vec_nest", nested().enter),
        ("lr_vec_unnest", nested().leave),
        ("lr_vec_task_enter", of_tasks().enter),
        ("lr_vec_task_leave", of_tasks().leave),
        ("lr_vec_switch", switch()),
    ] {
        assert_eq!(steps(&header, function), names(&lines), "{function}");
    }
}

#[test]
fn the_notes_are_the_steps_of_its_c() {
    let file = functions("vector_context/note.h");
    let (as_written, mended) =
        (note(Guard::Spin, Full::Scalar, false), note(Guard::Spin, Full::Scalar, true));
    assert_eq!(steps(&file, "note_enter"), names(&as_written.enter));
    // The C function has a branch for each of the two orders.
    let both = [names(&as_written.leave), names(&mended.leave)].concat();
    assert_eq!(steps(&file, "note_leave"), both);
}

#[test]
fn no_scheme_has_a_line_of_its_own() {
    let files = ["include/linerate/vector_context.h", "vector_context/note.h"].map(functions);
    let all: Vec<String> = files.iter().flat_map(BTreeMap::values).flatten().cloned().collect();
    for scheme in schemes() {
        for name in scheme.names() {
            assert!(all.iter().any(|step| step == name), "{}: {name}", scheme.name);
        }
    }
}
