// SPDX-License-Identifier: MIT OR Apache-2.0
//! What routines are worth to TCP stacks, and whether everything arrives, written to `docs/results`
//! by the runs themselves.
//!
//! Takes some minutes and wants an idle machine: it is not part of CI.

use crate::command::{cargo, output, program, root};
use crate::evidence::{build, machine, section};
use crate::lwip;
use linerate_record::{Body, Figure, Record};
use std::fs;
use std::path::Path;

const RESULT: &str = "docs/results/tcp.md";

/// Octets that the proof sends in each pattern, unless told otherwise.
const OCTETS: &str = "1e10";

/// What is asked of lwIP over the wire that copies: the pattern, over the best scalar set, and of
/// the bound; of smoltcp, of the bound alone.
const GOALS: [(&str, &str, Option<f64>, f64); 4] = [
    ("lwip", "bulk", Some(1.45), 0.85),
    ("lwip", "jumbo", Some(2.2), 0.85),
    ("smoltcp", "bulk", None, 0.85),
    ("smoltcp", "jumbo", None, 0.85),
];

/// Measures and writes.
pub(crate) fn write(octets: Option<&str>) -> Result<(), String> {
    let octets = octets.unwrap_or(OCTETS);
    let binary = build()?;
    lwip::ensure()?;
    let mut runs = Vec::new();
    for wire in ["copy", "reference"] {
        eprintln!("linerate tcp --wire {wire}");
        runs.push((wire, measure(&binary, wire)?));
    }
    eprintln!("bench proof, {octets} octets in each pattern");
    let arguments = ["bench", "--quiet", "--locked", "-p", "linerate-tcpbench", "--bench", "proof"];
    let proof = output(cargo(&[&arguments[..], &["--", octets]].concat()))?;
    let proof = String::from_utf8(proof).map_err(|error| error.to_string())?;
    let text = document(&runs, &proof, octets);
    fs::write(root().join(RESULT), text).map_err(|error| format!("{RESULT}: {error}"))?;
    println!("{RESULT}");
    Ok(())
}

/// What the program prints, and its record.
fn measure(binary: &Path, wire: &str) -> Result<(String, Record), String> {
    let file = std::env::temp_dir().join(format!("linerate-tcp-{}.json", std::process::id()));
    let binary = binary.to_str().ok_or("the path of the program is not UTF-8")?;
    let mut command = program(binary, &["tcp", "--quiet", "--time", "60s", "--wire", wire]);
    command.arg("--record").arg(&file);
    let printed = output(command);
    let json = fs::read_to_string(&file);
    // Gone already if the program has not written it.
    let _ = fs::remove_file(&file);
    let text = String::from_utf8(printed?).map_err(|error| error.to_string())?;
    let json = json.map_err(|error| format!("{}: {error}", file.display()))?;
    Ok((text, Record::from_json(&json).map_err(|error| error.to_string())?))
}

fn document(runs: &[(&str, (String, Record))], proof: &str, octets: &str) -> String {
    let mut text = "# TCP stacks and their routines\n\n\
        Written by `cargo xtask evidence tcp`; the method is in [method.md](../method.md). Ratios \
        hold within a run. Rates are per second of processor time of client, server and wire in \
        one thread.\n\n"
        .to_owned();
    if let Some((_, (_, record))) = runs.first() {
        text += &machine(record);
        text += &goals(record);
    }
    for (wire, (printed, _)) in runs {
        text += &section(&format!("linerate tcp --time 60s --wire {wire}"), printed);
    }
    text += &section(&format!("cargo bench -p linerate-tcpbench --bench proof -- {octets}"), proof);
    text.trim_end().to_owned() + "\n"
}

/// What is asked, and what came out.
fn goals(record: &Record) -> String {
    let Body::Tcp(report) = &record.body else { return String::new() };
    let mut text = "| stack | pattern | best set | over scalar | asked | of the bound | asked |\n\
                    |---|---|---|---:|---:|---:|---:|\n"
        .to_owned();
    for (stack, pattern, over_scalar, of_bound) in GOALS {
        let stack = report.stacks.iter().find(|found| found.name == stack);
        let found = stack.and_then(|stack| stack.patterns.iter().find(|p| p.name == pattern));
        let best = found.and_then(|pattern| {
            let best = pattern.best.as_ref()?;
            pattern.sets.iter().find(|set| set.name == *best)
        });
        let (Some(stack), Some(best)) = (stack, best) else { continue };
        let asked = over_scalar.map_or_else(|| "-".to_owned(), |goal| format!("{goal:.2}"));
        text += &format!(
            "| {} | {pattern} | {} | {} | {asked} | {} | {of_bound:.2} |\n",
            stack.name,
            best.name,
            shown(&best.over_scalar),
            shown(&best.of_bound),
        );
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
