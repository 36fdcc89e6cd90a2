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
    /// The slowest worker is the bottleneck, each on its own CPU.
    Formula,
    /// Workers that share pipes, simulated cycle by cycle.
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
    /// Reduce the polling rate of workers that do no useful work.
    SlowPolling,
    /// A different number of packets per burst.
    Burst,
    /// A different variant of checksum and copy.
    KernelVariant,
}

/// Origin of an input figure of the predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Taken from a record.
    Measured,
    /// Stated by the path or the processor.
    Given,
    /// Fitted to results.
    Fitted,
    /// Assumed.
    Assumed,
}

/// An input of the predictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its value with its unit, in words.
    pub value: String,
    /// Its origin.
    pub origin: Origin,
}

/// Bottleneck of the mapping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bottleneck {
    /// The stage; `null` if the line or an unknown cause limits.
    pub stage: Option<String>,
    /// The worker it runs on, as in `workers`.
    pub worker: Option<String>,
    /// One sentence with the figures behind it.
    pub sentence: String,
}

/// One worker of the mapping as written, or all neighbours of a kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedWorker {
    /// `segment.replica`, both from 0; the name of neighbours.
    pub name: String,
    /// The names of its stages, or its activity outside the path.
    pub runs: String,
    /// The processor it was placed on; `null` where that does not matter to the model.
    pub cpu: Option<u32>,
    /// Share of its time spent on packets, 0 to 1.
    pub utilisation: Figure,
    /// Time per packet, excluding waiting.
    pub ns_per_packet: Figure,
    /// Cycles per instruction, including polls; absent if the model has no instructions.
    pub cpi: Figure,
}

/// The measurement that would disprove a prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Proof {
    /// A measurement, and the result that would disprove the prediction.
    pub sentence: String,
    /// The command that measures it; `null` where there is none.
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
    /// The resulting mapping, in short.
    pub mapping: String,
    /// The CPUs of the workers after the change, in order of segment and replica; `null` if
    /// irrelevant to the model.
    pub cpus: Option<Vec<u32>>,
    /// Polling threads outside the path that it adds or moves, such as those of a stage's second
    /// input.
    #[serde(default)]
    pub beside: Vec<WorkersBeside>,
    /// Resulting packets per burst.
    pub burst: u32,
    /// Resulting rate of a flow, in kpps.
    pub predicted_kpps: Figure,
    /// Relative change from the rate as written.
    pub gain: Figure,
    /// Reason for the gain.
    pub why: String,
    /// The measurement that would disprove it.
    pub proof: Proof,
}

/// The fewest processors that sustain line rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineHold {
    /// Number of processors; `null` if no mapping is predicted to sustain line rate with its whole
    /// interval.
    pub cpus: Option<u32>,
    /// The mapping, in short; if none sustains line rate, the one that comes closest.
    pub mapping: String,
    /// Its packets per burst.
    pub burst: u32,
    /// Its predicted rate of a flow, in kpps.
    pub predicted_kpps: Figure,
    /// The same as a sentence.
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
    /// Upper bound of the gain of an unexamined mapping over the best known one, as a share; `null`
    /// if unknown. 0 if the search is exact.
    pub gap: Option<f64>,
    /// Summary in a sentence, with the limits of the search.
    pub sentence: String,
}

/// Result of `linerate plan`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanReport {
    /// The name of the path.
    pub path: String,
    /// The machine of the predictions.
    pub machine: String,
    /// Source of its data.
    pub machine_source: String,
    /// Prediction model.
    pub model: Model,
    /// Source of the costs.
    pub costs: String,
    /// The mapping as written, in short.
    pub mapping: String,
    /// Packets per burst as written.
    pub burst: u32,
    /// Workers available on the machine for the path and its neighbours.
    pub cpus: u32,
    /// Flows of equal rate; rates are those of one.
    pub flows: u32,
    /// Predicted rate of a flow under the mapping as written, in kpps.
    pub predicted_kpps: Figure,
    /// Line rate; `null` without a line or a known packet size.
    pub line_rate_kpps: Option<f64>,
    /// The fewest processors that sustain line rate; `null` where no line rate is known, and in
    /// records before version 2.0.
    #[serde(default)]
    pub line_hold: Option<LineHold>,
    /// Upper bounds of predictions with reasons: line rate, a CPU quota, the best rate measured.
    /// Only those that bound at least one prediction.
    #[serde(default)]
    pub limits: Vec<String>,
    /// Its bottleneck.
    pub bottleneck: Bottleneck,
    /// The workers of the mapping as written, and its neighbours.
    pub workers: Vec<PlannedWorker>,
    /// Changes with a predicted gain, best first.
    pub recommendations: Vec<Recommendation>,
    /// Changes ruled out by a stage or the machine, or not covered by the model.
    pub ruled_out: Vec<RuledOut>,
    /// Extent of the search.
    pub search: Search,
    /// Inputs of the predictions.
    pub inputs: Vec<Input>,
}
