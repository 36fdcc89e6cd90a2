// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `plan` record: predictions for a mapping of stages to workers, and recommended
//! changes. The values are computed, not measured.

use crate::figure::Figure;
use crate::tune::RuledOut;
use serde::{Deserialize, Serialize};

/// Model that makes the predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// A formula: every worker has its own CPU, and the slowest worker is the bottleneck.
    Formula,
    /// A cycle-by-cycle simulation: workers share instruction pipelines (pipes).
    Simulation,
}

/// Kind of a recommended change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Use fewer segments or workers.
    Merge,
    /// Use more workers for the same stages.
    Replicate,
    /// Split the path between other stages, or at more places.
    Split,
    /// Place workers on other CPUs.
    Place,
    /// Park workers that do no useful work.
    Park,
    /// Lower the polling rate of workers that do no useful work.
    SlowPolling,
    /// Use a different number of packets per burst.
    Burst,
    /// Use a different variant of the checksum and copy kernels.
    KernelVariant,
}

/// Origin of the value of an input to the predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The value was measured and taken from a record.
    Measured,
    /// The value is stated in the description of the path or the processor.
    Given,
    /// The value was fitted to results.
    Fitted,
    /// The value is assumed.
    Assumed,
}

/// An input to the predictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Input {
    /// Name of the input.
    pub name: String,
    /// Value of the input with its unit, as text.
    pub value: String,
    /// Origin of the value.
    pub origin: Origin,
}

/// Predicted bottleneck of a mapping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bottleneck {
    /// The stage that is the bottleneck; `null` if the line or an unknown cause is the limit.
    pub stage: Option<String>,
    /// Name of the worker on which the stage runs, as in `workers`; `null` if the line or an
    /// unknown cause is the limit.
    pub worker: Option<String>,
    /// The finding in one sentence, with supporting figures.
    pub sentence: String,
}

/// One worker of the mapping as written, or all neighbours (threads outside the path on the same
/// machine) of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedWorker {
    /// Name of the worker: `segment.replica`, both counted from 0; for neighbours, their own name.
    pub name: String,
    /// Names of the stages that the worker runs, or its activity outside the path.
    pub runs: String,
    /// Logical CPU on which the worker was placed; `null` if placement is irrelevant to the model.
    pub cpu: Option<u32>,
    /// Predicted share of the worker's time spent on packets, 0 to 1.
    pub utilisation: Figure,
    /// Time that the worker takes per packet, in nanoseconds, excluding waiting.
    pub ns_per_packet: Figure,
    /// Cycles per instruction, including those of polling; absent if the model has no instruction
    /// counts.
    pub cpi: Figure,
}

/// A measurement that can disprove a prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Proof {
    /// A measurement, and the result that would disprove the prediction.
    pub sentence: String,
    /// The command that takes the measurement; `null` if there is none.
    pub command: Option<String>,
}

/// Threads outside the path that have the same activity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkersBeside {
    /// Name of the threads' activity.
    pub name: String,
    /// Logical CPUs of the threads.
    pub cpus: Vec<u32>,
}

/// A recommended change and its predicted gain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Recommendation {
    /// The change, in words.
    pub change: String,
    /// Kind of change.
    pub kind: Change,
    /// Mapping after the change, in short form.
    pub mapping: String,
    /// Logical CPUs of the workers after the change, ordered by segment and replica; `null` if
    /// placement is irrelevant to the model.
    pub cpus: Option<Vec<u32>>,
    /// Polling threads outside the path that the change adds or moves, such as those of a stage's
    /// second input.
    #[serde(default)]
    pub beside: Vec<WorkersBeside>,
    /// Packets per burst after the change.
    pub burst: u32,
    /// Predicted rate per flow after the change, in kpps.
    pub predicted_kpps: Figure,
    /// Predicted change of the rate relative to the mapping as written: 0.5 is 50 % more.
    pub gain: Figure,
    /// Reason for the gain, in words.
    pub why: String,
    /// The measurement that would disprove the prediction.
    pub proof: Proof,
}

/// The smallest number of CPUs that sustains line rate, with its mapping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineHold {
    /// Number of CPUs; `null` if there is no mapping whose whole predicted interval reaches line
    /// rate.
    pub cpus: Option<u32>,
    /// The mapping that sustains line rate, in short form; if no mapping does, the one that comes
    /// closest.
    pub mapping: String,
    /// Packets per burst of that mapping.
    pub burst: u32,
    /// Predicted rate per flow of that mapping, in kpps.
    pub predicted_kpps: Figure,
    /// The number of CPUs and the mapping, in a sentence.
    pub sentence: String,
}

/// Extent of the search for better mappings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Search {
    /// Number of mappings that are possible on the machine.
    #[serde(serialize_with = "crate::finite")]
    pub there_are: f64,
    /// Whether the best mapping found is proven optimal.
    pub exact: bool,
    /// Upper bound on the gain of an unexamined mapping over the best one found, as a share; `null`
    /// if unknown. 0 if the search is exact.
    pub gap: Option<f64>,
    /// Summary of the search in a sentence, with its limits.
    pub sentence: String,
}

/// Result of `linerate plan`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanReport {
    /// Name of the packet path.
    pub path: String,
    /// The machine for which the predictions are made.
    pub machine: String,
    /// Source of the data on the machine.
    pub machine_source: String,
    /// Model that made the predictions.
    pub model: Model,
    /// Source of the stage costs: a record, or a description.
    pub costs: String,
    /// The mapping as written in the path file, in short form.
    pub mapping: String,
    /// Packets per burst as written in the path file.
    pub burst: u32,
    /// Number of logical CPUs available on the machine for the workers of the path and its
    /// neighbours.
    pub cpus: u32,
    /// Number of flows, all of the same rate; predicted rates are per flow.
    pub flows: u32,
    /// Predicted rate per flow under the mapping as written, in kpps.
    pub predicted_kpps: Figure,
    /// Line rate, in kpps; `null` without a line or a known packet size.
    pub line_rate_kpps: Option<f64>,
    /// The smallest number of CPUs that sustains line rate; `null` if no line rate is known, and in
    /// records before version 2.0.
    #[serde(default)]
    pub line_hold: Option<LineHold>,
    /// Upper bounds on the predictions, with reasons: line rate, a CPU quota, the best rate
    /// measured. Includes only bounds that limit at least one prediction.
    #[serde(default)]
    pub limits: Vec<String>,
    /// Predicted bottleneck of the mapping as written.
    pub bottleneck: Bottleneck,
    /// Workers of the mapping as written, and their neighbours (threads outside the path on the
    /// same machine).
    pub workers: Vec<PlannedWorker>,
    /// Changes with a predicted gain, best first.
    pub recommendations: Vec<Recommendation>,
    /// Changes that a stage or the machine rules out, or that the model does not cover, with
    /// reasons.
    pub ruled_out: Vec<RuledOut>,
    /// Extent of the search.
    pub search: Search,
    /// Inputs to the predictions, with their origins.
    pub inputs: Vec<Input>,
}
