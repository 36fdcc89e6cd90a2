// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate report`: a record shown again.

use crate::emit::{self, Answer, Output};
use crate::export;
use crate::failure::{Failure, also};
use crate::files::{self, Files};
use clap::{Args, ValueEnum};
use linerate_record::{Body, Record};
use linerate_report::{Detail, Layout, Options};
use std::path::PathBuf;

const AFTER: &str = "\
The text is that of the command that made the record, for the width of this terminal (COLUMNS asks
for another). --all stands for the options of commands that only choose detail: memory --all, stat
--explain, tcp --histograms. Warnings go to stderr. Examples:

  linerate run edge.toml --record run.json
  linerate report run.json
  linerate report --format markdown run.json > run.md
  ssh router linerate memory --json | linerate report --all -";

#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct ReportArgs {
    /// The record; - reads it from stdin
    #[arg(value_name = "RECORD.json")]
    file: PathBuf,
    /// Print everything: every size, every explanation, every histogram
    #[arg(long)]
    all: bool,
    /// How to print: text, markdown, or rpistat for a record of stat
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "text",
        conflicts_with = "json"
    )]
    format: Format,
    #[command(flatten)]
    output: Output,
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// As the command did
    Text,
    /// Markdown, tables as GitHub has them
    Markdown,
    /// The report of rpistat, with its nine events
    Rpistat,
}

/// Prints a record as the command did that made it.
pub(crate) fn report(args: &ReportArgs) -> Result<Answer, Failure> {
    let record_to = args.output.record.as_ref();
    Files::default().reads("the record", &args.file).writes("--record", record_to).check()?;
    let record = export::read(&args.file)?;
    let text = text(args, &record)?;
    if !args.output.quiet() && args.format != Format::Markdown {
        emit::warn(&record);
    }
    let written = record_to
        .map_or(Ok(()), |file| files::write(file, record.to_json_pretty().map_err(Failure::new)?));
    also(emit::print(&text), written)
}

fn text(args: &ReportArgs, record: &Record) -> Result<String, Failure> {
    let detail = if args.all { Detail::Full } else { Detail::Brief };
    let options = emit::options(detail);
    Ok(match args.format {
        _ if args.output.json => record.to_json_pretty().map_err(Failure::new)?,
        Format::Text => linerate_report::text(record, &options),
        Format::Markdown => linerate_report::markdown(record, &options),
        Format::Rpistat if !matches!(record.body, Body::Stat(_)) => {
            return Err(Failure::new(format!(
                "--format rpistat: {} is not a record of stat",
                args.file.display()
            )));
        }
        Format::Rpistat => {
            linerate_report::text(record, &Options { layout: Layout::Rpistat, ..options })
        }
    })
}
