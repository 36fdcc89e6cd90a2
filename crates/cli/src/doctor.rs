// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate doctor`: shows what this machine can measure, and how to unlock the rest.

use crate::emit::{self, Answer, Output};
use crate::failure::Failure;
use crate::files::Files;
use crate::help_text::{examples, paragraphs};
use crate::provenance;
use clap::Args;
use linerate_counters::opener::Kernel;
use linerate_doctor::host_facts::HostFacts;
use linerate_record::{Body, Record};

const AFTER: &str = "\
Each evidence tier is tested on a workload with known counts. No settings are changed; the report
prints commands that would fix problems. Examples:

  linerate doctor
  linerate doctor --json | jq -r '.tiers[] | select(.works) | .tier'
  linerate doctor --json | jq -r '.observations[] | select(.fix) | .name + \": \" + .fix'

Exit status: always 0.";

#[derive(Debug, Args)]
#[command(after_help = examples(AFTER), after_long_help = paragraphs(AFTER))]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Examines this machine and prints the findings.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<Answer, Failure> {
    Files::default().writes("--record", args.output.record.as_ref()).check()?;
    emit::emit(&args.output, &record())
}

/// Examines this machine and returns the findings as a record.
pub(crate) fn record() -> Record {
    let mut report = linerate_doctor::examine(&Kernel, &HostFacts::gather());
    report.observations.push(linerate_memory::profile::observation());
    report.observations.sort_by_key(|observation| observation.section);
    Record { provenance: provenance::provenance(), body: Body::Doctor(Box::new(report)) }
}
