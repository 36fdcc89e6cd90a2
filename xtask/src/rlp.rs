// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Radio Link Protocol's reference application beside the figures of the Netra document,
//! written to `docs/results/rlp`.
//!
//! Three things stand side by side: what the document measured on its machine, what the simulator
//! says of that machine, and what this program measured here. Only the shape of the path is the
//! same; the page says of each figure what it was measured on.
//!
//! The paths take turns, so that what others do to the machine meets all of them. Takes some
//! minutes: it is not part of CI.

mod one_worker;

use crate::command::root;
use crate::evidence::{build, kept, machine};
use linerate_record::run::{RunReport, StageReport};
use linerate_record::stats::median;
use linerate_record::{Body, Figure, Record, Warning};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const FOLDER: &str = "docs/results/rlp";

/// Runs of each path, in turns.
const ROUNDS: usize = 5;

/// Length of a run: with all others that this tool starts, it is done within six minutes.
const SECONDS: &str = "1s";

/// Tunings of a path at most, until one can tell what to keep.
const TUNE_TRIES: usize = 2;

/// A path, and what the document has of it: kpps of a flow, and the share of the line it prints.
struct Row {
    name: &'static str,
    what: &'static str,
    document: Option<(f64, &'static str)>,
    /// The path that models it on the document's machine.
    model: Option<&'static str>,
}

const ROWS: [Row; 5] = [
    Row {
        name: "rlp-config1",
        what: "configuration 1: joined, 12 workers",
        document: Some((224.0, "65 %")),
        model: Some("rlp-t1-config1"),
    },
    Row {
        name: "rlp-config2",
        what: "configuration 2: split, 12 workers",
        document: Some((310.0, "90 %")),
        model: Some("rlp-t1-config2"),
    },
    Row { name: "rlp-merged", what: "all on one worker", document: None, model: None },
    Row { name: "rlp-replicated", what: "to completion, 4 workers", document: None, model: None },
    Row { name: "rlp-reverse", what: "reverse, 3 workers", document: None, model: None },
];

/// Tuned paths: those of the forward direction.
const TUNED: usize = 4;

/// The path whose tuning is put beside one worker.
const FIRST: &str = "rlp-config1";

/// What was found of a row.
#[derive(Default)]
struct Found {
    runs: Vec<Record>,
    tuned: Option<Record>,
    over_one_worker: Option<one_worker::Compared>,
    model_kpps: Option<f64>,
}

/// Measures and writes.
pub(crate) fn write() -> Result<(), String> {
    let binary = build()?;
    let mut found: Vec<Found> = ROWS.iter().map(|_| Found::default()).collect();
    for round in 1..=ROUNDS {
        for (row, found) in ROWS.iter().zip(&mut found) {
            eprintln!("run {round} of {ROUNDS}: {}", row.name);
            let path = example(row.name);
            found
                .runs
                .push(record(&binary, &["run", "--oversubscribe", "--time", SECONDS, &path])?);
        }
    }
    for (row, found) in ROWS.iter().zip(&mut found).take(TUNED) {
        eprintln!("tune {}", row.name);
        found.tuned = tuned(&binary, row.name, &one_worker::place());
        if row.name == FIRST && found.tuned.is_some() {
            found.over_one_worker = Some(one_worker::compare(&binary, &one_worker::place())?);
        }
    }
    // Not there when no tuning could tell.
    let _ = fs::remove_file(one_worker::place());
    for (row, found) in ROWS.iter().zip(&mut found) {
        if let Some(model) = row.model {
            let plan = record(&binary, &["plan", "--machine", "t1", &example(model)])?;
            found.model_kpps = plan.figures().get("predicted_kpps").and_then(Figure::as_number);
        }
    }
    let folder = root().join(FOLDER);
    fs::create_dir_all(&folder).map_err(|error| format!("{FOLDER}: {error}"))?;
    let file = format!("{FOLDER}/README.md");
    fs::write(root().join(&file), document(&found)?).map_err(|e| format!("{file}: {e}"))?;
    println!("{file}");
    Ok(())
}

fn example(name: &str) -> String {
    format!("examples/{name}.toml")
}

/// The record that a command of the program prints.
fn record(binary: &Path, words: &[&str]) -> Result<Record, String> {
    let (command, rest) = words.split_first().ok_or("no command")?;
    let quiet: &[&str] = if *command == "plan" { &["--json"] } else { &["--json", "--quiet"] };
    let done = Command::new(binary)
        .arg(command)
        .args(quiet)
        .args(rest)
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("{}: {error}", binary.display()))?;
    if !done.status.success() {
        return Err(format!("linerate {}: {}", words.join(" "), done.status));
    }
    let json = String::from_utf8(done.stdout).map_err(|error| error.to_string())?;
    Record::from_json(&json).map_err(|error| format!("linerate {}: {error}", words.join(" ")))
}

/// A tuning that could tell, and its path in the file `out`; `None` when none of several could, as
/// on a machine that others keep busy.
fn tuned(binary: &Path, name: &str, out: &Path) -> Option<Record> {
    let out = out.display().to_string();
    let tries = (0..TUNE_TRIES).map(|_| record(binary, &["tune", "--out", &out, &example(name)]));
    tries.filter_map(|tried| tried.map_err(|error| eprintln!("{error}")).ok()).next()
}

fn document(found: &[Found]) -> Result<String, String> {
    let first = found.first().and_then(|found| found.runs.first()).ok_or("nothing was run")?;
    let mut text = "# The Radio Link Protocol's application, beside the Netra document\n\n\
         Written by `cargo xtask evidence rlp`; the method is in [method.md](../../method.md), the \
         protocol in [rlp.md](../../rlp.md).\n\n\
         - **document**: \"Netra Data Plane Software Suite 2.0\", chapter 10, measured on an \
         UltraSPARC T1 of 1.2 GHz with 32 strands, frames of 342 bytes from four lines of 1 Gb/s\n\
         - **simulated**: what `linerate plan --machine t1` says of that machine (tier `model`; \
         its costs were fitted to the document's figures, see \
         [simulator.md](../netra/simulator.md))\n\
         - **here**: measured by this program on the machine below, packets from memory (tier \
         `sw`)\n\n"
        .to_owned();
    text += machine(first).trim_end();
    let _ = writeln!(text, "\n- beside it: {}\n", others(found));
    rates(found, &mut text);
    tunings(found, &mut text);
    workers(found, &mut text);
    Ok(text)
}

/// Share of the processors that others may take before rates say more of them than of the paths.
const BUSY: f64 = 0.25;

/// How much of the processors other programs took just before the runs.
fn others(found: &[Found]) -> String {
    let runs = found.iter().flat_map(|found| &found.runs);
    let shares = runs.flat_map(|run| run.warnings()).filter_map(|warning| match warning {
        Warning::NotIdle { share } => Some(share),
        _ => None,
    });
    match median(&shares.collect::<Vec<_>>()) {
        Some(share) => format!(
            "other programs took {:.0} % of the processors (median of the runs that met any){}",
            100.0 * share,
            if share > BUSY { "; what stands under *here* is what they left over" } else { "" }
        ),
        None => "no other program took a tenth of a processor".to_owned(),
    }
}

/// The median of a figure over the runs.
fn of_runs(found: &Found, name: &str) -> Option<f64> {
    let numbers = found.runs.iter().filter_map(|run| run.figures().get(name)?.as_number());
    median(&numbers.collect::<Vec<_>>())
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// Kpps of a flow, and the share of the line: the document's, the simulator's, ours.
fn rates(found: &[Found], text: &mut String) {
    *text += "## Thousand packets per second on each of four flows\n\n\
              Frames of 342 bytes with check sequence; a line of 1 Gb/s carries 345.3 kpps of \
              them.\n\n\
              | path | document | share of line | simulated | here | lowest to highest run | \
              share of line |\n|---|---:|---:|---:|---:|---|---:|\n";
    for (row, found) in ROWS.iter().zip(found) {
        let (kpps, share) =
            row.document.map_or(("-".to_owned(), "-"), |(kpps, share)| (format!("{kpps}"), share));
        let _ = writeln!(
            text,
            "| [{}](../../../examples/{}.toml) | {kpps} | {share} | {} | {} | {} | {} |",
            row.what,
            row.name,
            number(found.model_kpps, 1),
            number(of_runs(found, "flow_kpps"), 1),
            spread(found),
            percent(of_runs(found, "flow_line_share")),
        );
    }
    let kpps = |row: usize| found.get(row).and_then(|found| of_runs(found, "flow_kpps"));
    let ratio = kpps(1).zip(kpps(0)).map(|(two, one)| two / one);
    let modelled = |row: usize| found.get(row).and_then(|found| found.model_kpps);
    let simulated = modelled(1).zip(modelled(0)).map(|(two, one)| two / one);
    let _ = writeln!(
        text,
        "\nConfiguration 2 over configuration 1: {} in the document, {} simulated, {} here. There, \
         splitting took a look at an interface on which nothing comes out of the worker that set \
         the pace; each worker had a hardware thread. Here that look is one at an empty queue in \
         memory, and where there are fewer processors than workers, workers take turns on them: \
         these rates are right for the work done, and say nothing about twelve processors.\n",
        number(Some(310.0 / 224.0), 2),
        number(simulated, 2),
        number(ratio, 2),
    );
}

/// The lowest and the highest run.
fn spread(found: &Found) -> String {
    let all = found.runs.iter().filter_map(|run| run.figures().get("flow_kpps")?.as_number());
    let (low, high) =
        all.fold((f64::INFINITY, 0.0_f64), |(low, high), kpps| (low.min(kpps), high.max(kpps)));
    if low > high { "-".to_owned() } else { format!("{low:.0} to {high:.0}") }
}

/// What `tune` makes of each, on the processors there are.
fn tunings(found: &[Found], text: &mut String) {
    *text += "## `linerate tune` from each\n\nThousand packets per second over all flows. The \
              baseline is the path's mapping as far as there are processors for it.\n\n\
              | from | baseline | tuned | speed-up | kept |\n|---|---:|---:|---:|---|\n";
    let figure = |found: &Found, name: &str| found.tuned.as_ref()?.figures().get(name)?.as_number();
    for (row, found) in ROWS.iter().zip(found).take(TUNED) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            row.name,
            number(figure(found, "baseline_kpps"), 0),
            number(figure(found, "tuned_kpps"), 0),
            number(figure(found, "speedup"), 2),
            found.tuned.as_ref().map_or("-".to_owned(), kept).replace('|', "\\|"),
        );
    }
    text.push('\n');
    for (row, found) in ROWS.iter().zip(found).take(TUNED) {
        let sentence = found.tuned.as_ref().and_then(|record| match &record.body {
            Body::Tune(report) => Some(report.finding.sentence.as_str()),
            _ => None,
        });
        let _ = writeln!(
            text,
            "- {}: {}",
            row.name,
            sentence.unwrap_or("no tuning could tell, beside what else ran")
        );
    }
    text.push('\n');
    let compared = found.iter().find_map(|found| found.over_one_worker.as_ref());
    *text += &compared.map_or_else(one_worker::none, one_worker::Compared::section);
}

/// What the workers of each path did: ours by stage over its replicas, and the document's cycles
/// per instruction.
fn workers(found: &[Found], text: &mut String) {
    *text += "## Stage by stage\n\nOurs: packets and drops of all runs; ticks are the median over \
              runs and replicas and those of the tuned mapping, of the timestamp counter, waiting \
              excluded, in windows without preemption (few where workers share processors). \
              The document has cycles per instruction of its workers (tables 10-6 and \
              10-7).\n\n\
              | path | stage | packets | ticks per packet | cycles per instruction | document | \
              drops |\n|---|---|---:|---:|---:|---:|---:|\n";
    for (row, found) in ROWS.iter().zip(found) {
        let reports: Vec<&RunReport> = found.runs.iter().filter_map(run_of).collect();
        let Some(names) = reports.first().map(|report| stage_names(report)) else { continue };
        let tuned = found.tuned.as_ref().and_then(|record| match &record.body {
            Body::Tune(report) => Some(&report.tuned),
            _ => None,
        });
        for name in names {
            let stages = || reports.iter().flat_map(|report| stages_of(report, &name));
            let event = |stage: &StageReport| stage.events.as_ref()?.get("cpi")?.as_number();
            let of_tuned = tuned.into_iter().flat_map(|report| stages_of(report, &name));
            let ticks =
                stages().chain(of_tuned).filter_map(|stage| stage.ticks_per_packet.as_number());
            let _ = writeln!(
                text,
                "| {} | {name} | {} | {} | {} | {} | {} |",
                row.name,
                stages().map(|stage| stage.packets).sum::<u64>(),
                number(median(&ticks.collect::<Vec<_>>()), 0),
                number(median(&stages().filter_map(event).collect::<Vec<_>>()), 2),
                document_cpi(row.name, &name),
                stages().flat_map(|stage| stage.drops.values()).sum::<u64>(),
            );
        }
    }
}

fn run_of(record: &Record) -> Option<&RunReport> {
    match &record.body {
        Body::Run(report) => Some(report),
        _ => None,
    }
}

/// The stages of a path in order, without the ends of workers.
fn stage_names(report: &RunReport) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for stage in report.workers.iter().flat_map(|worker| &worker.stages) {
        let is_end = ["source", "sink", "ring in", "ring out"].contains(&stage.name.as_str());
        if !is_end && !names.contains(&stage.name) {
            names.push(stage.name.clone());
        }
    }
    names
}

fn stages_of<'r>(report: &'r RunReport, name: &str) -> impl Iterator<Item = &'r StageReport> {
    let stages = report.workers.iter().flat_map(|worker| &worker.stages);
    stages.filter(move |stage| stage.name == name)
}

/// Cycles per instruction of the document's workers.
fn document_cpi(path: &str, stage: &str) -> &'static str {
    match (path, stage) {
        ("rlp-config1", "PDSN_RXTX") => "9.07",
        ("rlp-config1", "ATIF_RXTX") => "12.51",
        ("rlp-config2", "PDSN_RX") => "8.53",
        ("rlp-config2", "RLP") => "3.91",
        ("rlp-config2", "ATIF_TX") => "2.82",
        _ => "-",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_of_the_page_is_an_example() {
        let models = ROWS.iter().filter_map(|row| row.model);
        for name in ROWS.iter().map(|row| row.name).chain(models) {
            assert!(root().join(example(name)).exists(), "{name}");
        }
    }

    #[test]
    fn a_page_of_nothing_is_refused_and_what_is_missing_is_marked() {
        assert!(document(&[]).is_err());
        assert_eq!((number(None, 1), percent(None)), ("-".to_owned(), "-".to_owned()));
        assert_eq!(spread(&Found::default()), "-");
        assert_eq!(percent(Some(224.0 / 345.304)), "64.9 %");
    }
}
