// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tutorials: what stands below a command in them is what the command prints.
//!
//! `write` runs every command and replaces what stands below it; `check` runs them again and
//! compares what does not depend on the machine: simulated counts of memory, on which compilers
//! hardly differ, and that the rows which every machine has are there, whatever it measures. Takes
//! a minute, for it simulates.

use crate::ci::Outcome;
use crate::command::{output, program, root};
use std::fs;
use std::path::PathBuf;

const FOLDER: &str = "docs/tutorials";

/// Rows that the check compares, by how they begin: events that two compilers agree on.
const COMPARED: &str = "l1d_misses ";

/// Rows that every machine has, by how they begin: the nearest level of the memory, the farthest,
/// how much time was taken away, the worker of a dump that is read, and the routines of a stack.
const PRESENT: [&str; 6] = ["L1  ", "memory  ", "noise  ", "cpu 4  ", "selected  ", "stack  "];

/// As far as two compilers may differ in these.
const TOLERANCE: f64 = 0.05;

/// Runs every command and replaces what stands below it.
pub(crate) fn write() -> Result<(), String> {
    for path in files()? {
        let text = read(&path)?;
        let now = with_outputs(&text, run)?;
        if now != text {
            fs::write(&path, now).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        println!("{}", path.display());
    }
    Ok(())
}

/// Runs every command and compares.
pub(crate) fn check() -> Outcome {
    if let Err(why) = output(program("valgrind", &["--version"])) {
        return Outcome::Skipped(why);
    }
    let all = || {
        for path in files()? {
            let text = read(&path)?;
            let now = with_outputs(&text, run)?;
            compare(&text, &now).map_err(|why| {
                format!("{}: {why}; `cargo xtask tutorials` writes it anew", path.display())
            })?;
        }
        Ok(())
    };
    all().into()
}

fn files() -> Result<Vec<PathBuf>, String> {
    let list = fs::read_dir(root().join(FOLDER)).map_err(|error| format!("{FOLDER}: {error}"))?;
    let paths: std::io::Result<Vec<PathBuf>> = list.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.map_err(|error| format!("{FOLDER}: {error}"))?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort_unstable();
    Ok(paths)
}

fn read(path: &PathBuf) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// What a command prints on standard output, run in the root.
fn run(command: &str) -> Result<String, String> {
    let printed = output(program("sh", &["-c", command]))?;
    String::from_utf8(printed).map_err(|error| format!("`{command}`: {error}"))
}

/// `markdown` with new output below each command. Commands stand behind `$ ` in blocks of
/// `console`, and go on in the next line behind a backslash.
fn with_outputs(
    markdown: &str,
    mut run: impl FnMut(&str) -> Result<String, String>,
) -> Result<String, String> {
    let mut now = String::new();
    let mut is_console = false;
    let mut lines = markdown.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            is_console = line == "```console";
        } else if is_console {
            let Some(command) = line.strip_prefix("$ ") else { continue };
            let mut command = command.to_owned();
            now = now + line + "\n";
            while command.ends_with('\\') {
                let more = lines.next().ok_or_else(|| format!("`{command}` does not end"))?;
                command = command + "\n" + more;
                now = now + more + "\n";
            }
            now += &run(&command)?;
            continue;
        }
        now = now + line + "\n";
    }
    Ok(now)
}

/// The counts in the rows that are compared, in order.
fn counts(text: &str) -> Vec<f64> {
    let row = |line: &str| {
        let count = line.strip_prefix(COMPARED)?.split_whitespace().next()?;
        count.replace(',', "").parse().ok()
    };
    text.lines().filter_map(row).collect()
}

/// How many rows begin in each of the ways of [`PRESENT`].
fn present(text: &str) -> [usize; PRESENT.len()] {
    PRESENT.map(|head| text.lines().filter(|line| line.starts_with(head)).count())
}

fn compare(text: &str, now: &str) -> Result<(), String> {
    // How many tables follow is the machine's; that there are any is not.
    let is_there = |text: &str| present(text).map(|rows| rows > 0);
    if is_there(text) != is_there(now) {
        return Err(format!("of {PRESENT:?} {:?} rows, now {:?}", present(text), present(now)));
    }
    let (then, now) = (counts(text), counts(now));
    if then.len() != now.len() || (then.is_empty() && !is_there(text).contains(&true)) {
        return Err(format!("{} rows of {COMPARED}, now {}", then.len(), now.len()));
    }
    let differs = |(then, now): &(f64, f64)| (now / then - 1.0).abs() > TOLERANCE;
    match then.into_iter().zip(now).find(differs) {
        Some((then, now)) => Err(format!("{COMPARED} were {then}, and are {now}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "a\n```\n$ b\n```\n```console\n$ c \\\n  d\nl1d_misses  1,000  x\n$ e\n```\nf\n";

    #[test]
    fn output_is_replaced_and_nothing_else() {
        let mut ran = Vec::new();
        let now = with_outputs(TEXT, |command| {
            ran.push(command.to_owned());
            Ok(format!("l1d_misses  {}\n", 1020 * ran.len()))
        });
        let wanted = "a\n```\n$ b\n```\n```console\n$ c \\\n  d\nl1d_misses  1020\n$ e\n\
            l1d_misses  2040\n```\nf\n";
        assert_eq!(now.as_deref(), Ok(wanted));
        assert_eq!(ran, ["c \\\n  d", "e"]);
        assert_eq!(with_outputs(TEXT, |_| Err("no".to_owned())), Err("no".to_owned()));
    }

    #[test]
    fn counts_that_moved_are_found() {
        assert_eq!(compare(TEXT, "l1d_misses 1049"), Ok(()));
        assert!(compare(TEXT, "l1d_misses 1051").is_err());
        assert!(compare(TEXT, "l1d_misses 940").is_err());
        assert!(compare(TEXT, "l1d_misses 1000\nl1d_misses 1000").is_err());
        assert!(compare("", "").is_err());
        assert_eq!(compare("L1  32 KiB\n", "L1  48 KiB\nL1  1 ns\n"), Ok(()));
        assert!(compare("L1  32 KiB\nnoise  1 %\n", "L1  48 KiB\n").is_err());
    }
}
