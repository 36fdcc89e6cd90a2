// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks for required and forbidden content in source files. Each ban names the replacement.
//!
//! Words that are banned as text are assembled with `concat!` here, so that this file passes.

use crate::tree::{File, files};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

const SPDX: &str = "SPDX-License-Identifier: MIT OR Apache-2.0";

/// Crates with `unsafe` code: system calls, clock and topology probes, counter reads and the C
/// interface for regions, the C kernels and peers to compare them with, buffers and rings; C
/// stages and a C stack that are loaded.
const UNSAFE_CRATES: &[&str] = &[
    "linux",
    "machine",
    "counters",
    "regions",
    "memory",
    "kernels",
    "kernelbench",
    "dataplane",
    "plugin",
    "tcpbench",
];

/// Crates that only compute.
const PURE_CRATES: &[&str] =
    &["record", "path", "hierarchy", "plan", "cmt", "explain", "exchange", "report"];

const MAX_COLUMNS: usize = 100;

/// Maximum lines per file; a longer file should be split by topic.
const MAX_LINES: usize = 500;

/// Text that no file may contain, with the replacement; for example, paths that exist only on one
/// developer's machine.
const TEXT_BANS: &[(&str, &str)] = &[
    (concat!("/ho", "me/"), "a path from the root of the repository"),
    (concat!("/ro", "ot/"), "a path from the root of the repository"),
    (concat!("FIX", "ME"), "an issue, or the repair itself"),
];

/// Text that no Rust file may contain, with the replacement.
const RUST_BANS: &[(&str, &str)] = &[
    (concat!("to", "do!("), "the code, or an error that says what is not supported"),
    (concat!("unimple", "mented!("), "the code, or an error that says what is not supported"),
    (concat!("#[ig", "nore"), "a test that runs, or prints `SKIP: reason` and returns"),
    (concat!("db", "g!("), "nothing, or a figure in the record"),
];

/// Ends of paths that pure crates may not use, with the replacement.
const PURE_BANS: &[(&[&str], &str)] = &[
    (&["std", "fs"], "take the text as an argument; `cli` reads and writes files"),
    (&["std", "net"], "core::net for addresses; sockets belong to `linux`"),
    (&["std", "env"], "take the value as an argument; `cli` reads the environment"),
    (&["std", "process"], "return an error; `cli` starts and ends processes"),
    (&["time", "Instant"], "take the time as an argument; `machine` reads clocks"),
    (&["time", "SystemTime"], "take the time as an argument; `cli` reads the calendar"),
    (&["io", "stdin"], "take the text as an argument; `cli` reads it"),
    (&["io", "stdout"], "return the text; `cli` prints it"),
    (&["io", "stderr"], "return a warning; `cli` prints it"),
    (&["print!"], "return the text; `cli` prints it"),
    (&["println!"], "return the text; `cli` prints it"),
    (&["eprint!"], "return a warning; `cli` prints it"),
    (&["eprintln!"], "return a warning; `cli` prints it"),
];

/// A path as written in the source, with groups in `use` expanded, and a macro's name with its `!`.
pub(crate) struct Written {
    pub(crate) line: usize,
    pub(crate) segments: Vec<String>,
}

/// Collects the paths in a token stream. Comments do not count; `use std::{fs, io::stdin}` gives
/// `std::fs` and `std::io::stdin`.
///
/// An identifier extends the current path after `::` and at the start of an item in a group that
/// itself follows `::`; anything else ends the path.
fn paths(stream: TokenStream, prefix: &[String], found: &mut Vec<Written>) {
    let mut segments = prefix.to_vec();
    let mut line = 0;
    let mut extends = true;
    let mut colons = 0;
    for token in stream {
        if let TokenTree::Ident(ident) = &token {
            if !(extends || colons == 2) {
                found.push(Written { line, segments: std::mem::take(&mut segments) });
            }
            line = ident.span().start().line;
            segments.push(ident.to_string());
            (extends, colons) = (false, 0);
            continue;
        }
        match &token {
            TokenTree::Punct(p) if p.as_char() == ':' && colons < 2 => {
                colons += 1;
                continue;
            }
            TokenTree::Punct(p) if p.as_char() == '!' && !extends => {
                segments.last_mut().expect("an identifier came first").push('!');
            }
            TokenTree::Group(group) => {
                let in_use = colons == 2 && group.delimiter() == Delimiter::Brace;
                paths(group.stream(), if in_use { &segments } else { &[] }, found);
            }
            _ => {}
        }
        found.push(Written { line, segments: std::mem::replace(&mut segments, prefix.to_vec()) });
        (extends, colons) = (true, 0);
    }
    found.push(Written { line, segments });
}

/// Returns the paths in the source text of the file at `place`.
pub(crate) fn paths_of(place: &str, text: &str) -> Vec<Written> {
    let stream = text.parse().unwrap_or_else(|e| panic!("{place}: {e}"));
    let mut found = Vec::new();
    paths(stream, &[], &mut found);
    found
}

fn written_paths(file: &File) -> Vec<Written> {
    paths_of(&file.path, &file.text)
}

/// Returns the lines that contain banned text, as `line: banned text; instead ...`.
fn banned_text(text: &str, bans: &[(&str, &str)]) -> Vec<String> {
    let mut faults = Vec::new();
    for (i, line) in text.lines().enumerate() {
        for (ban, instead) in bans.iter().filter(|(ban, _)| line.contains(ban)) {
            faults.push(format!("{}: `{ban}`; write instead: {instead}", i + 1));
        }
    }
    faults
}

fn purity(file: &File) -> Vec<String> {
    let mut faults = Vec::new();
    for path in written_paths(file) {
        for (ban, instead) in PURE_BANS {
            if path.segments.windows(ban.len()).any(|w| w == *ban) {
                let ban = ban.join("::");
                faults.push(format!("{}: `{ban}` in a pure crate; {instead}", path.line));
            }
        }
    }
    faults
}

/// Returns whether the file is the root of a library or binary.
fn is_crate_root(path: &str) -> bool {
    ["src/lib.rs", "src/main.rs"].iter().any(|root| path.ends_with(root))
        || path.contains("/src/bin/")
}

fn safety(file: &File) -> Vec<String> {
    let mut faults = Vec::new();
    if is_crate_root(&file.path) && !file.text.contains("#![forbid(unsafe_code)]") {
        faults
            .push("1: no `#![forbid(unsafe_code)]` at the root of a crate without need".to_owned());
    }
    let marked = written_paths(file).into_iter().filter(|p| p.segments == ["unsafe"]);
    faults.extend(marked.map(|path| {
        let crates = UNSAFE_CRATES.join(", ");
        format!("{}: `unsafe`; put it behind a safe function of {crates}", path.line)
    }));
    faults
}

fn width(file: &File) -> Vec<String> {
    let mut faults = Vec::new();
    for (i, line) in file.text.lines().enumerate() {
        let columns = line.chars().count();
        if columns > MAX_COLUMNS {
            faults.push(format!(
                "{}: {columns} columns; break at {MAX_COLUMNS}; CONTRIBUTING.md has the command",
                i + 1
            ));
        }
    }
    faults
}

fn length(file: &File) -> Option<String> {
    let lines = file.text.lines().count();
    let why = format!("{MAX_LINES}: {lines} lines; split by idea at {MAX_LINES}");
    (lines > MAX_LINES).then_some(why)
}

/// Returns whether a file is source code: written by people and read by a compiler or interpreter.
fn is_source(file: &File) -> bool {
    matches!(file.extension(), "rs" | "toml" | "sh" | "py" | "c" | "h" | "S")
        || file.text.starts_with("#!/")
}

/// Returns all faults of a file.
fn faults(file: &File) -> Vec<String> {
    let mut faults = banned_text(&file.text, TEXT_BANS);
    if is_source(file) && !file.text.lines().take(2).any(|line| line.contains(SPDX)) {
        faults.push(format!("1: no licence; put `{SPDX}` in a comment on top"));
    }
    if file.extension() == "rs" {
        faults.extend(banned_text(&file.text, RUST_BANS));
        faults.extend(width(file));
        faults.extend(length(file));
        if !UNSAFE_CRATES.contains(&file.package()) {
            faults.extend(safety(file));
        }
        if PURE_CRATES.contains(&file.package()) && file.path.contains("/src/") {
            faults.extend(purity(file));
        }
    }
    faults.iter().map(|fault| format!("{}:{fault}", file.path)).collect()
}

#[test]
fn the_tree_is_tidy() {
    let faults: Vec<String> = files().iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Returns the faults in a synthetic file with a valid header.
fn faults_of(path: &str, body: &str) -> Vec<String> {
    let text = format!("// {SPDX}\n{body}");
    faults(&File { path: path.to_owned(), text })
}

#[test]
fn clean_text_passes() {
    let body = "//! Says unsafe, std::fs::read and println!() in prose only.\n\
                #![forbid(unsafe_code)]\nconst A: &str = \"std::fs unsafe { }\";\n";
    assert_eq!(faults_of("crates/record/src/lib.rs", body), Vec::<String>::new());
    let body = "use std::fs;\nfn f() { unsafe { g() } }\n";
    assert_eq!(faults_of("crates/linux/src/lib.rs", body), Vec::<String>::new());
}

#[test]
fn every_banned_text_is_found() {
    for (ban, instead) in TEXT_BANS {
        let faults = faults_of("docs/method.md", &format!("see {ban}x\n"));
        assert_eq!(faults, [format!("docs/method.md:2: `{ban}`; write instead: {instead}")]);
    }
    for (ban, _) in RUST_BANS {
        assert_eq!(faults_of("crates/linux/src/a.rs", &format!("// {ban}\n")).len(), 1, "{ban}");
        assert_eq!(faults_of("docs/method.md", &format!("{ban}\n")), Vec::<String>::new());
    }
}

#[test]
fn impurity_is_found_however_it_is_written() {
    for body in [
        "use std::fs;",
        "use std::{fmt, fs};",
        "use std::{fmt, fs::{File, read as r}};",
        "fn f() -> std::time::Instant { g() }",
        "use std::time::{Duration, Instant};",
        "use std::time; fn f() { g(time::SystemTime::now()) }",
        "fn f() { let x = [1, std::env::args().count()]; }",
        "fn f() { g!(a, io::stdout().lock()) }",
        "fn f() { if a { println!(\"{}\", 1) } }",
        "fn f() { std::eprint!(\"\") }",
    ] {
        let faults = faults_of("crates/plan/src/a.rs", body);
        assert!(!faults.is_empty(), "{body}");
        assert!(faults.iter().all(|f| f.starts_with("crates/plan/src/a.rs:2: ")), "{faults:?}");
        assert_eq!(faults_of("crates/plan/tests/a.rs", body), Vec::<String>::new(), "{body}");
        assert_eq!(faults_of("crates/cli/src/a.rs", body), Vec::<String>::new(), "{body}");
    }
}

#[test]
fn unsafe_code_is_found_outside_its_crates() {
    for body in ["fn f() { unsafe { g() } }", "unsafe impl Send for A {}", "unsafe fn f() {}"] {
        assert_eq!(faults_of("crates/stages/src/a.rs", body).len(), 1, "{body}");
        assert_eq!(faults_of("crates/cli/tests/a.rs", body).len(), 1, "{body}");
        assert_eq!(faults_of("crates/dataplane/src/a.rs", body), Vec::<String>::new(), "{body}");
    }
    assert_eq!(faults_of("crates/stages/src/lib.rs", "fn f() {}\n").len(), 1, "no forbid");
    assert_eq!(faults_of("xtask/src/main.rs", "fn f() {}\n").len(), 1, "no forbid");
}

#[test]
fn missing_licences_long_lines_and_long_files_are_found() {
    for path in ["crates/linux/src/a.rs", "examples/a.toml", "native/a.c", "tools/a.sh"] {
        let file = File { path: path.to_owned(), text: "\n\n\n".to_owned() };
        assert_eq!(faults(&file).len(), 1, "{path}");
    }
    let lines = |n: usize| faults_of("crates/linux/src/a.rs", &"\n".repeat(n - 1)).len();
    assert_eq!((lines(MAX_LINES), lines(MAX_LINES + 1)), (0, 1));
    let long = "x".repeat(MAX_COLUMNS - 3);
    assert_eq!(faults_of("crates/linux/src/a.rs", &format!("// {long}x\n")).len(), 1);
    assert_eq!(faults_of("crates/linux/src/a.rs", &format!("// {long}\n")), Vec::<String>::new());
}
