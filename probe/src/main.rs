// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts events and measures memory on machines where linerate itself cannot be built: one small
//! executable with `doctor`, `memory`, `stat`, and `sampling`, which tests the accuracy of sampling
//! on counter overflow.
//!
//! The probe measures with the same crates as `linerate`, which can read the probe's records
//! (`--json`). Other commands, tables, colour and progress output are omitted.
#![forbid(unsafe_code)]

mod advice;
mod arguments;
mod sampling;
mod text;

use arguments::{Destination, Fault, Task, USAGE};
use linerate_counters::opener::Kernel;
use linerate_doctor::host_facts::HostFacts;
use linerate_record::stat::{StatReport, StatTarget};
use linerate_record::{Body, Record};
use linerate_stat::{Outcome, Request, Watch};
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

const PROGRAM: &str = concat!("linerate-probe ", env!("CARGO_PKG_VERSION"));

/// Exit status for failures of `stat` itself, as in env(1) and `linerate stat`.
const STAT_FAILED: u8 = 125;

fn main() -> ExitCode {
    let result = match arguments::parse(std::env::args_os().skip(1)) {
        Ok(Task::Help) => print(USAGE).map(|()| 0),
        Ok(Task::Version) => print(&format!("{PROGRAM}\n")).map(|()| 0),
        Ok(Task::Doctor(destination)) => doctor(&destination),
        Ok(Task::Memory(request, destination)) => memory(&request, &destination),
        Ok(Task::Sampling(request)) => sampling(&request),
        Ok(Task::Stat(request, destination)) => stat(&request, &destination),
        Err(Fault { reason, status }) => {
            Err(Fault { reason: format!("{reason}; see linerate-probe --help"), status })
        }
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(Fault { reason, status }) => {
            print_error(&reason);
            ExitCode::from(status)
        }
    }
}

/// Counts events, and returns the exit status.
fn stat(request: &Request, destination: &Destination) -> Result<u8, Fault> {
    let fault = |reason: &dyn Display| Fault { reason: reason.to_string(), status: STAT_FAILED };
    let signals = linerate_linux::signal::catch().map_err(|error| fault(&error))?;
    let outcome = request.run(&Watch { signals, tell: &|_| {} }).map_err(|error| fault(&error))?;
    let Outcome { mut report, status, failure, .. } = outcome;
    advice::of_stat(&mut report);
    let never_began = failure.is_some() && never_began(&report);
    let text = text::stat(&report);
    let record = record(Body::Stat(Box::new(report)));
    for warning in &record.warnings() {
        print_error(warning);
    }
    let text = match destination.json {
        true => json(&record),
        false => Ok(text),
    };
    // If the command could not be started, only the reason is printed (below), without lines for
    // missing counts.
    if destination.json || !never_began {
        write_result(destination, text).map_err(|reason| fault(&reason))?;
    }
    if let Some(failure) = failure {
        print_error(&failure);
    }
    Ok(u8::try_from(status).unwrap_or(STAT_FAILED))
}

/// Returns whether the report is about a command that could not be started.
fn never_began(report: &StatReport) -> bool {
    matches!(report.target, StatTarget::Command { .. }) && report.ended.is_none()
}

/// Examines the machine, and returns the exit status.
fn doctor(destination: &Destination) -> Result<u8, Fault> {
    let mut report = linerate_doctor::examine(&Kernel, &HostFacts::gather());
    advice::of_doctor(&mut report);
    let text = match destination.json {
        true => json(&record(Body::Doctor(Box::new(report)))),
        false => Ok(text::doctor(&report)),
    };
    write_result(destination, text).map_err(|reason| Fault { reason, status: 2 })?;
    Ok(0)
}

/// Measures the memory hierarchy, and returns the exit status. Nothing is printed if a signal ends
/// the measurement.
fn memory(request: &linerate_memory::Request, destination: &Destination) -> Result<u8, Fault> {
    let fault = |reason: String| Fault { reason, status: 2 };
    let watch = linerate_memory::Watch::unattended();
    let report = linerate_memory::measure(request, &watch);
    let report = report.map_err(|error| fault(error.to_string()))?;
    let text = match destination.json {
        true => json(&record(Body::Memory(Box::new(report)))),
        false => Ok(text::memory(&report)),
    };
    write_result(destination, text).map_err(fault)?;
    Ok(0)
}

/// Tests the accuracy of sampling on counter overflow, and returns the exit status.
fn sampling(request: &sampling::Request) -> Result<u8, Fault> {
    let tried = sampling::run(request);
    let (text, status) = tried.map_err(|reason| Fault { reason, status: 2 })?;
    print(&text)?;
    Ok(status)
}

/// Wraps `body` in a record with this program's provenance.
fn record(body: Body) -> Record {
    let provenance = linerate_machine::provenance(
        PROGRAM,
        option_env!("LINERATE_COMMIT"),
        env!("LINERATE_COMPILER"),
        &linerate_machine::provenance::command_line(),
    );
    Record { provenance, body }
}

fn json(record: &Record) -> Result<String, String> {
    record.to_json_pretty().map_err(|error| error.to_string())
}

fn write_result(destination: &Destination, text: Result<String, String>) -> Result<(), String> {
    let text = text?;
    match &destination.file {
        Some(file) => std::fs::write(file, text)
            .map_err(|error| format!("cannot write {}: {error}", file.display())),
        None => print(&text).map_err(|fault| fault.reason),
    }
}

/// Writes a line to stderr. Errors are ignored, because the counts are still valid.
fn print_error(what: &dyn Display) {
    let _ = io::stderr().write_all(format!("linerate-probe: {what}\n").as_bytes());
}

/// Prints to stdout. A reader that has exited early is not an error.
fn print(text: &str) -> Result<(), Fault> {
    match linerate_linux::write_to_stdout(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Fault { reason: format!("cannot write to standard output: {error}"), status: 2 })
        }
        _ => Ok(()),
    }
}
