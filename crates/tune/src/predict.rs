// SPDX-License-Identifier: MIT OR Apache-2.0
//! The third step of a tuning session: selects mappings worth trying and predicts their rates,
//! without sending packets.

use crate::calibrate::Calibration;
use crate::measure::Measured;
use linerate_path::mapping::describe_names;
use linerate_plan::candidates::{PathShape, Proposal, candidates, order, smaller_bursts};
use linerate_plan::model::predict as predicted;
use linerate_record::tune::{Candidate, RuledOut};
use linerate_record::{Figure, Tier};

/// Mappings worth trying, and their predicted rates.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// Kernels that the mappings call.
    pub kernels: String,
    /// The mappings, highest predicted rate first.
    pub proposals: Vec<Proposal>,
    /// Mappings that a stage or the machine rules out, and why.
    pub ruled_out: Vec<RuledOut>,
}

/// Predicts the rate of every mapping worth trying. If the calibration used different kernels from
/// the baseline's, the baseline mapping with the calibration's kernels is included. With a latency
/// limit, the best mapping and the baseline mapping are also predicted with smaller bursts.
///
/// # Panics
/// Panics if `shape` and `calibration` belong to different paths.
pub fn predict(
    shape: &PathShape,
    measured: &Measured,
    calibration: &Calibration,
    p99_limit_ns: Option<f64>,
) -> Predicted {
    let Calibration { costs, machine, kernels } = calibration;
    let mut advice = candidates(shape, costs, machine, &measured.mapping, costs.burst);
    if kernels != measured.kernels() {
        advice.proposals.push(Proposal {
            name: format!("kernels {kernels} only"),
            mapping: measured.mapping.clone(),
            burst: costs.burst,
            prediction: predicted(&measured.mapping, costs.burst, costs, machine),
        });
        order(&mut advice.proposals);
    }
    if p99_limit_ns.is_some() {
        let best = advice.proposals.first().map(|best| (best.name.clone(), best.mapping.clone()));
        let same = ("keep the mapping".to_owned(), measured.mapping.clone());
        let others = best.into_iter().filter(|(_, mapping)| *mapping != same.1);
        for (name, mapping) in others.chain([same.clone()]).collect::<Vec<_>>() {
            let smaller = smaller_bursts(costs, machine, &mapping, costs.burst);
            let named = smaller
                .into_iter()
                .map(|one| Proposal { name: format!("{name}, {}", one.name), ..one });
            advice.proposals.extend(named);
        }
        order(&mut advice.proposals);
    }
    let (proposals, ruled_out) = (advice.proposals, advice.ruled_out);
    Predicted { kernels: kernels.clone(), proposals, ruled_out }
}

impl Predicted {
    /// Returns the proposals in the form stored in a record, without measured results.
    pub fn candidates(&self, shape: &PathShape) -> Vec<Candidate> {
        const METHOD: &str = "calibrated stage, ring and burst costs; stages measured on the \
                              slowest CPU with all CPUs loaded";
        let names: Vec<&str> = shape.names().collect();
        let candidate = |proposal: &Proposal| Candidate {
            name: proposal.name.clone(),
            mapping: describe_names(&proposal.mapping, &names),
            burst: proposal.burst,
            kernels: Some(self.kernels.clone()),
            predicted_kpps: Figure::number("kpps", proposal.prediction.kpps, Tier::Model, METHOD),
            memory_bound: proposal.prediction.memory_bound,
            measured_kpps: None,
            speedup: None,
            latency: None,
        };
        self.proposals.iter().map(candidate).collect()
    }
}
