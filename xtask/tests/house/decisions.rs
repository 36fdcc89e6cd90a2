// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that every decision states whether it is in force, and that those in force name only
//! files that exist.

use crate::tree::{File, files, root};

const FOLDER: &str = "docs/decisions/";

/// Top-level directories that identify a name in a decision as a file.
const FOLDERS: [&str; 8] =
    ["crates/", "docs/", "examples/", "kmod/", "lab/", "native/", "probe/", "xtask/"];

/// Checks a decision.
fn faults(file: &File) -> Vec<String> {
    let lines: Vec<&str> = file.text.lines().take(3).collect();
    let status = lines.get(2).and_then(|line| line.strip_prefix("Status: "));
    let Some(status) = status.filter(|_| lines[0].starts_with("# ") && lines[1].is_empty()) else {
        return vec![format!("{}: the third line is not `Status: ...`", file.path)];
    };
    if status.starts_with("replaced by ") {
        return Vec::new();
    }
    if !status.starts_with("accepted") {
        return vec![format!("{}: `{status}` is neither accepted nor replaced", file.path)];
    }
    let named = file.text.split('`').skip(1).step_by(2);
    let is_file = |name: &&str| {
        let is_below = FOLDERS.iter().any(|folder| name.starts_with(folder));
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        is_below && is_plain && name.contains('.')
    };
    let gone = named.filter(is_file).filter(|name| !root().join(name).exists());
    gone.map(|name| format!("{}: {name} does not exist", file.path)).collect()
}

#[test]
fn decisions_say_whether_they_hold_and_name_files_that_there_are() {
    let all = files();
    let is_decision =
        |file: &&File| file.path.starts_with(FOLDER) && !file.path.ends_with("README.md");
    let decisions: Vec<&File> = all.iter().filter(is_decision).collect();
    assert!(decisions.len() > 80, "the walk misses decisions");
    let faults: Vec<String> = decisions.into_iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_decision_without_status_or_with_a_file_that_is_gone_is_found() {
    let of = |text: &str| faults(&File { path: "a.md".to_owned(), text: text.to_owned() }).len();
    for (text, expected) in [
        ("# A\n\nStatus: accepted\n\n`docs/method.md`, `src/gone.rs`, `crates/{a,b}.rs`\n", 0),
        ("# A\n\nStatus: replaced by 0001\n\n`docs/gone.md`\n", 0),
        ("# A\n\nStatus: accepted; replaces 0001\n\n`docs/gone.md` and `xtask/a.rs`\n", 2),
        ("# A\n\nStatus: perhaps\n", 1),
        ("# A\n\n**Context.** None.\n", 1),
        ("Status: accepted\n", 1),
        ("", 1),
    ] {
        assert_eq!(of(text), expected, "{text}");
    }
}
