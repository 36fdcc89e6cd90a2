// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws conclusions from a report: compares it with the baseline, and determines the exit status.

use crate::assemble::Runs;
use crate::baseline;
use crate::{Outcome, What, refused};
use linerate_linux::errno::meaning;
use linerate_record::Derive;
use linerate_record::stat::StatReport;

/// Exit status for this program's own failures, as in env(1).
const FAILED: i32 = 125;
/// Exit status if the command is not executable, as in env(1).
const NOT_EXECUTABLE: i32 = 126;
/// Exit status if the command is not found, as in env(1).
const NOT_FOUND: i32 = 127;

/// Adds the changes since the baseline to the report, and determines the exit status.
pub(crate) fn judge(runs: &Runs<'_>, mut report: StatReport) -> Outcome {
    let request = runs.request;
    if let Some(before) = &request.baseline {
        report.baseline = baseline::compare(&report, &report.figures(), before, request.threshold);
        report.baseline_of = baseline::baseline_of(before);
    }
    let (status, failure) = status(runs, &report);
    Outcome { report, status, failure, code: None }
}

/// Returns the exit status and error message.
fn status(runs: &Runs<'_>, report: &StatReport) -> (i32, Option<String>) {
    let last = runs.last();
    if let Some(Err(error)) = last.command {
        return cannot_start(&runs.request.what, error.errno);
    }
    let own = runs.ended().map_or(0, |ended| match ended.signal {
        Some(signal) => 128 + signal,
        None => ended.status.unwrap_or(0),
    });
    if runs.request.strict {
        if let Some(reason) = refused(&runs.asked.events, &last.refusals) {
            return (if own == 0 { FAILED } else { own }, Some(reason));
        }
    }
    if let Some(reason) = nothing_counted(&runs.request.what, report) {
        return (FAILED, Some(reason));
    }
    let is_compared = runs.request.baseline.is_some();
    if let Some(reason) = baseline::failure(&report.baseline).filter(|_| is_compared) {
        return (if own == 0 { FAILED } else { own }, Some(reason));
    }
    let is_worse = report.baseline.iter().any(|change| change.is_regression);
    (if own == 0 && is_worse { 1 } else { own }, None)
}

/// Returns why no event of a process or of CPUs was counted. Does not apply to a command, which ran
/// and has known times even without any event.
fn nothing_counted(what: &What, report: &StatReport) -> Option<String> {
    let is_command = matches!(what, What::Command { .. });
    if is_command || report.events.iter().any(|event| event.count.as_number().is_some()) {
        return None;
    }
    let first = report.events.first()?;
    let reason = first.count.reason.as_deref().unwrap_or("no events were counted");
    let fix = first.fix.as_ref().map_or(String::new(), |fix| format!("; try: {fix}"));
    Some(format!("nothing could be counted: {reason}{fix}"))
}

fn cannot_start(what: &What, errno: i32) -> (i32, Option<String>) {
    const ENOENT: i32 = 2;
    let command = match what {
        What::Command { argv } => argv[0].to_string_lossy().into_owned(),
        What::Process(_) | What::Cpus(_) => String::new(),
    };
    let status = if errno == ENOENT { NOT_FOUND } else { NOT_EXECUTABLE };
    (status, Some(format!("cannot run `{command}`: {}", meaning(errno))))
}
