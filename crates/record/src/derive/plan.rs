// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values derived from a `plan` record.

use super::{Derive, Lists, named};
use crate::figure::{Figure, Figures, Tier};
use crate::plan::{PlanReport, PlannedWorker, Recommendation};
use serde_json::json;

/// Returns the smallest number of CPUs predicted to sustain line rate.
fn cpus_for_line(report: &PlanReport) -> Figure {
    const METHOD: &str = "lower end of the predicted range compared with line rate";
    let Some(hold) = &report.line_hold else {
        return Figure::absent("cpus", Tier::Model, METHOD, "the line rate is unknown");
    };
    match hold.cpus {
        Some(cpus) => Figure::exact("cpus", f64::from(cpus), Tier::Model, METHOD),
        None => Figure::absent("cpus", Tier::Model, METHOD, &hold.sentence),
    }
}

impl Derive for PlanReport {
    fn figures(&self) -> Figures {
        const METHOD: &str = "slowest worker in the prediction";
        const LINE: &str =
            "total bit rate of the line's ports, divided by the mean wire size in bits";
        let bottleneck = match &self.bottleneck.stage {
            Some(stage) => Figure::text(stage, Tier::Model, METHOD),
            None => Figure::absent("text", Tier::Model, METHOD, &self.bottleneck.sentence),
        };
        let unknown = "the path file has no [line], or does not specify packet sizes";
        let line = match self.line_rate_kpps {
            Some(kpps) => Figure::exact("kpps", kpps, Tier::Model, LINE),
            None => Figure::absent("kpps", Tier::Model, LINE, unknown),
        };
        let best = self.recommendations.first().map(|one| &one.predicted_kpps);
        let best = best.unwrap_or(&self.predicted_kpps).clone();
        named([
            ("predicted_kpps", self.predicted_kpps.clone()),
            ("best_predicted_kpps", best),
            ("line_rate_kpps", line),
            ("cpus_for_line", cpus_for_line(self)),
            ("bottleneck", bottleneck),
        ])
    }

    /// Returns the recommendations and the load of each worker.
    fn lists(&self) -> Lists {
        let of = |one: &Recommendation| {
            json!({
                "change": one.change,
                "gain": one.gain.as_number(),
                "low": one.gain.low,
                "high": one.gain.high,
                "why": one.why,
            })
        };
        let worker = |one: &PlannedWorker| {
            json!({
                "name": one.name,
                "runs": one.runs,
                "utilisation": one.utilisation.as_number(),
                "cpi": one.cpi.as_number(),
            })
        };
        Lists::from([
            ("recommendations", self.recommendations.iter().map(of).collect()),
            ("workers", self.workers.iter().map(worker).collect()),
        ])
    }
}
