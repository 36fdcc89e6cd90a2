// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints figures from records as Markdown tables for result pages: the value from one run of each
//! command, or the median of several runs, next to the required value.
//!
//! ```text
//! figures LIST.toml [--rounds N]
//! figures --machine RECORD.json
//! ```
//!
//! The list is a TOML file:
//!
//! ```text
//! rounds = 5                     runs of each command; a round runs all commands once; default 1
//! machine = true                 start with the machine on which the first record was made
//! each = true                    add a table with one row per run
//! [[command]]
//! run = "linerate run --json x"  shell command that prints one or more records
//! name = "configuration 1"       name in the table; default: `run` without --json and --quiet
//! page = "budget.md"             page with more details
//! [[command.figure]]
//! at = "kpps"                    path of the figure in the record: see `place`
//! what = "packet rate"           name in the table; default: `at`
//! scale = 1e-3                   factor applied to the value; default 1
//! digits = 1                     number of decimals; default 0
//! unit = " %"                    text after the value
//! wanted = 224                   required value
//! within = 11                    tolerance: maximum difference from `wanted`
//! low = 1.45, high = 2           limits, instead of `within`
//! truth = "stated_kpps"          true value, a number or a path; counts intervals with it
//! ```
//!
//! A figure that misses its requirement is marked in its row, but is not an error.

mod list;
mod place;
mod table;

use linerate_record::Record;
use linerate_record::provenance::Provenance;
use list::{Command, List};
use std::fs;
use std::process::{ExitCode, Stdio};

const USAGE: &str = "usage: figures LIST.toml [--rounds N] | figures --machine RECORD.json";

/// Records printed by one run of a command.
type Printed = Vec<Record>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let text = match words[..] {
        ["--machine", file] => read(file).and_then(|json| one_machine(&json)),
        [file] => read(file).and_then(|text| of_list(&text, None)),
        [file, "--rounds", rounds] => {
            let rounds = rounds.parse().map_err(|_| format!("invalid number of rounds '{rounds}'"));
            rounds.and_then(|rounds| of_list(&read(file)?, Some(rounds)))
        }
        _ => Err(USAGE.to_owned()),
    };
    match text {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("figures: {why}");
            ExitCode::FAILURE
        }
    }
}

fn read(file: &str) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))
}

fn one_machine(json: &str) -> Result<String, String> {
    let records = records(json)?;
    records.first().map(|record| machine(&record.provenance)).ok_or_else(|| "no record".to_owned())
}

/// Returns the machine and program from a record's provenance, as a Markdown list.
fn machine(of: &Provenance) -> String {
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    format!(
        "- processor: {}, {} logical processors, hypervisor: {}\n\
         - kernel: {}\n- compiler: {}\n- program: {}, commit {}\n\n",
        known(&of.cpu),
        of.cpus.len(),
        known(&of.hypervisor),
        known(&of.kernel),
        of.compiler,
        of.program,
        known(&of.commit),
    )
}

/// Runs the commands in a list and tabulates their figures.
fn of_list(text: &str, rounds: Option<usize>) -> Result<String, String> {
    let list: List = toml::from_str(text).map_err(|error| error.to_string())?;
    let rounds = rounds.or(list.rounds).unwrap_or(1);
    let mut runs: Vec<Vec<Printed>> = list.command.iter().map(|_| Vec::new()).collect();
    for round in 1..=rounds {
        for (command, runs) in list.command.iter().zip(&mut runs) {
            eprintln!("round {round} of {rounds}: {}", command.run);
            runs.push(run(command)?);
        }
    }
    let first = runs.first().and_then(|runs| runs.first()).and_then(|printed| printed.first());
    let first = first.filter(|_| list.machine).map(|record| machine(&record.provenance));
    let mut text = first.unwrap_or_default() + &table::table(&list, &runs)?;
    if list.each {
        text += &table::each(&list, &runs)?;
    }
    Ok(text)
}

/// Runs a command and returns the records it prints, ignoring its exit status.
fn run(command: &Command) -> Result<Printed, String> {
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &command.run]).stdin(Stdio::null()).stderr(Stdio::inherit());
    let printed = shell.output().map_err(|error| format!("sh: {error}"))?.stdout;
    let printed = String::from_utf8(printed).map_err(|error| error.to_string())?;
    let records = records(&printed).map_err(|why| format!("`{}`: {why}", command.run))?;
    match records.is_empty() {
        true => Err(format!("the command `{}` printed no record", command.run)),
        false => Ok(records),
    }
}

/// Parses concatenated records, skipping any output before the first.
fn records(text: &str) -> Result<Printed, String> {
    let start = if text.starts_with('{') { 0 } else { text.find("\n{").unwrap_or(text.len()) };
    let values = serde_json::Deserializer::from_str(&text[start..]);
    let values = values.into_iter::<serde_json::Value>();
    let record = |value: Result<serde_json::Value, serde_json::Error>| {
        let value = value.map_err(|error| error.to_string())?;
        Record::from_json(&value.to_string()).map_err(|error| error.to_string())
    };
    values.map(record).collect()
}
