// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that plans never replicate stages with global state.

use linerate_path::model::Path;
use linerate_path::spec::{StageSpec, State};
use linerate_record::plan::PlanReport;

/// Returns the stages and number of replicas of each segment in `short`, a mapping in short form.
pub(crate) fn replicated(short: &str) -> Vec<(Vec<String>, u32)> {
    let segment = |text: &str| {
        let (names, times) = text.rsplit_once(" x").unwrap_or((text, "1"));
        let names = names.split(['+', '…']).map(str::to_owned).collect();
        (names, times.parse().expect("a number of replicas"))
    };
    short.split(" | ").map(segment).collect()
}

/// Returns whether the plan replicates no stage with global state, as far as mappings in short form
/// show. For paths of up to four stages, they show all stages.
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
