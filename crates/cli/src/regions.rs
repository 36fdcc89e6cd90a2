// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate regions`: prints the regions recorded by an instrumented program.

use crate::emit::{self, Answer, Output};
use crate::failure::Failure;
use crate::files::Files;
use crate::help_text::{examples, paragraphs};
use crate::input;
use clap::Args;
use linerate_record::{Body, Record};
use std::path::PathBuf;

const AFTER: &str = "\
A program that calls linerate_regions (Rust) or liblinerate_regions (C) writes its record to the
file named by LINERATE_REGIONS:

  LINERATE_REGIONS=regions.json LINERATE_REGIONS_EVENTS=instructions,cycles ./program
  linerate regions regions.json

The record is updated every second while the program runs, and survives a program crash.";

#[derive(Debug, Args)]
#[command(after_help = examples(AFTER), after_long_help = paragraphs(AFTER))]
pub(crate) struct RegionsArgs {
    /// The record
    #[arg(value_name = "RECORD.json")]
    file: PathBuf,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Reads a regions record and prints it as a table.
pub(crate) fn regions(args: &RegionsArgs) -> Result<Answer, Failure> {
    let record_to = args.output.record.as_ref();
    Files::default().reads("the record", &args.file).writes("--record", record_to).check()?;
    let name = args.file.display();
    let json = input::text(&args.file, input::RECORD).map_err(|error| {
        Failure::new(format!(
            "{name}: {error}; instrumented programs write this file when LINERATE_REGIONS={name} \
             is set"
        ))
    })?;
    let record =
        Record::from_json(&json).map_err(|error| Failure::new(format!("{name}: {error}")))?;
    if !matches!(record.body, Body::Regions(_)) {
        return Err(Failure::new(format!(
            "{name}: not a regions record; pass one written by an instrumented program"
        )));
    }
    emit::emit(&args.output, &record)
}
