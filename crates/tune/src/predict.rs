// SPDX-License-Identifier: MIT OR Apache-2.0
//! The third step of a tuning session: selects mappings worth trying and predicts their rates,
//! without sending packets.

use crate::calibrate::Calibration;
use crate::measure::Measured;
use linerate_path::mapping::describe_names;
use linerate_path::model::Mapping;
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
        let smaller = smaller_of_best(
            &advice.proposals,
            |mapping| smaller_bursts(costs, machine, mapping, costs.burst),
            &measured.mapping,
        );
        advice.proposals.extend(smaller);
        order(&mut advice.proposals);
    }
    let (proposals, ruled_out) = (advice.proposals, advice.ruled_out);
    Predicted { kernels: kernels.clone(), proposals, ruled_out }
}

/// Returns the mapping of the best proposal, and the baseline mapping, with each of the burst sizes
/// that `smaller` proposes for it, except those already in `proposals`. The name of each is the
/// mapping's name (the shortest among its proposals), followed by that of the burst size.
fn smaller_of_best(
    proposals: &[Proposal],
    smaller: impl Fn(&Mapping) -> Vec<Proposal>,
    baseline: &Mapping,
) -> Vec<Proposal> {
    let same = ("keep the mapping", baseline);
    let best = proposals.first().map(|best| &best.mapping).filter(|mapping| *mapping != baseline);
    let named = best.map(|mapping| {
        // Names of other bursts begin with the name of the mapping.
        let of_mapping = proposals.iter().filter(|one| one.mapping == *mapping);
        let name = of_mapping.map(|one| one.name.as_str()).min_by_key(|name| name.len());
        (name.unwrap_or_default(), mapping)
    });
    let with_bursts = named.into_iter().chain([same]).flat_map(|(name, mapping)| {
        let of_burst = |one: Proposal| Proposal { name: format!("{name}, {}", one.name), ..one };
        smaller(mapping).into_iter().map(of_burst).collect::<Vec<_>>()
    });
    let is_new = |new: &Proposal| {
        proposals.iter().all(|one| (&one.mapping, one.burst) != (&new.mapping, new.burst))
    };
    with_bursts.filter(is_new).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_plan::model::Prediction;
    use linerate_record::stats::Estimate;

    fn proposal(name: &str, stages: usize, burst: u32) -> Proposal {
        let prediction =
            Prediction { kpps: Estimate::exactly(1000.0), bottleneck: 0, memory_bound: false };
        Proposal { name: name.to_owned(), mapping: Mapping::merged(stages), burst, prediction }
    }

    #[test]
    fn a_name_has_one_burst_and_no_burst_is_proposed_twice() {
        let proposals = [
            proposal("replicate x2, bursts of 256", 5, 256),
            proposal("replicate x2, bursts of 16", 5, 16),
            proposal("replicate x2", 5, 32),
        ];
        let smaller = |mapping: &Mapping| {
            let bursts = [("bursts of 8", 8), ("bursts of 16", 16)];
            let of =
                |(name, burst)| Proposal { mapping: mapping.clone(), ..proposal(name, 1, burst) };
            bursts.map(of).to_vec()
        };
        let more = smaller_of_best(&proposals, smaller, &Mapping::merged(3));
        let names: Vec<&str> = more.iter().map(|one| one.name.as_str()).collect();
        let expected = [
            "replicate x2, bursts of 8",
            "keep the mapping, bursts of 8",
            "keep the mapping, bursts of 16",
        ];
        assert_eq!(names, expected);
    }
}
