// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `plan` record: predictions for a mapping of stages to workers, and recommended
//! changes. Computed, not measured.

use crate::figure::Figure;
use crate::tune::RuledOut;
use serde::{Deserialize, Serialize};

/// The model behind the predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// Formula: every worker has its own CPU, and the slowest one is the bottleneck.
    Formula,
    /// Cycle-by-cycle simulation: workers share instruction pipelines (pipes).
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
    /// Split the path at other stages, or into more segments.
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

/// Where an input to the predictions comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Measured, and taken from a record.
    Measured,
    /// Stated in the description of the path or processor.
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
    /// Name of the input.
    pub name: String,
    /// Value with unit, as text.
    pub value: String,
    /// Where the value comes from.
    pub origin: Origin,
}

/// Predicted bottleneck of a mapping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bottleneck {
    /// Bottleneck stage; `null` if line rate is the limit, or if the bottleneck is unknown.
    pub stage: Option<String>,
    /// Worker that runs the stage, as in `workers`; `null` if the limit is the line or unknown.
    pub worker: Option<String>,
    /// The finding in one sentence, with its evidence.
    pub sentence: String,
}

/// A worker of the mapping as written, or all neighbours (threads outside the path on the same
/// machine) of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedWorker {
    /// Worker name: `segment.replica`, both 0-based. Threads outside the path have names of their
    /// own.
    pub name: String,
    /// Stages that the worker runs, or what the neighbours do.
    pub runs: String,
    /// Logical CPU of the worker; `null` if placement does not matter to the model.
    pub cpu: Option<u32>,
    /// Predicted share of the worker's time spent on packets, 0 to 1.
    pub utilisation: Figure,
    /// Time the worker takes per packet, in nanoseconds, excluding waiting.
    pub ns_per_packet: Figure,
    /// Cycles per instruction, polling included; absent if the model has no instruction counts.
    pub cpi: Figure,
}

/// A measurement that could disprove a prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Proof {
    /// Result that would disprove the prediction, and the measurement that gives it.
    pub sentence: String,
    /// Command that takes the measurement; `null` if there is none.
    pub command: Option<String>,
}

/// A group of threads outside the path with the same task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkersBeside {
    /// Task of the threads.
    pub name: String,
    /// Logical CPUs of the threads.
    pub cpus: Vec<u32>,
}

/// A recommended change and its predicted gain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Recommendation {
    /// The change in words.
    pub change: String,
    /// Kind of change.
    pub kind: Change,
    /// Mapping after the change, in short form.
    pub mapping: String,
    /// Logical CPUs of the workers after the change, by segment and replica; `null` if placement
    /// does not matter to the model.
    pub cpus: Option<Vec<u32>>,
    /// Polling threads outside the path, such as threads on a stage's second input, that the change
    /// adds or moves.
    #[serde(default)]
    pub beside: Vec<WorkersBeside>,
    /// Packets per burst after the change.
    pub burst: u32,
    /// Predicted per-flow rate after the change, in kpps.
    pub predicted_kpps: Figure,
    /// Predicted relative change in rate compared with the mapping as written: 0.5 is 50 % more.
    pub gain: Figure,
    /// Why the rate improves.
    pub why: String,
    /// Measurement that would disprove the prediction.
    pub proof: Proof,
}

/// The smallest number of CPUs that sustains line rate, with its mapping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineHold {
    /// Number of CPUs; `null` if no mapping has a prediction interval entirely at or above line
    /// rate.
    pub cpus: Option<u32>,
    /// The mapping that sustains line rate or, failing that, the one that comes closest, in short
    /// form.
    pub mapping: String,
    /// Packets per burst with `mapping`.
    pub burst: u32,
    /// Predicted per-flow rate with `mapping`, in kpps.
    pub predicted_kpps: Figure,
    /// The result in one sentence.
    pub sentence: String,
}

/// How much of the space of mappings was searched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Search {
    /// Number of mappings possible on the machine.
    #[serde(serialize_with = "crate::finite")]
    pub there_are: f64,
    /// Whether the best mapping found is provably optimal.
    pub exact: bool,
    /// Upper bound on how much better an unexamined mapping could be than the best one found, as a
    /// fraction; 0 if the search was exact, `null` if unknown.
    pub gap: Option<f64>,
    /// Extent and limits of the search, in one sentence.
    pub sentence: String,
}

/// Result of `linerate plan`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanReport {
    /// Name of the packet path.
    pub path: String,
    /// Machine for which the predictions are made.
    pub machine: String,
    /// Where the machine data comes from.
    pub machine_source: String,
    /// Model behind the predictions.
    pub model: Model,
    /// Where the stage costs come from: a record or a description.
    pub costs: String,
    /// The mapping as written in the path file, in short form.
    pub mapping: String,
    /// Packets per burst as written in the path file.
    pub burst: u32,
    /// Number of logical CPUs available to the path's workers and neighbours.
    pub cpus: u32,
    /// Number of flows, all of equal rate; predicted rates are per flow.
    pub flows: u32,
    /// Predicted per-flow rate with the mapping as written, in kpps.
    pub predicted_kpps: Figure,
    /// Line rate, in kpps; `null` without a line or a known packet size.
    pub line_rate_kpps: Option<f64>,
    /// Fewest CPUs that sustain line rate; `null` if the line rate is unknown, and in records
    /// before version 2.0.
    #[serde(default)]
    pub line_hold: Option<LineHold>,
    /// Upper bounds that limit at least one prediction, such as line rate, a CPU quota or the best
    /// measured rate.
    #[serde(default)]
    pub limits: Vec<String>,
    /// Predicted bottleneck of the mapping as written.
    pub bottleneck: Bottleneck,
    /// Workers of the mapping as written, and neighbours (threads outside the path on the same
    /// machine).
    pub workers: Vec<PlannedWorker>,
    /// Changes predicted to help, best first.
    pub recommendations: Vec<Recommendation>,
    /// Changes that a stage or the machine rules out, or that the model does not cover, and why.
    pub ruled_out: Vec<RuledOut>,
    /// How much of the space of mappings was searched.
    pub search: Search,
    /// Inputs to the predictions, and where they come from.
    pub inputs: Vec<Input>,
}
