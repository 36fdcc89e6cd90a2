// SPDX-License-Identifier: MIT OR Apache-2.0
//! Updates pages that show commands with their output: each command is run, and its output replaces
//! the block below it.
//!
//! ````text
//! ```console                 verbatim output; a block may contain several commands,
//! $ COMMAND                  and a backslash at the end of a line continues a command
//! (what it prints)
//! ```
//!
//! > `$ COMMAND`              output that is Markdown
//!
//! (what it prints)
//!
//! <!-- end -->
//! ````
//!
//! Commands are lines for `sh`, run in the root of the repository with `linerate` and the example
//! `figures` on the path.
//!
//! CI checks three kinds of pages:
//!
//! - Pages whose blocks are the same on every machine, such as the list of decisions.
//! - The tutorials. CI compares what does not depend on the machine: simulated memory counts, which
//!   hardly differ between compilers, the presence of the rows that every machine has, and the
//!   layout of the outputs ([`layout`]).
//! - README and the command pages. Their commands must succeed, and the layout of the outputs must
//!   be as before.

mod layout;

use crate::command::{cargo, output, program, root};
use crate::outcome::Outcome;
use layout::Layout;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

const TUTORIALS: &str = "docs/tutorials";
const COMMANDS: &str = "docs/commands";

/// Pages whose output is the same on every machine and takes only seconds to produce.
const SAME_EVERYWHERE: [&str; 5] = [
    "docs/decisions/README.md",
    "docs/results/netra/README.md",
    "docs/results/netra/budget.md",
    "docs/results/netra/dump.md",
    "docs/results/netra/misses.md",
];

/// Prefix of the rows whose counts are compared in tutorials: L1 data cache misses, which hardly
/// differ between compilers.
const COMPARED: &str = "l1d_misses ";

/// Beginnings of the rows that every machine has: the nearest memory level (the farthest is
/// `memory` or `L3 or memory`), the measured noise, the worker of an imported dump, and the
/// routines of a stack.
const PRESENT: [&str; 5] = ["L1  ", "noise  ", "cpu 4  ", "selected  ", "stack  "];

/// Maximum relative difference between the compared counts on a page and now, as it occurs between
/// two compilers; a larger one fails the check.
const TOLERANCE: f64 = 0.05;

/// Time limit for a command, in minutes.
const LIMIT: u32 = 60;

const END: &str = "<!-- end -->";

/// Pages to process, and the action.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    files: Vec<String>,
    /// Whether to compare the pages with the current output rather than write them.
    is_check: bool,
    /// Time limit for a command, in minutes.
    limit: u32,
}

/// Parses the arguments.
pub(crate) fn choose(words: &[&str]) -> Result<Choice, String> {
    let mut choice = Choice { files: Vec::new(), is_check: false, limit: LIMIT };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--check" => choice.is_check = true,
            "--limit" => {
                let minutes = words.next().and_then(|minutes| minutes.parse().ok());
                let minutes = minutes.filter(|minutes| *minutes > 0);
                choice.limit = minutes.ok_or("--limit takes a number of minutes")?;
            }
            option if option.starts_with('-') => return Err(format!("unknown option `{option}`")),
            file => choice.files.push(file.to_owned()),
        }
    }
    if choice.files.is_empty() {
        return Err("splice: no pages given".to_owned());
    }
    Ok(choice)
}

/// Runs every command on the pages, and replaces or compares their blocks.
pub(crate) fn run(choice: &Choice) -> Result<(), String> {
    let mut differing = Vec::new();
    for file in &choice.files {
        let path = root().join(file);
        let text = read(&path)?;
        let now = again(&text, choice.limit).map_err(|why| format!("{file}: {why}"))?;
        if choice.is_check {
            differing.extend(difference(file, &text, &now));
        } else if now != text {
            fs::write(&path, now).map_err(|error| format!("{file}: {error}"))?;
        }
        println!("{file}");
    }
    if differing.is_empty() { Ok(()) } else { Err(differing.join("\n")) }
}

/// Checks the pages that CI covers.
pub(crate) fn check() -> Outcome {
    let files = SAME_EVERYWHERE.map(str::to_owned).to_vec();
    if let Err(why) = run(&Choice { files, is_check: true, limit: LIMIT }) {
        return Outcome::Failed(why);
    }
    match output(program("valgrind", &["--version"])) {
        Ok(_) => outcome(check_tutorials()),
        Err(why) => Outcome::Skipped(format!("tutorials: {why}")),
    }
}

/// Returns the outcome of a check that passed with skips, or failed.
fn outcome(skips: Result<Vec<String>, String>) -> Outcome {
    match skips {
        Ok(skips) => Outcome::Passed(skips),
        Err(why) => Outcome::Failed(why),
    }
}

fn check_tutorials() -> Result<Vec<String>, String> {
    check_layouts(&pages(TUTORIALS)?, |file, text, now| {
        compare(text, now)
            .map_err(|why| format!("{file}: {why}; `cargo xtask splice {file}` updates the page"))
    })
}

/// Checks the commands in README and the command pages: each must succeed, and its output must have
/// the layout shown on the page.
pub(crate) fn check_commands() -> Outcome {
    let check = || {
        let mut files = pages(COMMANDS)?;
        files.push(root().join("README.md"));
        check_layouts(&files, |_, _, _| Ok(()))
    };
    outcome(check())
}

/// Runs the commands of pages, checks each page's path, text and current text with `check`, and
/// compares the layouts of the outputs. Returns what was skipped, and differences in measurements.
fn check_layouts(
    files: &[PathBuf],
    check: impl Fn(&str, &str, &str) -> Result<(), String>,
) -> Result<Vec<String>, String> {
    let layout = Layout::new()?;
    let (mut differing, mut noted) = (Vec::new(), Vec::new());
    for path in files {
        let text = read(path)?;
        let now = again(&text, LIMIT)?;
        let file = path.strip_prefix(root()).unwrap_or(path).display().to_string();
        differing.extend(check(&file, &text, &now).err());
        let changes = layout.changes(&file, &text, &now);
        differing.extend(changes.failed);
        noted.extend(changes.noted);
    }
    noted.extend(layout.skips());
    if differing.is_empty() { Ok(noted) } else { Err(differing.join("\n")) }
}

/// Returns the Markdown files in a directory, sorted.
fn pages(folder: &str) -> Result<Vec<PathBuf>, String> {
    let list = fs::read_dir(root().join(folder)).map_err(|error| format!("{folder}: {error}"))?;
    let paths: std::io::Result<Vec<PathBuf>> = list.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.map_err(|error| format!("{folder}: {error}"))?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort_unstable();
    Ok(paths)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the page with its commands' current output.
fn again(text: &str, limit: u32) -> Result<String, String> {
    let mut names = Vec::new();
    spliced(text, |command| {
        names.extend(programs(command).map(str::to_owned));
        Ok(String::new())
    })?;
    if names.iter().any(|name| OWN.contains(&name.as_str())) {
        build()?;
    }
    spliced(text, |command| {
        eprintln!("$ {command}");
        printed(command, limit)
    })
}

/// Our own programs that pages call by name.
const OWN: [&str; 2] = ["linerate", "figures"];

/// Returns cargo's folder for release builds.
fn release() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root().join(target).join("release")
}

fn build() -> Result<(), String> {
    let build = ["build", "--release", "--locked", "--quiet", "-p", "linerate"];
    output(cargo(&[&build[..], &["--bin", "linerate", "--example", "figures"]].concat()))?;
    Ok(())
}

/// Returns a command's stdout, run in the root.
fn printed(command: &str, limit: u32) -> Result<String, String> {
    let minutes = format!("{limit}m");
    let mut shell = program("timeout", &["--kill-after=9", &minutes, "sh", "-c", command]);
    let own = [release(), release().join("examples")];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(own.into_iter().chain(std::env::split_paths(&path)));
    shell.env("PATH", path.unwrap_or_else(|_| OsString::new()));
    String::from_utf8(output(shell)?).map_err(|error| format!("`{command}`: {error}"))
}

/// Returns the command in a line that precedes Markdown output.
fn marked(line: &str) -> Option<&str> {
    line.strip_prefix("> `$ ")?.strip_suffix('`')
}

/// Returns `markdown` with each command's block replaced by what `run` returns for the command.
fn spliced(
    markdown: &str,
    mut run: impl FnMut(&str) -> Result<String, String>,
) -> Result<String, String> {
    let mut now = String::new();
    let mut lines = markdown.lines();
    while let Some(line) = lines.next() {
        now = now + line + "\n";
        if line == "```console" {
            now += &console(&mut lines, &mut run)?;
        } else if let Some(command) = marked(line) {
            if !lines.any(|line| line == END) {
                return Err(format!("no `{END}` after the output of `{command}`"));
            }
            now += &format!("\n{}\n\n{END}\n", run(command)?.trim());
        } else if line.starts_with("```") {
            let rest = lines.by_ref().take_while(|line| *line != "```");
            now = rest.fold(now, |now, line| now + line + "\n") + "```\n";
        }
    }
    Ok(now)
}

/// Returns the rest of a console block, up to and including the closing fence, with new output.
fn console<'t>(
    lines: &mut impl Iterator<Item = &'t str>,
    run: &mut impl FnMut(&str) -> Result<String, String>,
) -> Result<String, String> {
    let mut now = String::new();
    while let Some(line) = lines.next() {
        if line == "```" {
            return Ok(now + "```\n");
        }
        let Some(command) = line.strip_prefix("$ ") else { continue };
        let mut command = command.to_owned();
        now = now + line + "\n";
        while command.ends_with('\\') {
            let more =
                lines.next().ok_or_else(|| format!("`{command}` lacks its continuation line"))?;
            command = command + "\n" + more;
            now = now + more + "\n";
        }
        now += &run(&command)?;
        if !now.ends_with('\n') {
            now.push('\n');
        }
    }
    Err("a console block has no closing fence".to_owned())
}

/// Returns the programs called by a line for `sh`: the first word of each of its commands.
fn programs(command: &str) -> impl Iterator<Item = &str> {
    command.split(['|', ';', '&']).filter_map(|part| {
        let is_name = |word: &&str| !word.contains('=') && *word != "\\";
        part.split_whitespace().find(is_name)
    })
}

/// Returns a message about the first line in which a page differs from the current output.
fn difference(file: &str, text: &str, now: &str) -> Option<String> {
    let place = text.lines().zip(now.lines()).position(|(then, now)| then != now);
    let place = place.or_else(|| (text != now).then(|| text.lines().count()))?;
    let line = |text: &str| text.lines().nth(place).unwrap_or("the end").to_owned();
    let (then, now) = (line(text), line(now));
    let mend = format!("`cargo xtask splice {file}` updates the page");
    Some(format!("{file}:{}: was `{then}`, is `{now}`; {mend}", place + 1))
}

/// Returns the counts in the compared rows, in order.
fn counts(text: &str) -> Vec<f64> {
    let row = |line: &str| {
        let count = line.strip_prefix(COMPARED)?.split_whitespace().next()?;
        count.replace(',', "").parse().ok()
    };
    text.lines().filter_map(row).collect()
}

/// Returns, for each entry of [`PRESENT`], how many rows begin with it.
fn present(text: &str) -> [usize; PRESENT.len()] {
    PRESENT.map(|head| text.lines().filter(|line| line.starts_with(head)).count())
}

fn compare(text: &str, now: &str) -> Result<(), String> {
    // The number of tables depends on the machine, but their presence does not.
    let is_there = |text: &str| present(text).map(|rows| rows > 0);
    if is_there(text) != is_there(now) {
        return Err(format!(
            "rows that begin with {PRESENT:?}: {:?} on the page, {:?} now",
            present(text),
            present(now)
        ));
    }
    let (then, now) = (counts(text), counts(now));
    if then.len() != now.len() || (then.is_empty() && !is_there(text).contains(&true)) {
        return Err(format!(
            "rows that begin with `{COMPARED}`: {} on the page, {} now",
            then.len(),
            now.len()
        ));
    }
    let differs = |(then, now): &(f64, f64)| (now / then - 1.0).abs() > TOLERANCE;
    match then.into_iter().zip(now).find(differs) {
        Some((then, now)) => {
            Err(format!("row that begins with `{COMPARED}`: {then} on the page, {now} now"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
