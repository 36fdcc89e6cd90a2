// SPDX-License-Identifier: MIT OR Apache-2.0
//! A single file to attach to a bug report, with the records of `why` and `doctor`.

use crate::doctor;
use crate::failure::Failure;
use linerate_record::{Body, Record};
use serde_json::{Value, json};
use std::fs;

/// Placeholder for an omitted command line.
const LEFT_OUT: &str = "linerate why (command line omitted)";

/// Returns the bundle as JSON.
pub(super) fn bundle(record: &Record, with_command_line: bool) -> Result<String, Failure> {
    let value = |record: &Record| -> Result<Value, Failure> {
        let json = record.to_json_pretty().map_err(Failure::new)?;
        serde_json::from_str(&json).map_err(Failure::new)
    };
    let mut why = record.clone();
    let mut doctor = doctor::record();
    let command_lines = match with_command_line {
        true => command_lines(record),
        false => {
            LEFT_OUT.clone_into(&mut why.provenance.command);
            LEFT_OUT.clone_into(&mut doctor.provenance.command);
            Value::Null
        }
    };
    let bundle = json!({
        "schema": "linerate-bundle",
        "version": "1.0",
        "why": value(&why)?,
        "doctor": value(&doctor)?,
        "command_lines": command_lines,
    });
    Ok(format!("{bundle:#}\n"))
}

/// Returns the command lines of observed processes that are still running, by process ID.
fn command_lines(record: &Record) -> Value {
    let Body::Why(report) = &record.body else { return Value::Null };
    let one = |pid: &u32| {
        let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        let words: Vec<_> = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        Some((pid.to_string(), json!(words)))
    };
    Value::Object(report.observation.watched.pids.iter().filter_map(one).collect())
}
