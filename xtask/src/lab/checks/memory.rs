// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the probe's memory measurement in a guest without a real memory hierarchy: each
//! instruction takes 1 ns there, wherever it loads from. The times are therefore meaningless, but
//! known.

use super::{Finding, finding, question};
use crate::lab::guest::{Answer, Question};
use linerate_record::memory::MemoryReport;
use linerate_record::{Body, Record};

/// Expected time per load in ns: 1 ns for the load, plus its share of the loop overhead.
const LOAD_NS: std::ops::RangeInclusive<f64> = 1.0..=1.3;

const NAME: &str = "memory";

pub(super) fn plan() -> Question {
    question(NAME, "linerate-probe memory --quick --max 32M --json")
}

pub(super) fn judge(answer: impl Fn(&str) -> Answer) -> Finding {
    finding(judged(&answer(NAME)))
}

fn judged(answer: &Answer) -> Result<String, String> {
    let Answer { status, errors, output, .. } = answer;
    if *status != 0 {
        return Err(format!("memory: status {status}: {}", errors.trim()));
    }
    let record = Record::from_json(output).map_err(|error| format!("memory: {error}"))?;
    let is_emulated = record.provenance.emulated == Some(true);
    let Body::Memory(report) = record.body else {
        return Err("memory: not a `memory` record".to_owned());
    };
    let times = times(&report);
    let (Some(least), Some(most)) =
        (times.iter().copied().reduce(f64::min), times.iter().copied().reduce(f64::max))
    else {
        return Err("memory: no size was measured".to_owned());
    };
    let sentence = format!(
        "memory: a load, which is one instruction of 1 ns here, takes {least:.3} to {most:.3} ns \
         over {} sizes; timer {}, levels found: {}",
        times.len(),
        report.timer.source,
        report.levels.len(),
    );
    let is_known = times.iter().all(|ns| LOAD_NS.contains(ns));
    if is_emulated && is_known { Ok(sentence) } else { Err(sentence) }
}

/// Returns the ns per load for every size of every curve.
fn times(report: &MemoryReport) -> Vec<f64> {
    let points = report.curves.iter().flat_map(|curve| &curve.points);
    points.filter_map(|point| point.latency_ns.as_number()).collect()
}
