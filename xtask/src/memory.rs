// SPDX-License-Identifier: MIT OR Apache-2.0
//! How well `linerate memory` repeats and how often its intervals hold what the processor states,
//! written to `docs/results` by the runs themselves: on a machine left alone, and with a busy
//! process per processor.
//!
//! Takes some ten minutes and wants an idle machine: it is not part of CI.

use crate::command::{output, program, root};
use crate::evidence::{build, machine, section};
use linerate_record::memory::{MemoryLevel, MemoryReport};
use linerate_record::stats::median;
use linerate_record::{Body, Record};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Child, Command};

const RESULT: &str = "docs/results/memory.md";
/// The folder of `memory.svg`.
const PLOTS: &str = "docs/results";
const REPEATS: usize = 20;

/// Measures and writes.
pub(crate) fn write(repeats: Option<usize>) -> Result<(), String> {
    let repeats = repeats.unwrap_or(REPEATS);
    let binary = build()?;
    let plot = root().join(PLOTS);
    let shown = run(&binary, &["memory", "--all", "--quiet", "--no-store", "--svg"], Some(&plot))?;
    let quiet = series(&binary, repeats, "left alone")?;
    let busy = {
        let _busy = Busy::start()?;
        series(&binary, repeats, "busy")?
    };
    let text = document(&shown, &quiet, &busy);
    fs::write(root().join(RESULT), text).map_err(|error| format!("{RESULT}: {error}"))?;
    println!("{RESULT}");
    Ok(())
}

/// A process per processor that does nothing but run.
struct Busy(Vec<Child>);

impl Busy {
    fn start() -> Result<Self, String> {
        let processors = std::thread::available_parallelism().map_err(|error| error.to_string())?;
        let mut busy = Self(Vec::new());
        for _ in 0..processors.get() {
            let spin = Command::new("sh").args(["-c", "while :; do :; done"]).spawn();
            busy.0.push(spin.map_err(|error| format!("sh: {error}"))?);
        }
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended need not be told to.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn run(binary: &Path, args: &[&str], plot: Option<&Path>) -> Result<String, String> {
    let mut command = program(&binary.to_string_lossy(), args);
    command.args(plot);
    String::from_utf8(output(command)?).map_err(|error| error.to_string())
}

/// A record and what is in it.
struct Run {
    record: Record,
    report: MemoryReport,
}

fn series(binary: &Path, repeats: usize, name: &str) -> Result<Vec<Run>, String> {
    let mut runs = Vec::new();
    for number in 1..=repeats {
        eprintln!("{name}: {number} of {repeats}");
        let json = run(binary, &["memory", "--json", "--quiet", "--no-store"], None)?;
        let record = Record::from_json(&json).map_err(|error| error.to_string())?;
        let Body::Memory(report) = record.body.clone() else {
            return Err("memory wrote another record".to_owned());
        };
        runs.push(Run { record, report: *report });
    }
    Ok(runs)
}

fn document(shown: &str, quiet: &[Run], busy: &[Run]) -> String {
    let mut text = "# The memory hierarchy, again and again\n\n\
        Written by `cargo xtask evidence memory`; the method is in [method.md](../method.md).\n\n"
        .to_owned();
    if let Some(first) = quiet.first() {
        text += &machine(&first.record);
    }
    text += &repeated("left alone", quiet, quiet);
    text += &repeated("with a busy process per processor", busy, quiet);
    text += "![time of a load over the size of the chain](memory.svg)\n\n";
    text += &section("linerate memory --all", shown);
    text.trim_end().to_owned() + "\n"
}

/// The runs of a series as a table, latencies beside those of `quiet`.
fn repeated(name: &str, runs: &[Run], quiet: &[Run]) -> String {
    let mut text = format!("## {} times `linerate memory`, {name}\n\n", runs.len());
    text += &conditions(runs);
    text += "| level | found | stated | size, median (range) | within 5 % | interval holds it | \
             ns, median (range) | furthest from the median left alone |\n\
             |---|---|---|---|---|---|---|---|\n";
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for level in runs.iter().flat_map(|run| &run.report.levels) {
        *names.entry(&level.name).or_default() += 1;
    }
    for (level, found) in names {
        text += &row(level, found, runs, quiet);
    }
    let entries = count(runs.iter().map(|run| {
        let first = run.report.tlb.first().and_then(|level| level.entries.as_number());
        first.map_or_else(|| "not told".to_owned(), |entries| entries.to_string())
    }));
    let verdicts = count(runs.iter().map(|run| format!("{:?}", run.report.pages.verdict)));
    let _ = writeln!(text, "\nEntries of the first dTLB: {entries}. Huge pages: {verdicts}.\n");
    text
}

fn conditions(runs: &[Run]) -> String {
    let of = |value: fn(&Run) -> Option<f64>| {
        let all: Vec<f64> = runs.iter().filter_map(value).collect();
        median_and_range(&all, 1.0, 2)
    };
    let seconds = of(|run| Some(run.report.conditions.seconds));
    let load = of(|run| run.report.conditions.load_before);
    let lost = of(|run| run.report.noise.lost.as_number().map(|share| share * 100.0));
    format!("Seconds: {seconds}. Load average before: {load}. Time lost, in %: {lost}.\n\n")
}

fn row(name: &str, found: usize, runs: &[Run], quiet: &[Run]) -> String {
    let sizes: Vec<f64> =
        levels(runs, name).filter_map(|level| level.size_bytes.as_number()).collect();
    let latencies = |runs| -> Vec<f64> {
        levels(runs, name).filter_map(|level| level.latency_ns.as_number()).collect()
    };
    let here = latencies(runs);
    let furthest = median(&latencies(quiet)).map(|alone| {
        here.iter()
            .map(|ns| 100.0 * (ns / alone - 1.0))
            .fold(0.0, |far: f64, percent| if percent.abs() > far.abs() { percent } else { far })
    });
    let stated = runs.iter().find_map(|run| stated(run, name));
    let (near, held) = match stated {
        None => ("-".to_owned(), "-".to_owned()),
        Some(stated) => {
            let near = sizes.iter().filter(|size| (*size / stated - 1.0).abs() <= 0.05).count();
            let held = levels(runs, name).filter(|level| holds(level, stated)).count();
            (format!("{near} of {}", runs.len()), format!("{held} of {}", runs.len()))
        }
    };
    format!(
        "| {name} | {found} of {} | {} | {} KiB | {near} | {held} | {} | {} |\n",
        runs.len(),
        stated.map_or_else(|| "-".to_owned(), |bytes| format!("{} KiB", bytes / 1024.0)),
        median_and_range(&sizes, 1024.0, 0),
        median_and_range(&here, 1.0, 3),
        furthest.map_or_else(|| "-".to_owned(), |percent| format!("{percent:+.2} %")),
    )
}

fn levels<'r>(runs: &'r [Run], name: &'r str) -> impl Iterator<Item = &'r MemoryLevel> {
    runs.iter().flat_map(|run| &run.report.levels).filter(move |level| level.name == name)
}

fn stated(run: &Run, name: &str) -> Option<f64> {
    let view = run.report.os_view.iter().find(|view| view.name == name)?;
    view.stated_bytes.map(|bytes| bytes as f64)
}

fn holds(level: &MemoryLevel, bytes: f64) -> bool {
    let interval = level.size_bytes.low.zip(level.size_bytes.high);
    interval.is_some_and(|(low, high)| (low..=high).contains(&bytes))
}

fn median_and_range(samples: &[f64], unit: f64, decimals: usize) -> String {
    let Some(middle) = median(samples) else { return "-".to_owned() };
    let least = samples.iter().fold(f64::INFINITY, |least, x| least.min(*x));
    let most = samples.iter().fold(f64::NEG_INFINITY, |most, x| most.max(*x));
    let show = |x: f64| format!("{:.decimals$}", x / unit);
    format!("{} ({} to {})", show(middle), show(least), show(most))
}

/// Each value with how often it occurs: `72 (19 times), not told (once)`.
fn count(values: impl Iterator<Item = String>) -> String {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for value in values {
        *times.entry(value).or_default() += 1;
    }
    let said = times.iter().map(|(value, times)| match times {
        1 => format!("{value} (once)"),
        _ => format!("{value} ({times} times)"),
    });
    said.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted() {
        let values = ["72", "64", "72"].map(str::to_owned).into_iter();
        assert_eq!(count(values), "64 (once), 72 (2 times)");
    }

    #[test]
    fn a_range_is_in_the_unit_asked_for() {
        assert_eq!(median_and_range(&[1024.0, 3072.0, 2048.0], 1024.0, 0), "2 (1 to 3)");
        assert_eq!(median_and_range(&[], 1.0, 0), "-");
    }
}
