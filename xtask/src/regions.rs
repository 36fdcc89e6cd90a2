// SPDX-License-Identifier: MIT OR Apache-2.0
//! What regions cost and how well they agree with counting from outside, written to `docs/results`
//! by the runs themselves.
//!
//! Takes some minutes and wants an idle machine: it is not part of CI.

mod guest;

use crate::command::{cargo, output, program, root};
use crate::evidence::{bench, build, machine, section};
use linerate_record::regions::{RegionReport, RegionsReport};
use linerate_record::stat::StatReport;
use linerate_record::stats::{median, quantile};
use linerate_record::{Body, Figure, Record};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const RESULT: &str = "docs/results/self-measurement.md";
const RUNS: usize = 15;
const EVENTS: [&str; 5] =
    ["task_clock_ns", "page_faults", "context_switches", "instructions", "cycles"];

/// Not an event, and told by both sides.
const ELAPSED: &str = "elapsed_us";

/// What the example is told to do, and the function that does it.
const WORKLOADS: [([&str; 2], &str); 2] =
    [(["matmul", "300"], "multiply"), (["chase", "4000000"], "follow")];

/// Measures and writes.
pub(crate) fn write() -> Result<(), String> {
    let binary = build()?;
    let example = build_example(&binary)?;
    let edge = bench("linerate-regions", "edge")?;
    let guest = guest::section()?;
    let mut text = "# A program that measures itself, beside `linerate stat`\n\n\
        Written by `cargo xtask evidence regions`; the method is in [method.md](../method.md).\n\n"
        .to_owned();
    let mut sections = String::new();
    for (workload, function) in WORKLOADS {
        let runs: Vec<Run> =
            (0..RUNS).map(|_| Run::make(&binary, &example, workload)).collect::<Result<_, _>>()?;
        if sections.is_empty() {
            text += &machine(&runs[0].record);
        }
        sections += &table(workload, &runs);
        sections += &simulated(&binary, &example, workload, function)?;
    }
    text += EXPLANATION;
    text += &sections;
    text += &section("cargo bench -p linerate-regions --bench edge", &edge);
    text += &guest;
    let text = text.trim_end().to_owned() + "\n";
    fs::write(root().join(RESULT), text).map_err(|error| format!("{RESULT}: {error}"))?;
    println!("{RESULT}");
    Ok(())
}

const EXPLANATION: &str = "\
The same run is counted twice: by `linerate stat` from outside, and by the program itself, with a
region `program` around everything it does and a region `work` around the loop that matters. What
`stat` sees and `program` does not is the program's start (loading it and its libraries), opening
its own counters, measuring what measuring costs, and writing the record, for which it sleeps 20 ms
to learn the rate of the ticks. Medians of 15 runs; the last column is `stat` over `program`, with
its range.

";

fn build_example(binary: &Path) -> Result<PathBuf, String> {
    let name = "self_measurement";
    let package = ["build", "--release", "--locked", "-p", "linerate-regions", "--example", name];
    output(cargo(&package))?;
    let folder = binary.parent().ok_or("the program lies in no folder")?;
    Ok(folder.join("examples").join(name))
}

/// One run, seen from both sides.
struct Run {
    record: Record,
    outside: StatReport,
    inside: RegionsReport,
    ticks_per_s: Option<f64>,
}

impl Run {
    fn make(binary: &Path, example: &Path, workload: [&str; 2]) -> Result<Self, String> {
        let file = |side: &str| {
            std::env::temp_dir().join(format!("linerate-{side}-{}.json", std::process::id()))
        };
        let (outside, inside) = (file("outside"), file("inside"));
        let mut command = program(&binary.to_string_lossy(), &["stat", "--quiet", "-e"]);
        command.arg(EVENTS.join(",")).arg("--record").arg(&outside).arg("--").arg(example);
        command.args(workload);
        command.env("LINERATE_REGIONS", &inside).env("LINERATE_REGIONS_EVENTS", EVENTS.join(","));
        output(command)?;
        Self::of(read(&outside)?, read(&inside)?)
    }

    /// From the records of both sides.
    fn of(record: Record, inside: Record) -> Result<Self, String> {
        let Body::Stat(outside) = record.body.clone() else {
            return Err("stat wrote another record".to_owned());
        };
        let ticks_per_s = inside.provenance.ticks_per_s;
        match inside.body {
            Body::Regions(inside) => {
                Ok(Self { record, outside: *outside, inside: *inside, ticks_per_s })
            }
            _ => Err("the example wrote another record".to_owned()),
        }
    }

    fn region(&self, name: &str) -> Option<&RegionReport> {
        self.inside.regions.iter().find(|region| region.name == name)
    }

    /// The event in a region, or why it is not there.
    fn inside(&self, region: &str, event: &str) -> Result<f64, String> {
        let region = self.region(region).ok_or("the region was not entered")?;
        if event == ELAPSED {
            let rate = self.ticks_per_s.ok_or("the rate of the ticks is unknown")?;
            return Ok(number(&region.ticks)? / rate * 1e6);
        }
        let found = region.events.iter().find(|found| found.name == event);
        number(&found.ok_or("it was not asked for")?.count)
    }

    fn outside(&self, event: &str) -> Result<f64, String> {
        if event == ELAPSED {
            return Ok(self.outside.elapsed_s * 1e6);
        }
        let found = self.outside.events.iter().find(|found| found.name == event);
        number(&found.ok_or("it was not asked for")?.count)
    }
}

fn read(file: &Path) -> Result<Record, String> {
    let json = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    // What was read is not needed again, and what stays is removed with the temporary folder.
    let _ = fs::remove_file(file);
    Record::from_json(&json).map_err(|error| format!("{}: {error}", file.display()))
}

fn number(figure: &Figure) -> Result<f64, String> {
    figure.as_number().ok_or_else(|| figure.reason.clone().unwrap_or_default())
}

fn table(workload: [&str; 2], runs: &[Run]) -> String {
    let mut text = format!(
        "## `self_measurement {}`\n\n| event | region `program/work` | region `program` | `stat` | \
         `stat` / `program` |\n|---|---:|---:|---:|---|\n",
        workload.join(" ")
    );
    let mut reasons = Vec::new();
    for event in [ELAPSED].into_iter().chain(EVENTS) {
        let of = |value: &dyn Fn(&Run) -> Result<f64, String>| {
            runs.iter().map(value).collect::<Result<Vec<f64>, String>>()
        };
        let row = [
            of(&|run| run.inside("program/work", event)),
            of(&|run| run.inside("program", event)),
            of(&|run| run.outside(event)),
        ];
        let cells = row.each_ref().map(|values| match values {
            Ok(values) => whole(median(values)),
            Err(_) => "-".to_owned(),
        });
        let ratio = match &row {
            [_, Ok(inside), Ok(outside)] => ratios(inside, outside),
            _ => "-".to_owned(),
        };
        let _ = writeln!(text, "| {event} | {} | {ratio} |", cells.join(" | "));
        let reason = row.into_iter().find_map(Result::err);
        reasons.extend(reason.filter(|reason| !reasons.contains(reason)));
    }
    for reason in reasons {
        let _ = writeln!(text, "\n`-`: {reason}");
    }
    text + "\n"
}

/// Median, least and greatest of outside over inside, run by run.
fn ratios(inside: &[f64], outside: &[f64]) -> String {
    let pairs = inside.iter().zip(outside).filter(|(inside, _)| **inside > 0.0);
    let ratios: Vec<f64> = pairs.map(|(inside, outside)| outside / inside).collect();
    let at = |q| quantile(&ratios, q).map_or("-".to_owned(), |ratio| format!("{ratio:.3}"));
    match ratios.is_empty() {
        true => "- (0 inside)".to_owned(),
        false => format!("{} ({} to {})", at(0.5), at(0.0), at(1.0)),
    }
}

fn whole(value: Option<f64>) -> String {
    let digits = value.map_or("-".to_owned(), |value| format!("{value:.0}"));
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// Instructions of the simulator: of the whole program, and of the function alone, which it counts
/// where it is told to. Neither counts what the program does about its own regions in the other.
fn simulated(
    binary: &Path,
    example: &Path,
    workload: [&str; 2],
    function: &str,
) -> Result<String, String> {
    let file = std::env::temp_dir().join(format!("linerate-sim-{}.json", std::process::id()));
    let arguments = ["stat", "--quiet", "--tier", "sim", "-e", "instructions", "--record"];
    let mut command = program(&binary.to_string_lossy(), &arguments);
    command.arg(&file).arg("--").arg(example).args(workload).env("LINERATE_REGIONS_EVENTS", "");
    if let Err(error) = output(command) {
        return Ok(format!("Not simulated: {error}\n\n"));
    }
    let record = read(&file)?;
    let figures = record.figures();
    let figure = figures.get("instructions").ok_or("no instructions in the record")?;
    let all = match number(figure) {
        Ok(all) => all,
        Err(reason) => return Ok(format!("Not simulated: {reason}\n\n")),
    };
    let inside = collected(example, workload, function)?;
    Ok(format!(
        "Simulated by Valgrind (tier `sim`): {} instructions in `{function}` alone, {} in all.\n\n",
        whole(Some(inside as f64)),
        whole(Some(all))
    ))
}

/// Instructions of one function, as callgrind counts them.
fn collected(example: &Path, workload: [&str; 2], function: &str) -> Result<u64, String> {
    let file = std::env::temp_dir().join(format!("linerate-callgrind-{}", std::process::id()));
    let toggle = format!("--toggle-collect=*{function}*");
    let mut command = program("valgrind", &["--tool=callgrind", "--quiet", &toggle]);
    command.arg(format!("--callgrind-out-file={}", file.display())).arg(example).args(workload);
    command.env("LINERATE_REGIONS_EVENTS", "");
    output(command)?;
    let text = fs::read_to_string(&file).map_err(|error| format!("callgrind: {error}"))?;
    // As in `read`.
    let _ = fs::remove_file(&file);
    let line = text.lines().find_map(|line| line.strip_prefix("totals: "));
    let number = line.and_then(|totals| totals.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| "callgrind: no totals in its file".to_owned())
}
