// SPDX-License-Identifier: MIT OR Apache-2.0
//! What routines are worth to TCP stacks, and whether everything arrives, written to `docs/results`
//! by the runs themselves.
//!
//! Takes some minutes and wants an idle machine: it is not part of CI.

use crate::command::{cargo, output, program, root};
use crate::evidence::{build, machine, recorded, section};
use crate::lwip;
use linerate_record::tcp::{TcpPattern, TcpReport, TcpSeam, TcpSet, TcpStack};
use linerate_record::{Body, Figure, Record};
use std::fs;
use std::path::Path;

const RESULT: &str = "docs/results/tcp.md";

/// Where the plots of the wire that copies go.
const PLOTS: &str = "docs/results/tcp";

/// Bytes that the proof sends in each pattern, unless told otherwise.
const BYTES: &str = "1e10";

/// Of these, sending takes weeks.
const MOST_BYTES: f64 = 1e15;

/// How long each wire is measured.
const TIME: &str = "20s";

/// Instead of measuring.
const LAW: [&str; 1] = ["--law"];

/// What is asked of lwIP over the wire that copies: the pattern, over the best scalar set, and of
/// the bound; of smoltcp, of the bound alone.
const GOALS: [(&str, &str, Option<f64>, f64); 4] = [
    ("lwip", "bulk", Some(1.45), 0.85),
    ("lwip", "jumbo", Some(2.2), 0.85),
    ("smoltcp", "bulk", None, 0.85),
    ("smoltcp", "jumbo", None, 0.85),
];

/// A number of bytes, as the proof takes it.
pub(crate) fn bytes(text: &str) -> Result<String, String> {
    let is_number = text.parse::<f64>().is_ok_and(|bytes| (1.0..=MOST_BYTES).contains(&bytes));
    if is_number {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is no number of bytes; give one, such as {BYTES}"))
    }
}

/// Measures and writes.
pub(crate) fn write(bytes: Option<&str>) -> Result<(), String> {
    let bytes = bytes.unwrap_or(BYTES);
    let binary = build()?;
    lwip::ensure()?;
    let mut runs = Vec::new();
    for (wire, plots) in [("copy", &["--svg", PLOTS][..]), ("reference", &[])] {
        eprintln!("linerate tcp --wire {wire}");
        runs.push((wire, measure(&binary, &[&["--time", TIME, "--wire", wire], plots].concat())?));
    }
    eprintln!("bench proof, {bytes} bytes in each pattern");
    let arguments = ["bench", "--quiet", "--locked", "-p", "linerate-tcpbench", "--bench", "proof"];
    let proof = output(cargo(&[&arguments[..], &["--", bytes]].concat()))?;
    let proof = String::from_utf8(proof).map_err(|error| error.to_string())?;
    eprintln!("linerate tcp --law");
    runs.push(("law", measure(&binary, &LAW)?));
    let text = document(&runs, &proof, bytes);
    fs::write(root().join(RESULT), text).map_err(|error| format!("{RESULT}: {error}"))?;
    println!("{RESULT}");
    Ok(())
}

/// What the program prints, and its record.
fn measure(binary: &Path, arguments: &[&str]) -> Result<(String, Record), String> {
    let binary = binary.to_str().ok_or("the path of the program is not UTF-8")?;
    let mut command = program(binary, &["tcp", "--quiet"]);
    command.args(arguments).current_dir(root());
    recorded(command)
}

fn document(runs: &[(&str, (String, Record))], proof: &str, bytes: &str) -> String {
    let mut text = "# TCP stacks and their routines\n\n\
        Written by `cargo xtask evidence tcp`; the method is in [method.md](../method.md). Ratios \
        hold within a run. Rates are per second of processor time of client, server and wire in \
        one thread.\n\n"
        .to_owned();
    let records = runs.iter().map(|(_, (_, record))| record);
    for (index, record) in records.enumerate() {
        let Body::Tcp(report) = &record.body else { continue };
        if index == 0 {
            text += &machine(record);
            text += &goals(report);
            text += &selected(report);
            text += &plots(report);
        }
        text += &laws(report);
    }
    for (what, (printed, _)) in runs {
        let arguments = match *what {
            "law" => LAW.join(" "),
            wire => format!("--time {TIME} --wire {wire}"),
        };
        text += &section(&format!("linerate tcp {arguments}"), printed);
    }
    text += &section(&format!("cargo bench -p linerate-tcpbench --bench proof -- {bytes}"), proof);
    text.trim_end().to_owned() + "\n"
}

/// What is asked, and what came out.
fn goals(report: &TcpReport) -> String {
    let mut text = "The most that can be had over the best scalar set is what the run without \
        checksums has over it, which copies with the fastest copy: where that is below what is \
        asked, no routine reaches it.\n\n\
        | stack | pattern | best set | over scalar | asked | at most | of the bound | asked |\n\
        |---|---|---|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for (stack, pattern, over_scalar, of_bound) in GOALS {
        let stack = report.stacks.iter().find(|found| found.name == stack);
        let found = stack.and_then(|stack| stack.patterns.iter().find(|p| p.name == pattern));
        let sets = found.and_then(|pattern| {
            let named = |name: &str| pattern.sets.iter().find(|set| set.name == name);
            Some((named(pattern.best.as_ref()?)?, named("off")?))
        });
        let (Some(stack), Some((best, off))) = (stack, sets) else { continue };
        let asked = over_scalar.map_or_else(|| "-".to_owned(), |goal| format!("{goal:.2}"));
        text += &format!(
            "| {} | {pattern} | {} | {} | {asked} | {} | {} | {of_bound:.2} |\n",
            stack.name,
            best.name,
            shown(&best.over_scalar),
            shown(&off.over_scalar),
            shown(&best.of_bound),
        );
    }
    text + "\n"
}

/// The plots of each stack.
fn plots(report: &TcpReport) -> String {
    let plots = linerate_report::svg::tcp(report).into_iter();
    let shown = plots.map(|plot| format!("![{}](tcp/{}.svg)\n", plot.title, plot.name));
    shown.collect::<String>() + "\n"
}

/// What is selected beside the best other set, and what it sums alone.
fn selected(report: &TcpReport) -> String {
    let mut text = "What is selected beside the best other set; asked is 0.98 at least, and 0.07 \
        of the payload summed alone at most. Of several others the best is also the luckiest: two \
        are told apart where the intervals of their rates do not meet.\n\n\
        | stack | pattern | best other | over it | told apart | calls of routines | alone |\n\
        |---|---|---|---:|---|---|---:|\n"
        .to_owned();
    for stack in &report.stacks {
        let rows = stack.patterns.iter();
        let rows = rows.filter_map(|pattern| beside_best(&report.selected, stack, pattern));
        text += &rows.collect::<String>();
    }
    text + "\n"
}

/// The row of what is selected.
fn beside_best(selected: &str, stack: &TcpStack, pattern: &TcpPattern) -> Option<String> {
    let number =
        |figure: &Figure| figure.as_number().map_or_else(|| "-".to_owned(), |x| format!("{x:.3}"));
    let rate = |set: &TcpSet| set.segments_per_cpu_s.as_number();
    let own = pattern.sets.iter().find(|set| set.name == selected)?;
    let others = pattern.sets.iter().filter(|set| set.name != selected && set.name != "off");
    let best = others.max_by(|a, b| rate(a).unwrap_or(0.0).total_cmp(&rate(b).unwrap_or(0.0)))?;
    let over = rate(own).zip(rate(best)).map(|(own, best)| format!("{:.3}", own / best));
    let told = match meet(&own.segments_per_cpu_s, &best.segments_per_cpu_s) {
        None => "-",
        Some(true) => "no",
        Some(false) => "yes",
    };
    Some(format!(
        "| {} | {} | {} | {} | {told} | {} | {} |\n",
        stack.name,
        pattern.name,
        best.name,
        over.as_deref().unwrap_or("-"),
        if own.seam.iter().all(TcpSeam::is_inline) { "none" } else { "some" },
        number(&own.checksum_per_payload),
    ))
}

/// Whether two intervals have anything in common, if both are known.
fn meet(one: &Figure, other: &Figure) -> Option<bool> {
    Some(one.low? <= other.high? && other.low? <= one.high?)
}

/// The law, as far as it was measured: exponents with their intervals beside what is asked.
fn laws(report: &TcpReport) -> String {
    if report.laws.is_empty() {
        return String::new();
    }
    let mut text = "Exponents of throughput under loss:\n\n\
        | stack | of | found | asked | |\n|---|---|---:|---:|---|\n"
        .to_owned();
    for law in &report.laws {
        let exponents = [
            ("loss", &law.exponent_loss, -0.5, 0.03),
            ("segment", &law.exponent_segment, 1.0, 0.03),
            ("round trip", &law.exponent_round_trip, -1.0, 0.05),
        ];
        for (of, figure, goal, margin) in exponents {
            let (low, high) = (goal - margin, goal + margin);
            let held = figure.as_number().is_some_and(|found| (low..=high).contains(&found));
            let verdict = if held { "holds" } else { "missed" };
            let found = figure.as_number().map_or_else(|| "-".to_owned(), |x| format!("{x:.3}"));
            let interval = figure.low.zip(figure.high);
            let interval =
                interval.map_or_else(String::new, |(l, h)| format!(" ({l:.3} to {h:.3})"));
            text += &format!(
                "| {} | {of} | {found}{interval} | {goal:.2} ± {margin} | {verdict} |\n",
                law.stack
            );
        }
    }
    text + "\n"
}

/// A ratio with its interval.
fn shown(figure: &Figure) -> String {
    let Some(ratio) = figure.as_number() else { return "-".to_owned() };
    match figure.low.zip(figure.high) {
        Some((low, high)) => format!("{ratio:.2} ({low:.2} to {high:.2})"),
        None => format!("{ratio:.2}"),
    }
}
