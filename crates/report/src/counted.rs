// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports stage counters, such as translations made, rules hit and routes used.

use crate::Style;
use crate::layout::Grid;
use crate::value::count;
use linerate_record::run::RunReport;
use std::collections::BTreeMap;

/// Entries among a stage's counters that are not counts and therefore not shown. `work` reports its
/// `result` only so that the compiler cannot optimize the computation away.
const NOT_COUNTS: [&str; 1] = ["result"];

/// Formats one line per stage with non-zero counters, over all its replicas.
pub(crate) fn of_run(report: &RunReport, style: &Style) -> String {
    let mut grid = Grid::new(&["stage", "counted"]);
    let mut names: Vec<&str> = Vec::new();
    for stage in report.workers.iter().flat_map(|worker| &worker.stages) {
        if !names.contains(&stage.name.as_str()) {
            names.push(&stage.name);
        }
    }
    for name in names {
        let all = all_replicas(report, name);
        let nonzero = all.iter().filter(|(_, total)| **total > 0);
        let texts: Vec<String> = nonzero
            .map(|(name, total)| format!("{} {}", name.replace('_', " "), count(*total)))
            .collect();
        if !texts.is_empty() {
            grid.row(vec![name.to_owned(), texts.join(", ")]);
        }
    }
    grid.render(style)
}

/// Returns a stage's counters over all its replicas: sums or, for extremes, the minimum or maximum.
fn all_replicas<'r>(report: &'r RunReport, stage: &str) -> BTreeMap<&'r str, u64> {
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    let replicas = report.workers.iter().flat_map(|worker| &worker.stages);
    for (name, value) in replicas.filter(|one| one.name == stage).flat_map(|one| &one.counts) {
        if NOT_COUNTS.contains(&name.as_str()) {
            continue;
        }
        let total = all.entry(name).or_insert(match name.starts_with("smallest_") {
            true => u64::MAX,
            false => 0,
        });
        *total = match name.split('_').next() {
            Some("smallest") => (*total).min(*value),
            Some("largest") => (*total).max(*value),
            _ => total.saturating_add(*value),
        };
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::fixtures;
    use linerate_record::run::{StageReport, WorkerReport};

    fn worker(counts: [&[(&str, u64)]; 2]) -> WorkerReport {
        let stage = |(name, counts): (&str, &[(&str, u64)])| StageReport {
            name: name.to_owned(),
            counts: counts.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect(),
            ..fixtures::stage()
        };
        let stages = ["nat44", "count"].into_iter().zip(counts).map(stage).collect();
        WorkerReport { stages, ..fixtures::worker() }
    }

    #[test]
    fn replicas_are_summed_and_zeros_left_out() {
        let first = worker([
            &[("mappings_made", 1_200), ("inbound", 0)],
            &[("smallest_bytes", 60), ("largest_bytes", 90), ("result", 7)],
        ]);
        let second = worker([
            &[("mappings_made", 34), ("inbound", 0)],
            &[("smallest_bytes", 64), ("largest_bytes", 1514)],
        ]);
        let report = RunReport { workers: vec![first, second], ..fixtures::run() };
        assert_eq!(
            of_run(&report, &Style::plain(80)),
            "stage  counted\n\
             nat44  mappings made 1,234\n\
             count  largest bytes 1,514, smallest bytes 60\n"
        );
        let silent = RunReport { workers: vec![worker([&[], &[]])], ..fixtures::run() };
        assert_eq!(of_run(&silent, &Style::plain(80)), "");
    }
}
