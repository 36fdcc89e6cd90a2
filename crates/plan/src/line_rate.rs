// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much cheaper the bottleneck stage must become for a path to reach line rate.
//!
//! ```text
//! share   = rate / line rate
//! allowed = share x ticks per packet of the bottleneck's worker
//! most    = allowed - ticks of the worker's other stages; 0 or less: not by this stage alone
//! ```

use crate::profile::stage_time;
use linerate_record::run::RunReport;
use linerate_record::tune::Limit;
use linerate_record::units::three_digits;

/// Describes how cheap the bottleneck stage must become for line rate or, if the stage alone cannot
/// save enough, how cheap its worker must become. `kpps` is the path's rate, and nothing else is
/// assumed to limit it. `None` if the path reaches line rate, or if line rate, bottleneck or costs
/// are unknown.
pub fn to_line_rate(run: &RunReport, kpps: f64) -> Option<String> {
    let share = kpps / run.line_rate_kpps?;
    let finding = run.finding.as_ref().filter(|finding| finding.limit == Limit::Processing)?;
    let name = finding.worker.as_ref()?;
    let worker = run.workers.iter().find(|one| one.name == *name)?;
    let stage = worker.stages.iter().find(|one| Some(&one.name) == finding.bottleneck.as_ref())?;
    let times = worker.stages.iter().map(|stage| Some(stage_time(worker, stage)?.value));
    let whole: f64 = times.sum::<Option<f64>>()?;
    let part = stage_time(worker, stage)?.value;
    if !(share < 1.0 && part > 0.0) {
        return None;
    }
    let allowed = share * whole;
    let most = allowed - (whole - part);
    let stage = &stage.name;
    let [whole, part, allowed] = [whole, part, allowed].map(three_digits);
    Some(if most > 0.0 {
        format!(
            "make `{stage}` cheaper: at most {} ticks/packet for line rate, now {part}",
            three_digits(most)
        )
    } else {
        format!(
            "for line rate, worker {name} must take at most {allowed} ticks/packet, now {whole}, \
             of which `{stage}` takes only {part}"
        )
    })
}
