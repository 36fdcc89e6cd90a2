// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that plans never replicate stages with global state.

use linerate_path::model::Path;
use linerate_path::spec::{StageSpec, State};
use linerate_record::plan::PlanReport;

/// Returns the stages of each `segment` in a mapping's short form, with the segment's number of
/// replicas.
pub(crate) fn replicated(short: &str) -> Vec<(Vec<String>, u32)> {
    let segment = |text: &str| {
        let (names, times) = text.rsplit_once(" x").unwrap_or((text, "1"));
        let names = names.split(['+', '…']).map(str::to_owned).collect();
        (names, times.parse().expect("a number of replicas"))
    };
    short.split(" | ").map(segment).collect()
}

/// Returns whether the plan replicates no stage with global state, as far as the short form of a
/// mapping names stages. For paths of up to four stages it names them all.
pub(crate) fn keeps_to(report: &PlanReport, specs: &[StageSpec], path: &Path) -> bool {
    let is_global = |name: &String| {
        let index = path.stages.iter().position(|stage| stage.name == *name).expect("a stage");
        specs[index].state == State::Global
    };
    report.recommendations.iter().all(|one| {
        let segments = replicated(&one.mapping);
        segments.iter().all(|(names, replicas)| *replicas == 1 || !names.iter().any(is_global))
    })
}
