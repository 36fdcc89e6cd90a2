// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate doctor`: what this machine can measure and run, and what unlocks the rest.

use crate::emit::{self, Answer, Output};
use crate::failure::Failure;
use crate::files::Files;
use crate::profile::{self, Profile};
use crate::provenance;
use clap::Args;
use linerate_counters::opener::Kernel;
use linerate_doctor::surroundings::Surroundings;
use linerate_record::doctor::{Observation, Section};
use linerate_record::{Body, Record};

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
    #[command(flatten)]
    output: Output,
}

/// Examines this machine and prints what was found.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<Answer, Failure> {
    Files::default().writes("--record", args.output.record.as_ref()).check()?;
    let mut report = linerate_doctor::examine(&Kernel, &Surroundings::gather());
    report.observations.push(memory_profile());
    report.observations.sort_by_key(|observation| observation.section);
    let provenance = provenance::provenance();
    emit::emit(&args.output, &Record { provenance, body: Body::Doctor(Box::new(report)) })
}

/// Whether the memory hierarchy of this machine was measured.
fn memory_profile() -> Observation {
    const NAME: &str = "memory_profile";
    let section = Section::Topology;
    let measure = Some("linerate memory".to_owned());
    let profile = match Profile::load() {
        Ok(Some(profile)) => profile,
        Ok(None) => {
            let place = profile::file().map_or("no home is known".to_owned(), |file| {
                format!("it would be {}", file.display())
            });
            let sentence = format!(
                "the memory hierarchy was not measured ({place}): caches are taken to be what the \
                 system states, and nothing tells what a miss costs"
            );
            return section.advice(NAME, "none", &sentence, measure);
        }
        Err(reason) => {
            let sentence = format!("it cannot be used: {reason}");
            return section.advice(NAME, "unreadable", &sentence, measure);
        }
    };
    let (age, file) = (format!("{} old", profile.age()), profile.file.display());
    match profile.unseen()[..] {
        [] => {
            let sentence = format!("the memory hierarchy as measured then is in {file}");
            section.good(NAME, age, &sentence)
        }
        ref unseen => {
            let sentence = format!(
                "the memory hierarchy as measured then is in {file}, and it tells no size of {}",
                unseen.join(", ")
            );
            section.advice(NAME, age, &sentence, measure)
        }
    }
}
