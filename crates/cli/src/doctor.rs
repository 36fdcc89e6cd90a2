// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate doctor`: what this machine can measure and run, and what unlocks the rest.

use crate::emit::{self, Answer};
use crate::failure::Failure;
use crate::figures;
use clap::Args;
use linerate_counters::doctor;
use linerate_counters::opener::Kernel;
use linerate_counters::surroundings::Surroundings;
use linerate_record::{Body, Record, Warning};
use std::path::PathBuf;

const AFTER: &str = "\
Each tier is tried on work of known size. No setting is changed: commands are printed, none is run.
Examples:

  linerate doctor
  linerate doctor --json | jq -r '.tiers[] | select(.works) | .tier'
  linerate doctor --json | jq -r '.observations[] | select(.fix) | .name + \": \" + .fix'

Exit status 0, whatever is found.";

#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct DoctorArgs {
    /// Print the record as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the record to this file as well
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// No warnings
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Examines this machine and prints what was found.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<Answer, Failure> {
    emit::check_writable(args.record.iter())?;
    let report = doctor::examine(&Kernel, &Surroundings::gather());
    let provenance = figures::provenance();
    let is_emulated = provenance.emulated == Some(true);
    let record = Record {
        provenance,
        figures: doctor::figures(&report),
        warnings: is_emulated.then_some(Warning::Emulated).into_iter().collect(),
        body: Body::Doctor(Box::new(report.clone())),
    };
    let text = linerate_report::doctor(&report, &emit::style(emit::NARROW));
    emit::emit(args, &record, &text)
}
