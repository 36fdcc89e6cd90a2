// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate report`: a record shown again.

use crate::appearance::Form;
use crate::emit::{self, Answer, Output};
use crate::export;
use crate::failure::{Failure, also};
use crate::files::{self, Files};
use clap::Args;
use linerate_report::Detail;
use std::path::PathBuf;

const AFTER: &str = "\
The text is that of the command that made the record, for the width of this terminal (COLUMNS asks
for another). --all is short for the options of commands that only choose detail: memory --all, stat
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
    /// Print more than --details: every size, every explanation, every histogram
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: Output,
}

/// Prints a record as the command did that made it.
pub(crate) fn report(args: &ReportArgs) -> Result<Answer, Failure> {
    let record_to = args.output.record.as_ref();
    Files::default().reads("the record", &args.file).writes("--record", record_to).check()?;
    let record = export::read(&args.file)?;
    let form = args.output.form();
    let detail = if args.all { Detail::Full } else { args.output.detail() };
    let text = emit::rendered(form, &record, &emit::options(detail))?;
    if !args.output.quiet() && form != Form::Markdown {
        emit::warn(&record);
    }
    let written = record_to
        .map_or(Ok(()), |file| files::write(file, record.to_json_pretty().map_err(Failure::new)?));
    also(emit::print(&text), written)
}
