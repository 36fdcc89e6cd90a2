// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats a record's answer in one line: the claim, followed by its context.
//!
//! This module makes no judgement: the record already contains the bottleneck and the chosen
//! mapping.

mod looked_up;
mod rates;

use crate::value::{clean, cut};
use linerate_record::{Body, Record};

/// Maximum width of an answer in columns, however long the names in the record.
const MOST_COLUMNS: usize = 100;

/// Returns a record's answer; empty for an observed program, whose report begins with its finding.
pub(crate) fn of(record: &Record) -> String {
    let parts = match &record.body {
        Body::Run(report) => rates::of_run(report, &record.provenance),
        Body::Tune(report) => rates::of_tune(report, &record.provenance),
        Body::Plan(report) => rates::of_plan(report),
        Body::Budget(report) => rates::of_budget(report),
        Body::Kernels(report) => looked_up::of_kernels(report),
        Body::Memory(report) => looked_up::of_memory(report),
        Body::Stream(report) => crate::stream::answer(report),
        Body::Tcp(report) => looked_up::of_tcp(report),
        Body::Stat(report) => looked_up::of_stat(report),
        Body::Doctor(report) => looked_up::of_doctor(report),
        Body::Regions(report) => looked_up::of_regions(report),
        Body::Strands(report) => looked_up::of_strands(report),
        Body::Answers(report) => looked_up::of_answers(report),
        Body::Profile(report) => looked_up::of_profile(report),
        Body::ProfileDiff(report) => crate::profile_diff::answer(report),
        Body::Why(_) => return String::new(),
    };
    // Rates of a run throttled by a quota cover only the time in which it ran, so the delivered
    // rate comes first.
    match rates::held(record) {
        Some(held) => joined(&[&[held], &parts[..1]].concat()),
        None => joined(&parts),
    }
}

/// Joins as many non-empty parts as fit, truncating the first if necessary.
fn joined(parts: &[String]) -> String {
    let mut line = String::new();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let longer = if line.is_empty() { clean(part) } else { format!("{line}; {}", clean(part)) };
        if longer.chars().count() > MOST_COLUMNS {
            return if line.is_empty() { cut(&longer, MOST_COLUMNS) } else { line };
        }
        line = longer;
    }
    line
}

/// Returns the first clause of a sentence, up to a colon or semicolon.
fn claim(sentence: &str) -> &str {
    const LEAST: usize = 20;
    let ends = sentence.match_indices([':', ';']).map(|(at, _)| at);
    ends.into_iter().find(|at| *at >= LEAST).map_or(sentence, |end| &sentence[..end])
}

/// Formats a fraction as a whole percentage, or with one decimal if below 10 %.
fn share(share: f64) -> String {
    match share * 100.0 {
        percent if percent.abs() < 9.95 => format!("{percent:.1}"),
        percent => format!("{percent:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_as_many_parts_as_fit() {
        let parts = |lengths: &[usize]| {
            joined(&lengths.iter().map(|n| "x".repeat(*n)).collect::<Vec<_>>()).chars().count()
        };
        assert_eq!(parts(&[60, 0, 38]), 100);
        assert_eq!(parts(&[60, 39, 5]), 60);
        assert_eq!(joined(&["word ".repeat(30)]).chars().count(), 98);
        assert_eq!(cut("a long: texts", 12), "a long ...");
    }
}
