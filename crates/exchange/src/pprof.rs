// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a profile in pprof format, which `go tool pprof`, speedscope, Parca and Pyroscope read: a
//! `profile.proto` message (github.com/google/pprof) in a gzip file.
//!
//! A record contains functions, not addresses, so every function has exactly one location. Only the
//! fields that linerate writes have constants.

mod gzip;
mod message;

use crate::CannotWrite;
use linerate_record::profile::{FunctionCost, ProfileReport};
use linerate_record::{Body, Record};
use message::Message;
use std::collections::HashMap;

/// Returns the file's bytes.
///
/// # Errors
/// Returns an error if the record is not a `profile` record.
pub fn bytes(record: &Record) -> Result<Vec<u8>, CannotWrite> {
    let Body::Profile(report) = &record.body else {
        return Err(CannotWrite("only a profile record can be exported to pprof".to_owned()));
    };
    Ok(gzip::stored(&profile(report, record.provenance.unix_s).into_bytes()))
}

/// Field numbers in the `Profile` message.
mod fields {
    pub(super) const SAMPLE_TYPE: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const MAPPING: u32 = 3;
    pub(super) const LOCATION: u32 = 4;
    pub(super) const FUNCTION: u32 = 5;
    pub(super) const STRING_TABLE: u32 = 6;
    pub(super) const TIME_NANOS: u32 = 9;
    pub(super) const DURATION_NANOS: u32 = 10;
    pub(super) const PERIOD_TYPE: u32 = 11;
    pub(super) const PERIOD: u32 = 12;
    pub(super) const DEFAULT_SAMPLE_TYPE: u32 = 14;
}

fn profile(report: &ProfileReport, unix_s: u64) -> Message {
    let mut texts = Texts::default();
    let period_ns = report.ns_per_sample();
    let mut profile = Message::default();
    let kinds = [("samples", "count"), ("cpu", "nanoseconds")];
    for (kind, unit) in kinds {
        profile.message(fields::SAMPLE_TYPE, &value_type(&mut texts, kind, unit));
    }
    for (at, node) in report.calls.iter().enumerate().filter(|(_, node)| node.samples > 0) {
        let mut sample = Message::default();
        sample.numbers(1, &locations(report, at));
        sample.numbers(2, &[node.samples, (node.samples as f64 * period_ns) as u64]);
        if let Some(thread) = report.thread_of(node) {
            let mut label = Message::default();
            label.number(1, texts.number("thread"));
            label.number(2, texts.number(&thread.name));
            sample.message(3, &label);
            let mut label = Message::default();
            label.number(1, texts.number("tid"));
            label.number(3, thread.tid.into());
            sample.message(3, &label);
        }
        profile.message(fields::SAMPLE, &sample);
    }
    add_functions(report, &mut texts, &mut profile);
    profile.number(fields::TIME_NANOS, unix_s.saturating_mul(1_000_000_000));
    profile.number(fields::DURATION_NANOS, (report.elapsed_s * 1e9) as u64);
    profile.message(fields::PERIOD_TYPE, &value_type(&mut texts, "cpu", "nanoseconds"));
    profile.number(fields::PERIOD, period_ns as u64);
    profile.number(fields::DEFAULT_SAMPLE_TYPE, texts.number("cpu"));
    for text in &texts.all {
        profile.text(fields::STRING_TABLE, text);
    }
    profile
}

/// Returns a call path's location IDs, innermost function first.
fn locations(report: &ProfileReport, node: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    let mut next = Some(node);
    while let Some((at, node)) = next.and_then(|at| Some((at, report.calls.get(at)?))) {
        numbers.push(u64::from(node.function) + 1);
        next = node.caller.map(|caller| caller as usize).filter(|caller| *caller < at);
    }
    numbers
}

/// Returns a function of the program's executable, which pprof readers expect to be the first
/// mapping.
fn executable(report: &ProfileReport) -> Option<&FunctionCost> {
    let is_named = |one: &&FunctionCost| one.module.starts_with(&report.sampled.name);
    let is_entry = |one: &&FunctionCost| {
        ["_start", "main", "main.main"].contains(&&*one.name) && !one.module.starts_with("ld-")
    };
    let functions = report.functions.iter();
    functions.clone().find(is_named).or_else(|| functions.clone().find(is_entry))
}

/// Adds files and functions, and one location per function. IDs start at 1.
fn add_functions(report: &ProfileReport, texts: &mut Texts, profile: &mut Message) {
    let mut files = HashMap::<&str, u64>::new();
    let first = executable(report).into_iter();
    for FunctionCost { module, .. } in first.chain(&report.functions) {
        let next = files.len() as u64 + 1;
        if *files.entry(module).or_insert(next) == next {
            let mut mapping = Message::default();
            mapping.number(1, next);
            mapping.number(5, texts.number(module));
            // The mapping has functions, but no file names, line numbers or inlined functions.
            mapping.number(7, 1);
            profile.message(fields::MAPPING, &mapping);
        }
    }
    for (number, one) in (1..).zip(&report.functions) {
        let mut function = Message::default();
        function.number(1, number);
        function.number(2, texts.number(&one.name));
        function.number(3, texts.number(&one.name));
        profile.message(fields::FUNCTION, &function);
        let mut line = Message::default();
        line.number(1, number);
        let mut location = Message::default();
        location.number(1, number);
        location.number(2, files[one.module.as_str()]);
        location.message(4, &line);
        profile.message(fields::LOCATION, &location);
    }
}

fn value_type(texts: &mut Texts, kind: &str, unit: &str) -> Message {
    let mut message = Message::default();
    message.number(1, texts.number(kind));
    message.number(2, texts.number(unit));
    message
}

/// A profile's string table; the first string is empty.
struct Texts {
    all: Vec<String>,
    numbers: HashMap<String, u64>,
}

impl Default for Texts {
    fn default() -> Self {
        Self { all: vec![String::new()], numbers: HashMap::from([(String::new(), 0)]) }
    }
}

impl Texts {
    fn number(&mut self, text: &str) -> u64 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.all.len() as u64;
        self.all.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}
