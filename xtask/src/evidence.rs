// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures behind the claims of the README, written to `docs/results` by the runs themselves.
//!
//! Takes minutes and wants an idle machine: it is not part of CI.

use crate::command::{cargo, output, root};
use linerate_record::stats::{median, quantile};
use linerate_record::{Body, Figure, Record};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const TUNINGS: usize = 20;
const EXAMPLE: &str = "examples/edge.toml";
const RESULT: &str = "docs/results/edge.md";

/// One `linerate tune`.
struct Tuning {
    record: Record,
    seconds: f64,
    peak_kib: u64,
}

impl Tuning {
    fn figure(&self, name: &str) -> Figure {
        self.record.figures()[name].clone()
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.figure(name).as_number()
    }

    /// Whether the measured rate lies in the interval that was predicted; `None` without both.
    fn is_covered(&self) -> Option<bool> {
        let predicted = self.figure("predicted_kpps");
        let (low, high) = predicted.low.zip(predicted.high)?;
        self.number("tuned_kpps").map(|kpps| (low..=high).contains(&kpps))
    }
}

/// Runs everything and writes the result.
pub(crate) fn write(tunings: Option<usize>) -> Result<(), String> {
    let tunings = tunings.unwrap_or(TUNINGS);
    let binary = build()?;
    let ring = bench("linerate-dataplane", "ring")?;
    let edge = bench("linerate", "edge")?;
    let mut all = Vec::new();
    for number in 1..=tunings {
        eprintln!("tune {number} of {tunings}");
        all.push(tune(&binary)?);
    }
    let text = document(&ring, &edge, &all);
    fs::write(root().join(RESULT), text).map_err(|error| format!("{RESULT}: {error}"))
}

/// Builds the program as users do, and says where it is.
pub(crate) fn build() -> Result<std::path::PathBuf, String> {
    let status = cargo(&["build", "--release", "--locked", "-p", "linerate"]).status();
    match status {
        Ok(status) if status.success() => {}
        other => return Err(format!("cargo build: {other:?}")),
    }
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root().join("target"), std::path::PathBuf::from);
    Ok(target.join("release/linerate"))
}

/// What a bench prints.
pub(crate) fn bench(package: &str, name: &str) -> Result<String, String> {
    eprintln!("bench {name}");
    let text = output(cargo(&["bench", "--quiet", "--locked", "-p", package, "--bench", name]))?;
    String::from_utf8(text).map_err(|error| error.to_string())
}

/// What a command of the program prints, and its record.
pub(crate) fn recorded(mut command: Command) -> Result<(String, Record), String> {
    let file = std::env::temp_dir().join(format!("linerate-record-{}.json", std::process::id()));
    command.arg("--record").arg(&file);
    let printed = output(command);
    let json = fs::read_to_string(&file);
    // Gone already if the program has not written it.
    let _ = fs::remove_file(&file);
    let text = String::from_utf8(printed?).map_err(|error| error.to_string())?;
    let json = json.map_err(|error| format!("{}: {error}", file.display()))?;
    Ok((text, Record::from_json(&json).map_err(|error| error.to_string())?))
}

/// Runs one tuning, watching its peak resident memory.
fn tune(binary: &Path) -> Result<Tuning, String> {
    let start = Instant::now();
    let mut child = Command::new(binary)
        .args(["tune", "--json", "--quiet", EXAMPLE])
        .current_dir(root())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{}: {error}", binary.display()))?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    let mut stdout = child.stdout.take().ok_or("no stdout")?;
    let reader = std::thread::spawn(move || {
        let mut json = String::new();
        std::io::Read::read_to_string(&mut stdout, &mut json).map(|_| json)
    });
    let ended = loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break status;
        }
        peak_kib = peak_kib.max(peak_resident_kib(&status).unwrap_or(0));
        sleep(Duration::from_millis(50));
    };
    let seconds = start.elapsed().as_secs_f64();
    let json = reader.join().map_err(|_| "the reader panicked")?;
    let json = json.map_err(|error| error.to_string())?;
    if !ended.success() {
        return Err(format!("linerate tune: {ended}"));
    }
    let record = Record::from_json(&json).map_err(|error| error.to_string())?;
    Ok(Tuning { record, seconds, peak_kib })
}

fn peak_resident_kib(status: &str) -> Option<u64> {
    let text = fs::read_to_string(status).ok()?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn document(ring: &str, edge: &str, all: &[Tuning]) -> String {
    let mut text = "# The edge path, and the ring\n\n\
        Written by `cargo xtask evidence`; the method is in [method.md](../method.md).\n\n"
        .to_owned();
    if let Some(first) = all.first() {
        text += &machine(&first.record);
    }
    text += &section("cargo bench -p linerate-dataplane --bench ring", ring);
    text += &section("cargo bench -p linerate --bench edge", edge);
    text += &format!(
        "## {} times `linerate tune --json {EXAMPLE}`\n\n{}\n{}",
        all.len(),
        totals(all),
        table(all)
    );
    text
}

/// What a record was made on, as a list.
pub(crate) fn machine(record: &Record) -> String {
    let provenance = &record.provenance;
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    format!(
        "- processor: {}, {} logical processors, hypervisor: {}\n\
         - kernel: {}\n- compiler: {}\n- program: {}, commit {}\n\n",
        or_unknown(&provenance.cpu),
        provenance.cpus.len(),
        or_unknown(&provenance.hypervisor),
        or_unknown(&provenance.kernel),
        provenance.compiler,
        provenance.program,
        or_unknown(&provenance.commit),
    )
}

/// A heading with the command and what it printed.
pub(crate) fn section(command: &str, output: &str) -> String {
    format!("## `{command}`\n\n```\n{}\n```\n\n", output.trim_end())
}

fn totals(all: &[Tuning]) -> String {
    let numbers = |name| all.iter().filter_map(|t| t.number(name)).collect::<Vec<f64>>();
    let covered: Vec<bool> = all.iter().filter_map(Tuning::is_covered).collect();
    let errors: Vec<f64> = numbers("prediction_error").iter().map(|e| e.abs()).collect();
    let speedups = numbers("speedup");
    let percent =
        |share: Option<f64>| share.map_or("-".to_owned(), |s| format!("{:.1} %", s * 100.0));
    let ratio = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.3}"));
    let longest = all.iter().map(|t| t.seconds).fold(0.0, f64::max);
    let peak = all.iter().map(|t| t.peak_kib).max().unwrap_or(0);
    format!(
        "| figure | value |\n|---|---|\n\
         | speed-up over the one-worker baseline, median | {} |\n\
         | speed-up, lowest | {} |\n\
         | predicted 95 % interval holds the measurement | {} of {} |\n\
         | absolute prediction error, median | {} |\n\
         | longest run | {longest:.1} s |\n\
         | peak resident memory | {:.1} MB |\n",
        ratio(median(&speedups)),
        ratio(quantile(&speedups, 0.0)),
        covered.iter().filter(|c| **c).count(),
        covered.len(),
        percent(median(&errors)),
        peak as f64 * 1024.0 / 1e6,
    )
}

fn table(all: &[Tuning]) -> String {
    let mut text = "| baseline, kpps | tuned, kpps | speed-up | predicted, kpps | interval | \
                    error | kept |\n|---:|---:|---:|---:|---|---:|---|\n"
        .to_owned();
    for tuning in all {
        let number = |name, digits: usize| {
            tuning.number(name).map_or("-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let predicted = tuning.figure("predicted_kpps");
        let interval = predicted.low.zip(predicted.high);
        let interval = interval.map_or("-".to_owned(), |(l, h)| format!("{l:.0} to {h:.0}"));
        text += &format!(
            "| {} | {} | {} | {} | {interval} | {} | {} |\n",
            number("baseline_kpps", 0),
            number("tuned_kpps", 0),
            number("speedup", 3),
            number("predicted_kpps", 0),
            number("prediction_error", 3),
            kept(&tuning.record).replace('|', "\\|"),
        );
    }
    text
}

/// What a tuning keeps.
pub(crate) fn kept(record: &Record) -> String {
    let Body::Tune(report) = &record.body else { return "-".to_owned() };
    let kept = report.chosen.and_then(|index| report.candidates.get(index as usize));
    kept.map_or_else(|| "the baseline".to_owned(), |c| format!("{}, burst {}", c.mapping, c.burst))
}
