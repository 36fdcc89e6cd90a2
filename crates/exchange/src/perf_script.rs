// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a profile in the output format of `perf script`, which many viewers read.
//!
//! A record contains the number of samples per call path, but not their times, so the samples of a
//! path are written consecutively, one period apart. Addresses are unknown, and are written as 0.

use crate::CannotWrite;
use linerate_record::profile::ProfileReport;
use linerate_record::{Body, Record};
use std::fmt::Write;

/// Event of all samples, written after its period. The record contains the time per sample, but not
/// the cycles, so the event is a clock, whose counts are nanoseconds.
const EVENT: &str = "cpu-clock";

/// Returns the text of all samples.
///
/// # Errors
/// Returns an error if the record is not a `profile` record.
pub fn text(record: &Record) -> Result<String, CannotWrite> {
    let Body::Profile(report) = &record.body else {
        return Err(CannotWrite(
            "only a profile record can be exported as perf script output".to_owned(),
        ));
    };
    let mut text = String::new();
    let period_ns = report.ns_per_sample();
    let mut before = 0;
    for (at, node) in report.calls.iter().enumerate() {
        let frames = frames(report, at);
        let (name, pid, tid) = report
            .thread_of(node)
            .map_or(("-", 0, 0), |thread| (&thread.name, thread.pid, thread.tid));
        for _ in 0..node.samples {
            before += 1;
            let seconds = f64::from(before) * period_ns / 1e9;
            let _ = writeln!(
                text,
                "{} {pid}/{tid} {seconds:.6}: {period_ns:.0} {EVENT}: \n{frames}",
                word(name)
            );
        }
    }
    Ok(text)
}

/// Returns the functions in a call path, innermost first.
fn frames(report: &ProfileReport, node: usize) -> String {
    let frame = |one: &&linerate_record::profile::FunctionCost| {
        format!("\t{:16x} {} ({})\n", 0, word(&one.name), word(&one.module))
    };
    report.path(node).iter().rev().map(frame).collect()
}

/// Returns a name without line endings.
fn word(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '_' } else { c }).collect()
}
