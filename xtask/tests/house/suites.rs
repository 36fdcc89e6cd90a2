// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that unit tests are deterministic: they read no clock, and do not retry until something
//! works. Anything that must be measured belongs in the accuracy suite (`cargo xtask accuracy`).

use crate::tidy::paths_of;
use crate::tree::{File, files};

/// Names that indicate that a test tolerates failures in some of several runs.
const SECOND_CHANCES: &[&str] = &["TRIES", "RETRIES", "ATTEMPTS", "retry", "some_try"];

/// Ends of paths that read a wall clock.
const CLOCKS: &[&[&str]] = &[&["Instant", "now"], &["SystemTime", "now"], &["monotonic_ns"]];

/// Files whose tests may read a clock, with the reason.
const READERS: &[(&str, &str)] = &[
    ("crates/cli/tests/command/interrupt.rs", "ends a test whose program hangs"),
    ("crates/linux/src/child/tests.rs", "an end is stamped with the clock that is read"),
    ("crates/linux/src/clock.rs", "tests the clocks, by bounds that preemption cannot break"),
    ("crates/linux/tests/signals.rs", "an end is stamped with the clock that is read"),
    ("crates/memory/src/window.rs", "a window is held against the clock around it"),
];

/// Returns a Rust file's test part, and the number of lines before it.
pub(crate) fn test_part(file: &File) -> Option<(&str, usize)> {
    let is_all = file.path.contains("/tests/") || file.path.ends_with("/tests.rs");
    if is_all {
        return Some((&file.text, 0));
    }
    let (before, _) = file.text.split_once("#[cfg(test)]\nmod tests {")?;
    Some((&file.text[before.len()..], before.lines().count()))
}

fn ends_with(segments: &[String], end: &[&str]) -> bool {
    segments.len() >= end.len() && segments[segments.len() - end.len()..] == *end
}

/// Describes sources of nondeterminism in a file's tests, except in `readers`.
fn faults(file: &File, readers: &[(&str, &str)]) -> Vec<String> {
    let Some((text, above)) = test_part(file).filter(|_| file.extension() == "rs") else {
        return Vec::new();
    };
    let may_read = readers.iter().any(|(path, _)| *path == file.path);
    let mut faults = Vec::new();
    for path in paths_of(&file.path, text) {
        let line = path.line + above;
        if path.segments.iter().any(|name| SECOND_CHANCES.contains(&name.as_str())) {
            faults.push(format!(
                "{}:{line}: a test that tries again; report the distribution in the accuracy suite",
                file.path
            ));
        }
        if !may_read && CLOCKS.iter().any(|clock| ends_with(&path.segments, clock)) {
            faults.push(format!(
                "{}:{line}: a test that reads a clock; hand it in, or use the accuracy suite",
                file.path
            ));
        }
    }
    faults
}

#[test]
fn unit_tests_read_no_clock_and_try_nothing_again() {
    let faults: Vec<String> = files().iter().flat_map(|file| faults(file, READERS)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_exception_is_needed() {
    let files = files();
    for (path, why) in READERS {
        let file = files.iter().find(|file| file.path == *path);
        let file = file.unwrap_or_else(|| panic!("{path} is gone; so is: {why}"));
        assert!(!faults(file, &[]).is_empty(), "{path} reads no clock any more");
    }
}

fn faults_of(path: &str, text: &str) -> usize {
    faults(&File { path: path.to_owned(), text: text.to_owned() }, &[]).len()
}

#[test]
fn clocks_and_retries_are_found_in_tests_alone() {
    for body in [
        "fn f() { let x = std::time::Instant::now(); }",
        "fn f() { g(Instant::now() + a) }",
        "fn f() { SystemTime::now(); }",
        "fn f() { linerate_linux::monotonic_ns() - start; }",
        "const TRIES: usize = 8;",
        "fn f() { some_try(|| Ok(())) }",
    ] {
        assert_eq!(faults_of("crates/a/tests/a.rs", body), 1, "{body}");
        assert_eq!(faults_of("crates/a/src/a/tests.rs", body), 1, "{body}");
        assert_eq!(faults_of("crates/a/src/a.rs", body), 0, "{body}");
        let inline = format!("fn g() {{}}\n\n#[cfg(test)]\nmod tests {{\n    {body}\n}}\n");
        assert_eq!(faults_of("crates/a/src/a.rs", &inline), 1, "{body}");
        assert_eq!(faults_of("crates/a/examples/accuracy.rs", body), 0, "{body}");
    }
    let clean = "// TRIES, Instant::now()\nfn f() { g(\"TRIES\", Instant::from(a), now()) }";
    assert_eq!(faults_of("crates/a/tests/a.rs", clean), 0);
}
