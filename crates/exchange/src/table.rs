// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of a record, one by one: as comma-separated values (RFC 4180) and as text for
//! Prometheus (its exposition format).
//!
//! Absent figures have an empty value and a reason in the former, and are omitted from the latter,
//! which cannot express them. Omitted from both: curves, histograms, and sentences.

mod rows;

pub use rows::rows;

use crate::CannotWrite;
use linerate_record::{Figure, Scalar};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A figure and its owner.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The worker, thread, level or other part of the record; empty for the whole record.
    pub worker: String,
    /// The stage, node, function or variant; empty for the whole worker.
    pub stage: String,
    /// Name.
    pub name: String,
    /// The figure.
    pub figure: Figure,
}

/// Comma-separated values with a header; numbers have as many digits as are needed to read them
/// back bit for bit.
pub fn csv(rows: &[Row]) -> String {
    let mut text = "worker,stage,name,value,unit,n,low,high,tier,reason\r\n".to_owned();
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    for Row { worker, stage, name, figure } in rows {
        let value = match &figure.value {
            Scalar::Number(value) => value.to_string(),
            Scalar::Text(text) => quoted(text),
            Scalar::Absent => String::new(),
        };
        let reason = figure.reason.as_deref().map_or(String::new(), quoted);
        let (n, tier) = (figure.n, figure.tier.name());
        let (low, high) = (number(figure.low), number(figure.high));
        let [worker, stage, name, unit] = [worker, stage, name, &figure.unit].map(|s| quoted(s));
        let _ = write!(
            text,
            "{worker},{stage},{name},{value},{unit},{n},{low},{high},{tier},{reason}\r\n"
        );
    }
    text
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Prometheus text: one gauge per name, with the worker, stage, unit and tier as labels. Every
/// gauge appears once, followed by its samples, as the format requires.
///
/// # Errors
/// The record has no numeric figures.
pub fn prometheus(rows: &[Row]) -> Result<String, CannotWrite> {
    let mut gauges: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in rows {
        let Some(value) = row.figure.as_number() else { continue };
        let mut labels = Vec::new();
        for (name, text) in [("worker", &row.worker), ("stage", &row.stage)] {
            if !text.is_empty() {
                labels.push(format!("{name}=\"{}\"", escaped(text)));
            }
        }
        labels.push(format!("unit=\"{}\"", escaped(&row.figure.unit)));
        labels.push(format!("tier=\"{}\"", row.figure.tier.name()));
        let of = match (row.worker.is_empty(), row.stage.is_empty()) {
            (true, true) => "",
            (_, true) => "worker_",
            (_, false) => "stage_",
        };
        let name = metric(&format!("linerate_{of}{}", row.name));
        let sample = format!("{name}{{{}}} {value}", labels.join(","));
        gauges.entry(name).or_default().push(sample);
    }
    if gauges.is_empty() {
        return Err(CannotWrite("the record has no numeric figures".to_owned()));
    }
    let mut text = String::new();
    for (name, samples) in gauges {
        let _ = writeln!(text, "# TYPE {name} gauge\n{}", samples.join("\n"));
    }
    Ok(text)
}

/// Prometheus allows letters, digits, `_` and `:` in names.
fn metric(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == ':' { c } else { '_' }).collect()
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
