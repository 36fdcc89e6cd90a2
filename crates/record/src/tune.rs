// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `tune` record: finding, candidates with predictions, and results.

use crate::figure::Figure;
pub use crate::finding::{Finding, KernelAdvice, Limit};
use crate::kernels::Kernel;
use crate::run::{PacketsHome, RunReport};
use serde::{Deserialize, Serialize};

/// Latency through the path during the rounds: medians over the rounds, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoundLatency {
    /// Median latency of the packets in a round.
    pub p50: Figure,
    /// 99th percentile latency of the packets in a round.
    pub p99: Figure,
}

/// A candidate mapping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Candidate {
    /// The change in words: `merge and replicate x2`.
    pub name: String,
    /// The mapping in short form: `parse+verify | filter x2`.
    pub mapping: String,
    /// Packets per burst.
    pub burst: u32,
    /// The kernels that its workers call, as in [`RunReport::kernels`].
    pub kernels: Option<String>,
    /// Predicted rate before any candidate ran, in thousand packets per second.
    pub predicted_kpps: Figure,
    /// Whether a memory-bound stage widens the prediction to a range.
    pub memory_bound: bool,
    /// Measured rate; `null` if the candidate was not run.
    pub measured_kpps: Option<Figure>,
    /// Measured rate relative to the baseline's in the same rounds; `null` if the candidate was not
    /// run.
    pub speedup: Option<Figure>,
    /// Measured latency; `null` if the candidate was not run, and in records before version 2.0.
    #[serde(default)]
    pub latency: Option<RoundLatency>,
}

/// A mapping that was ruled out, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuledOut {
    /// The intended change.
    pub name: String,
    /// Reason for ruling out the mapping.
    pub reason: String,
}

/// Share of a kernel in a stage's work, before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelShare {
    /// The stage; `source`, `sink`, `ring in` and `ring out` are the ends of workers.
    pub stage: String,
    /// The kernel.
    pub kernel: Kernel,
    /// Share of the stage's service time, summed over its replicas, under the baseline.
    pub before: Figure,
    /// Share under the mapping to keep.
    pub after: Figure,
}

/// Cost of a stage, or of an end of the path, in ticks per packet entering the path, so that a
/// stage after a filter counts less.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CalibratedStage {
    /// Stage name; `source` or `sink` for the ends.
    pub name: String,
    /// Cost with the packets of the path.
    pub ticks_per_packet: Figure,
    /// Cost with a few repeated packets, so that the stage's data is cached; `null` if the stage is
    /// not memory-bound, or that was not checked.
    pub hot_ticks_per_packet: Option<Figure>,
    /// Share of the packets entering the path that reach this stage, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub reach: f64,
}

/// Basis of the predictions: a record with this part is sufficient for predicting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CalibrationReport {
    /// The kernels that the stages called, as in [`RunReport::kernels`]: those used by the
    /// candidates.
    pub kernels: String,
    /// Packets per burst.
    pub burst: u32,
    /// Capacity of a ring between two workers, in packets.
    pub ring: u32,
    /// Workers that ran concurrently.
    pub workers: u32,
    /// CPUs that workers could be pinned to.
    pub cpus: u32,
    /// Timestamp counter frequency, ticks per second.
    #[serde(serialize_with = "crate::finite")]
    pub ticks_per_s: f64,
    /// Standard deviation of the relative change in a CPU's speed between calibration and run.
    #[serde(serialize_with = "crate::finite")]
    pub drift: f64,
    /// Cost of receiving packets from the source.
    pub source: CalibratedStage,
    /// The stages, in path order.
    pub stages: Vec<CalibratedStage>,
    /// Cost of delivering packets to the sink.
    pub sink: CalibratedStage,
    /// Stages with global state, which are not replicated.
    pub global_stages: Vec<String>,
    /// Ticks per packet on the worker that pushes into a ring.
    pub ring_out: Figure,
    /// Ticks per packet on the worker that pops, including the first touch of the packet.
    pub ring_in: Figure,
    /// Fixed cost in ticks per burst, over all parts of a worker.
    pub burst_ticks: Figure,
    /// Entry `r - 1` is the largest share of the packets that any of `r` replicas gets.
    pub largest_shares: Vec<f64>,
}

/// Result of `linerate tune`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TuneReport {
    /// The mapping given in the file.
    pub given_mapping: String,
    /// The mapping measured first: the given one, or the closest that fits on the available CPUs.
    pub baseline_mapping: String,
    /// The profile of the baseline mapping.
    pub baseline: RunReport,
    /// Rate of the baseline: over the rounds, or over its own run if there were no rounds.
    pub baseline_kpps: Figure,
    /// Conclusion drawn from the profile.
    pub finding: Finding,
    /// All predicted mappings, best prediction first; those that were run have a measurement.
    pub candidates: Vec<Candidate>,
    /// Mappings ruled out by a stage or by the machine.
    pub ruled_out: Vec<RuledOut>,
    /// Index into `candidates` of the mapping to keep; `null` keeps the baseline.
    pub chosen: Option<u32>,
    /// The profile of the chosen mapping.
    pub tuned: RunReport,
    /// Rounds in which the baseline and the candidates ran in random order.
    pub rounds: u32,
    /// Share of the kernels in each stage's work, in path order; one entry per kernel that a stage
    /// calls. `null` if calls were not logged.
    pub kernel_shares: Option<Vec<KernelShare>>,
    /// Better kernels for the calls of the baseline; `null` if unknown.
    pub kernel_advice: Option<KernelAdvice>,
    /// Number of workers in the file's mapping; `null` in records before version 1.4.
    #[serde(default)]
    pub given_workers: Option<u32>,
    /// Logical CPUs available to workers; `null` in records before version 1.4.
    #[serde(default)]
    pub cpus_available: Option<u32>,
    /// Cache level of the packets under the baseline; `null` in records before version 1.4.
    #[serde(default)]
    pub packets_home: Option<PacketsHome>,
    /// Wait times of the memory-bound stages, one sentence each.
    #[serde(default)]
    pub waits: Vec<String>,
    /// Basis of the predictions; `null` if nothing was calibrated, and in records before version
    /// 2.0.
    #[serde(default)]
    pub calibration: Option<CalibrationReport>,
    /// The record used for explanation and predictions; `null` if packets were sent instead.
    #[serde(default)]
    pub predicted_from: Option<String>,
    /// Latency of the baseline in the rounds; `null` if there were no rounds, and in records before
    /// version 2.0.
    #[serde(default)]
    pub baseline_latency: Option<RoundLatency>,
    /// Limit on the 99th percentile latency of the chosen mapping, in nanoseconds; `null` if there
    /// is none.
    #[serde(default)]
    pub p99_limit_ns: Option<f64>,
}
