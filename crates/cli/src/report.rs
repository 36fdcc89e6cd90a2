// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate report`: prints a stored record.

use crate::emit::{self, Answer, Destination, Output};
use crate::export;
use crate::failure::Failure;
use crate::files::Files;
use crate::help_text::{examples, paragraphs};
use clap::Args;
use linerate_report::Detail;
use std::path::PathBuf;

const AFTER: &str = "\
Prints the recording command's report again, fitted to this terminal (COLUMNS overrides the width).
--all includes the output of memory --all, stat --explain and tcp --histograms. Warnings go to
stderr. Examples:

  linerate run edge.toml --record run.json
  linerate report run.json
  linerate report --format markdown run.json > run.md
  ssh router linerate memory --json | linerate report --all -";

#[derive(Debug, Args)]
#[command(after_help = examples(AFTER), after_long_help = paragraphs(AFTER))]
pub(crate) struct ReportArgs {
    /// The record; - reads it from stdin
    #[arg(value_name = "RECORD.json")]
    file: PathBuf,
    /// Print more than --details: every size, every explanation, every histogram
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: Output,
}

/// Prints a record's report in the same form as the command that created the record.
pub(crate) fn report(args: &ReportArgs) -> Result<Answer, Failure> {
    let record_to = args.output.record.as_ref();
    Files::default().reads("the record", &args.file).writes("--record", record_to).check()?;
    let record = export::read(&args.file)?;
    let form = args.output.form_of(record.body.kind());
    let detail = if args.all { Detail::Full } else { args.output.detail() };
    let options = emit::options(detail);
    emit::show(&args.output, form, Destination::Stdout, &record, &options, |text| text)
}
