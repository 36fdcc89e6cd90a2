// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate diff`: compares two profiles function by function.

use crate::emit::{self, Answer, Output};
use crate::failure::Failure;
use crate::files::Files;
use crate::help_text::{examples, paragraphs};
use crate::{export, provenance};
use clap::Args;
use linerate_record::profile::ProfileReport;
use linerate_record::{Body, Record};
use std::path::{Path, PathBuf};

const AFTER: &str = "\
Compares CPU time per packet if both profiles counted packets, otherwise shares of the samples. A
function is reported as more or less expensive only if the change exceeds the sampling error; to
measure run-to-run variation, compare two profiles of the same program. Functions are matched by
name and file name, so the builds may be in different directories. Examples:

  linerate profile --name router -t 20s --iface eth0 --record old.json
  linerate profile --name router -t 20s --iface eth0 --record new.json
  linerate diff old.json new.json
  linerate diff old.json new.json --json | jq '.summary.functions[] | [.name, .change, .verdict]'";

#[derive(Debug, Args)]
#[command(after_help = examples(AFTER), after_long_help = paragraphs(AFTER))]
pub(crate) struct DiffArgs {
    /// Record of the earlier profile; - reads it from stdin
    #[arg(value_name = "OLD.json")]
    old: PathBuf,
    /// Record of the later profile
    #[arg(value_name = "NEW.json")]
    new: PathBuf,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Compares two profiles.
pub(crate) fn diff(args: &DiffArgs) -> Result<Answer, Failure> {
    Files::default()
        .reads("OLD.json", &args.old)
        .reads("NEW.json", &args.new)
        .writes("--record", args.output.record.as_ref())
        .check()?;
    let (old, new) = (profile_of(&args.old)?, profile_of(&args.new)?);
    let report = linerate_explain::profile_diff::profile_diff(&old, &new);
    let provenance = provenance::without_ticks();
    let record = Record { provenance, body: Body::ProfileDiff(Box::new(report)) };
    emit::emit(&args.output, &record)
}

fn profile_of(file: &Path) -> Result<ProfileReport, Failure> {
    match export::read(file)?.body {
        Body::Profile(report) => Ok(*report),
        _ => Err(Failure::new(format!(
            "{}: not a profile; create one with `linerate profile --record FILE`",
            file.display()
        ))),
    }
}
