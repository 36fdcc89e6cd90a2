// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a record's figures as a table: comma-separated values (RFC 4180) or Prometheus text
//! (exposition format).
//!
//! In comma-separated values, an absent figure has an empty value and a reason. In Prometheus text,
//! which cannot represent absent figures, they are omitted. Both formats omit curves, histograms
//! and sentences.

mod rows;

pub use rows::rows;

use crate::CannotWrite;
use linerate_record::{Figure, Scalar};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A figure, and the part of the record it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Worker, thread, cache level or other part of the record; empty if the figure is for the
    /// whole record.
    pub worker: String,
    /// Stage, node, function or variant; empty if the figure is for the whole worker.
    pub stage: String,
    /// Figure name, such as the metric or event.
    pub name: String,
    /// Value, unit, interval and tier.
    pub figure: Figure,
}

/// Formats comma-separated values with a header. Numbers have as many digits as an exact round trip
/// requires.
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

/// Formats Prometheus text: one gauge per figure name, with worker, stage, unit and tier as labels.
/// All samples of a gauge are grouped, as the format requires.
///
/// # Errors
/// Returns an error if the record contains no numbers.
pub fn prometheus(rows: &[Row]) -> Result<String, CannotWrite> {
    let mut gauges: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
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
        // Collectors reject a file in which two samples have the same name and labels.
        let count = counts.entry(format!("{name} {}", labels.join(","))).or_default();
        *count += 1;
        if *count > 1 {
            labels.push(format!("number=\"{count}\""));
        }
        let sample = format!("{name}{{{}}} {value}", labels.join(","));
        gauges.entry(name).or_default().push(sample);
    }
    if gauges.is_empty() {
        return Err(CannotWrite("the record contains no numbers".to_owned()));
    }
    let mut text = String::new();
    for (name, samples) in gauges {
        let _ = writeln!(text, "# TYPE {name} gauge\n{}", samples.join("\n"));
    }
    Ok(text)
}

/// Converts a name to a Prometheus metric name, which allows only letters, digits, `_` and `:`.
fn metric(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == ':' { c } else { '_' }).collect()
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
