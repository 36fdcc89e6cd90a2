// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate export`: writes a record in other programs' formats.

use crate::emit::{self, Answer, Notices};
use crate::failure::Failure;
use crate::help_text::{examples, paragraphs};
use crate::{input, machine};
use clap::{Args, ValueEnum};
use linerate_exchange::{folded, perf_script, pprof, profile_dump, table, totals};
use linerate_record::shell::quoted;
use linerate_record::{Body, Record};
use std::path::{Path, PathBuf};

const AFTER: &str = "\
A dump (--format profile-dump) uses the event codes of --machine; events without a code are omitted
with a warning. Ticks and event counts in the dump exclude time spent waiting. This command prints
the tick rate; to import the dump, pass it to `linerate import --clock`. Examples:

  linerate export run.json --format csv > run.csv
  linerate export run.json --format folded | flamegraph.pl > run.svg
  linerate export profile.json --format flame-graph > profile.svg
  linerate export profile.json --format pprof > profile.pb.gz; go tool pprof -top profile.pb.gz
  linerate export run.json --format prometheus > /var/lib/node_exporter/linerate.prom
  linerate export run.json --format profile-dump > run.dump";

#[derive(Debug, Args)]
#[command(after_help = examples(AFTER), after_long_help = paragraphs(AFTER))]
pub(crate) struct ExportArgs {
    /// The record; - reads it from stdin
    #[arg(value_name = "RECORD.json")]
    file: PathBuf,
    /// Format to write
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Format,
    /// Processor whose event codes a dump uses: t1, t2, or a TOML file (default: t1)
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    #[command(flatten)]
    notices: Notices,
}

/// Export format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// PROFILE_DUMP ver 2.0, the output format of the Netra DPS profiler
    ProfileDump,
    /// Comma-separated values, one figure per line
    Csv,
    /// Folded stacks, for flame graphs
    Folded,
    /// Prometheus text
    Prometheus,
    /// A profile for pprof, Parca, Pyroscope and speedscope: gzipped profile.proto
    Pprof,
    /// A profile in the output format of perf script
    PerfScript,
    /// A flame graph, as SVG
    FlameGraph,
    /// Samples and packet losses over time, as SVG
    Timeline,
}

/// Prints a record in another format.
pub(crate) fn export(args: &ExportArgs) -> Result<Answer, Failure> {
    if args.machine.is_some() && args.format != Format::ProfileDump {
        return Err(Failure::new("--machine needs --format profile-dump"));
    }
    let record = read(&args.file)?;
    let cannot = |error: linerate_exchange::CannotWrite| {
        Failure::new(format!("{}: {error}", args.file.display()))
    };
    let text = match args.format {
        Format::ProfileDump => return dump(args, &record),
        Format::Csv => table::csv(&table::rows(&record).map_err(cannot)?),
        Format::Prometheus => {
            let rows = table::rows(&record).map_err(cannot)?;
            table::prometheus(&rows).map_err(cannot)?
        }
        Format::Folded => folded::stacks(&record).map_err(cannot)?,
        Format::PerfScript => perf_script::text(&record).map_err(cannot)?,
        Format::FlameGraph => flame_graph(args, &record)?,
        Format::Timeline => timeline(args, &record)?,
        Format::Pprof => {
            let bytes = pprof::bytes(&record).map_err(cannot)?;
            return emit::ended(linerate_linux::write_to_stdout(&bytes));
        }
    };
    emit::print(&text)
}

fn flame_graph(args: &ExportArgs, record: &Record) -> Result<String, Failure> {
    let Body::Profile(report) = &record.body else {
        let why = "a flame graph needs a profile record; for other records, use --format folded";
        return Err(Failure::new(format!("{}: {why}", args.file.display())));
    };
    Ok(linerate_report::svg::flame_graph(report).svg)
}

fn timeline(args: &ExportArgs, record: &Record) -> Result<String, Failure> {
    let plot = match &record.body {
        Body::Profile(report) => linerate_report::svg::timeline(report),
        _ => None,
    };
    let why = "this plot needs a profile record made with --timeline";
    let plot = plot.ok_or_else(|| Failure::new(format!("{}: {why}", args.file.display())))?;
    Ok(plot.svg)
}

/// Reads a record; `-` is stdin.
pub(crate) fn read(file: &Path) -> Result<Record, Failure> {
    let fail = |why: String| Failure::new(format!("{}: {why}", file.display()));
    let json = input::text(file, input::RECORD).map_err(&fail)?;
    Record::from_json(&json).map_err(|error| match is_path_file(&json) {
        true => fail(format!(
            "a packet path, not a record; did you mean `linerate run {}`?",
            quoted(file)
        )),
        false => fail(error.to_string()),
    })
}

/// Returns whether a text is a path file: TOML with a table that paths have.
fn is_path_file(text: &str) -> bool {
    text.lines().any(|line| matches!(line.trim(), "[source]" | "[[stage]]"))
}

fn dump(args: &ExportArgs, record: &Record) -> Result<Answer, Failure> {
    let processor = machine::named(args.machine.as_deref().unwrap_or("t1"))?;
    // Imported records use the processor's own event names; other records use portable names.
    let is_portable = !matches!(record.body, Body::Strands(_));
    let codes = machine::codes(&processor, is_portable);
    let exchanged = linerate_exchange::Processor { codes, ..Default::default() };
    let readings = totals::readings(record, &exchanged)
        .map_err(|error| Failure::new(format!("{}: {error}", args.file.display())))?;
    if !args.notices.quiet {
        if !readings.left_out.is_empty() {
            let names: Vec<&str> = readings.left_out.iter().map(String::as_str).collect();
            emit::say(&format!(
                "warning:    {} has no event codes for {}, so the dump omits them\n",
                processor.name,
                names.join(", ")
            ));
        }
        for strand in &readings.strands {
            emit::say(&format!("CPUID {:x} is {}\n", strand.number, strand.name));
        }
        if let Some(ghz) = clock(record) {
            emit::say(&format!("ticks run at {ghz} GHz; import the dump with --clock {ghz}\n"));
        }
    }
    emit::print(&profile_dump::write(&readings.strands))
}

/// Returns the tick rate in GHz if the record's times are in ticks.
fn clock(record: &Record) -> Option<f64> {
    match &record.body {
        Body::Run(run) => Some(run.ticks_per_s / 1e9),
        Body::Tune(tune) => Some(tune.tuned.ticks_per_s / 1e9),
        Body::Regions(_) => record.provenance.ticks_per_s.map(|rate| rate / 1e9),
        Body::Strands(report) => report.machine.as_ref().map(|machine| machine.clock_ghz),
        _ => None,
    }
}
