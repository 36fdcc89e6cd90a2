// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `plan` record: what a mapping is predicted to do, and what to change. Computed,
//! not measured.

use crate::figure::Figure;
use crate::tune::RuledOut;
use serde::{Deserialize, Serialize};

/// By what the predictions were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// The slowest worker sets the pace, each with a processor of its own.
    Formula,
    /// Workers that share pipes, cycle by cycle.
    Simulation,
}

/// What sort of change a recommendation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Fewer segments or workers.
    Merge,
    /// More workers for the same stages.
    Replicate,
    /// Other or more cuts between stages.
    Split,
    /// Workers on other processors.
    Place,
    /// Workers that do nothing useful stand still.
    Park,
    /// Workers that do nothing useful poll more rarely.
    SlowPolling,
    /// Another number of packets handed over at once.
    Burst,
    /// Another variant of checksum and copy.
    KernelVariant,
}

/// How a figure that went into the predictions came about.
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

/// A figure that went into the predictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Input {
    /// What it is of.
    pub name: String,
    /// Its value with its unit, in words.
    pub value: String,
    /// How it came about.
    pub origin: Origin,
}

/// What limits the mapping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bottleneck {
    /// The stage; `null` when the line, or nothing that is known, limits.
    pub stage: Option<String>,
    /// The worker it runs on, as in `workers`.
    pub worker: Option<String>,
    /// One sentence with the figures behind it.
    pub sentence: String,
}

/// One worker of the mapping as written, or all of a kind beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedWorker {
    /// `segment.replica`, both from 0; the name of neighbours.
    pub name: String,
    /// What it runs: the names of its stages, or what it does beside the path.
    pub runs: String,
    /// The processor it was placed on; `null` where that does not matter to the model.
    pub cpu: Option<u32>,
    /// Share of its time that it works on packets, 0 to 1.
    pub utilisation: Figure,
    /// Time of a packet that it is given, waiting for others excluded.
    pub ns_per_packet: Figure,
    /// Cycles per instruction, polls included; absent where the model does not know instructions.
    pub cpi: Figure,
}

/// What would prove a prediction wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Proof {
    /// What to measure, and from which result on the prediction is wrong.
    pub sentence: String,
    /// The command that measures it; `null` where there is none.
    pub command: Option<String>,
}

/// Workers beside the path that do the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkersBeside {
    /// What they do.
    pub name: String,
    /// Their processors.
    pub cpus: Vec<u32>,
}

/// One change, and what it is predicted to gain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Recommendation {
    /// What to do, in words.
    pub change: String,
    /// What sort of change that is.
    pub kind: Change,
    /// The mapping after it, in short.
    pub mapping: String,
    /// The processors of the workers after it, in order of segment and replica; `null` where that
    /// does not matter to the model.
    pub cpus: Option<Vec<u32>>,
    /// Workers beside the path that it adds or moves, of those that poll, such as those of a second
    /// input of a stage.
    #[serde(default)]
    pub beside: Vec<WorkersBeside>,
    /// Packets per burst after it.
    pub burst: u32,
    /// The rate after it, of a flow, thousand packets per second.
    pub predicted_kpps: Figure,
    /// That over the rate as written, less 1.
    pub gain: Figure,
    /// Why it helps.
    pub why: String,
    /// What would prove that wrong.
    pub proof: Proof,
}

/// The fewest processors that hold the line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineHold {
    /// How many; `null` where no mapping is predicted to hold it with its whole interval.
    pub cpus: Option<u32>,
    /// The mapping, in short; without one that holds it, the one that comes nearest.
    pub mapping: String,
    /// Its packets per burst.
    pub burst: u32,
    /// Its rate, of a flow, thousand packets per second.
    pub predicted_kpps: Figure,
    /// That in a sentence.
    pub sentence: String,
}

/// What was searched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Search {
    /// Mappings that there are.
    #[serde(serialize_with = "crate::finite")]
    pub there_are: f64,
    /// Whether no mapping among them has a higher prediction than the best that is known.
    pub exact: bool,
    /// Share by which a mapping that was not looked at may be faster than the best that is known;
    /// `null` where no bound is known. 0 where the search is exact.
    pub gap: Option<f64>,
    /// That in a sentence, with what the search leaves out.
    pub sentence: String,
}

/// Everything `plan` found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanReport {
    /// The name of the path.
    pub path: String,
    /// The machine that the predictions are of.
    pub machine: String,
    /// Where what is known of it comes from.
    pub machine_source: String,
    /// By what the predictions were made.
    pub model: Model,
    /// Where the costs come from.
    pub costs: String,
    /// The mapping as written, in short.
    pub mapping: String,
    /// Packets per burst as written.
    pub burst: u32,
    /// Workers that the machine has for the path and its neighbours.
    pub cpus: u32,
    /// Flows of equal rate; rates are those of one.
    pub flows: u32,
    /// The rate of a flow under the mapping as written, thousand packets per second.
    pub predicted_kpps: Figure,
    /// What its line carries; `null` without a line or a known size of packets.
    pub line_rate_kpps: Option<f64>,
    /// The fewest processors that hold the line; `null` where no line is known, and in records
    /// before version 2.0.
    #[serde(default)]
    pub line_hold: Option<LineHold>,
    /// What no prediction exceeds, and why: the line, a CPU quota, the best rate seen. Those that
    /// bound one of the predictions.
    #[serde(default)]
    pub limits: Vec<String>,
    /// What limits it.
    pub bottleneck: Bottleneck,
    /// The workers of the mapping as written, and those beside it.
    pub workers: Vec<PlannedWorker>,
    /// Changes that promise a gain, the best first.
    pub recommendations: Vec<Recommendation>,
    /// Changes that a stage or the machine forbids, or that the model knows nothing of.
    pub ruled_out: Vec<RuledOut>,
    /// What was searched.
    pub search: Search,
    /// What the predictions rest on.
    pub inputs: Vec<Input>,
}
