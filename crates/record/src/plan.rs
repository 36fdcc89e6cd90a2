// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `plan` record: predictions for a mapping, and recommended changes. Computed, not
//! measured.

use crate::figure::Figure;
use crate::tune::RuledOut;
use serde::{Deserialize, Serialize};

/// Prediction model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// Every worker has its own CPU, and the slowest is the bottleneck.
    Formula,
    /// Workers share pipes and are simulated cycle by cycle.
    Simulation,
}

/// Kind of a recommended change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Fewer segments or workers.
    Merge,
    /// More workers for the same stages.
    Replicate,
    /// Different or additional splits between stages.
    Split,
    /// Workers on other CPUs.
    Place,
    /// Park workers that do no useful work.
    Park,
    /// Lower the polling rate of workers that do no useful work.
    SlowPolling,
    /// A different number of packets per burst.
    Burst,
    /// A different variant of checksum and copy.
    KernelVariant,
}

/// Origin of an input to the predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Taken from a record.
    Measured,
    /// Stated in the description of the path or the processor.
    Given,
    /// Fitted to results.
    Fitted,
    /// Assumed.
    Assumed,
}

/// An input to the predictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Value and unit as text.
    pub value: String,
    /// Its origin.
    pub origin: Origin,
}

/// Bottleneck of a mapping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bottleneck {
    /// The stage; `null` if the line or an unknown cause is the limit.
    pub stage: Option<String>,
    /// The worker on which the stage runs, as in `workers`.
    pub worker: Option<String>,
    /// The finding in one sentence, with supporting figures.
    pub sentence: String,
}

/// One worker of the mapping as written, or all neighbours of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedWorker {
    /// `segment.replica`, both from 0; for neighbours, their name.
    pub name: String,
    /// Names of the worker's stages, or its activity outside the path.
    pub runs: String,
    /// The processor on which it was placed; `null` if placement is irrelevant to the model.
    pub cpu: Option<u32>,
    /// Share of the worker's time spent on packets, 0 to 1.
    pub utilisation: Figure,
    /// Time per packet, excluding waiting.
    pub ns_per_packet: Figure,
    /// Cycles per instruction, polls included; absent if the model has no instruction counts.
    pub cpi: Figure,
}

/// The measurement that would disprove a prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Proof {
    /// A measurement, and the result that would disprove the prediction.
    pub sentence: String,
    /// The command that takes the measurement; `null` if there is none.
    pub command: Option<String>,
}

/// Threads outside the path with the same activity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkersBeside {
    /// Their activity.
    pub name: String,
    /// Their processors.
    pub cpus: Vec<u32>,
}

/// One change and its predicted gain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Recommendation {
    /// The change, in words.
    pub change: String,
    /// Kind of change.
    pub kind: Change,
    /// The resulting mapping, in short form.
    pub mapping: String,
    /// CPUs of the workers after the change, ordered by segment and replica; `null` if irrelevant
    /// to the model.
    pub cpus: Option<Vec<u32>>,
    /// Polling threads outside the path that the change adds or moves, such as those of a stage's
    /// second input.
    #[serde(default)]
    pub beside: Vec<WorkersBeside>,
    /// Resulting packets per burst.
    pub burst: u32,
    /// Resulting per-flow rate, in kpps.
    pub predicted_kpps: Figure,
    /// Relative change from the rate of the mapping as written.
    pub gain: Figure,
    /// Reason for the gain.
    pub why: String,
    /// The measurement that would disprove the prediction.
    pub proof: Proof,
}

/// The fewest processors that sustain line rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineHold {
    /// Number of processors; `null` if there is no mapping whose whole predicted interval reaches
    /// line rate.
    pub cpus: Option<u32>,
    /// The mapping, in short form; if none sustains line rate, the one that comes closest.
    pub mapping: String,
    /// The mapping's packets per burst.
    pub burst: u32,
    /// The mapping's predicted per-flow rate, in kpps.
    pub predicted_kpps: Figure,
    /// This result as a sentence.
    pub sentence: String,
}

/// Extent of the search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Search {
    /// Number of possible mappings.
    #[serde(serialize_with = "crate::finite")]
    pub there_are: f64,
    /// Whether the best known mapping is proven optimal.
    pub exact: bool,
    /// Upper bound on the gain of an unexamined mapping over the best known one, as a share; `null`
    /// if unknown. 0 if the search is exact.
    pub gap: Option<f64>,
    /// Summary in a sentence, with the limits of the search.
    pub sentence: String,
}

/// Result of `linerate plan`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanReport {
    /// Name of the path.
    pub path: String,
    /// The machine for which the predictions are made.
    pub machine: String,
    /// Source of the machine's data.
    pub machine_source: String,
    /// Prediction model.
    pub model: Model,
    /// Source of the costs.
    pub costs: String,
    /// The mapping as written, in short form.
    pub mapping: String,
    /// Packets per burst as written.
    pub burst: u32,
    /// Number of workers available on the machine for the path and its neighbours.
    pub cpus: u32,
    /// Number of flows of equal rate; rates are per flow.
    pub flows: u32,
    /// Predicted per-flow rate under the mapping as written, in kpps.
    pub predicted_kpps: Figure,
    /// Line rate; `null` without a line or a known packet size.
    pub line_rate_kpps: Option<f64>,
    /// The fewest processors that sustain line rate; `null` if no line rate is known, and in
    /// records before version 2.0.
    #[serde(default)]
    pub line_hold: Option<LineHold>,
    /// Upper bounds on predictions, with reasons: line rate, a CPU quota, the best rate measured.
    /// Includes only those that bound at least one prediction.
    #[serde(default)]
    pub limits: Vec<String>,
    /// Its bottleneck.
    pub bottleneck: Bottleneck,
    /// Workers of the mapping as written, and their neighbours.
    pub workers: Vec<PlannedWorker>,
    /// Changes with a predicted gain, best first.
    pub recommendations: Vec<Recommendation>,
    /// Changes that a stage or the machine rules out, or that the model does not cover.
    pub ruled_out: Vec<RuledOut>,
    /// Extent of the search.
    pub search: Search,
    /// Inputs to the predictions.
    pub inputs: Vec<Input>,
}
