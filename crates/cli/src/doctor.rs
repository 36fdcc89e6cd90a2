// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate doctor`: what this machine can measure, and how to unlock the rest.

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
Each tier is tried on a workload with known counts. No setting is changed; fixes are printed.
Examples:

  linerate doctor
  linerate doctor --json | jq -r '.tiers[] | select(.works) | .tier'
  linerate doctor --json | jq -r '.observations[] | select(.fix) | .name + \": \" + .fix'

Exit status 0, whatever is found.";

#[derive(Debug, Args)]
#[command(after_help = examples(AFTER), after_long_help = paragraphs(AFTER))]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    output: Output,
}

/// Examines this machine and prints the findings.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<Answer, Failure> {
    Files::default().writes("--record", args.output.record.as_ref()).check()?;
    emit::emit(&args.output, &record())
}

/// Findings about this machine.
pub(crate) fn record() -> Record {
    let mut report = linerate_doctor::examine(&Kernel, &HostFacts::gather());
    report.observations.push(linerate_memory::profile::observation());
    report.observations.sort_by_key(|observation| observation.section);
    Record { provenance: provenance::provenance(), body: Body::Doctor(Box::new(report)) }
}
