// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `tune` record: finding, candidates with their predictions, and results.

use crate::figure::Figure;
pub use crate::finding::{Finding, KernelAdvice, Limit};
use crate::kernels::Kernel;
use crate::run::{PacketsHome, RunReport};
use serde::{Deserialize, Serialize};

/// Latency through the path in the rounds: medians over the rounds, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoundLatency {
    /// Median of the packets of a round.
    pub p50: Figure,
    /// 99th percentile of the packets of a round.
    pub p99: Figure,
}

/// A candidate mapping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Candidate {
    /// Its change, in words: `merge and replicate x2`.
    pub name: String,
    /// The mapping in short: `parse+verify | filter x2`.
    pub mapping: String,
    /// Packets per burst.
    pub burst: u32,
    /// The kernels its workers call, as in [`RunReport::kernels`].
    pub kernels: Option<String>,
    /// Predicted rate, thousand packets per second, before any candidate ran.
    pub predicted_kpps: Figure,
    /// Whether a memory-bound stage reduces the prediction to a range.
    pub memory_bound: bool,
    /// Measured rate; `null` when it was not run.
    pub measured_kpps: Option<Figure>,
    /// Measured rate over the baseline's of the same rounds; `null` when it was not run.
    pub speedup: Option<Figure>,
    /// Measured latency; `null` when it was not run, and in records before version 2.0.
    #[serde(default)]
    pub latency: Option<RoundLatency>,
}

/// A mapping that was ruled out, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuledOut {
    /// The intended change.
    pub name: String,
    /// Reason for ruling it out.
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
    /// Share of the stage's service time over all its replicas, under the baseline.
    pub before: Figure,
    /// The same under the mapping to keep.
    pub after: Figure,
}

/// Cost of a stage, or an end of the path: ticks per packet entering the path, so that a stage
/// after a filter counts less.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CalibratedStage {
    /// The stage; `source` or `sink` for the ends.
    pub name: String,
    /// With the packets of the path.
    pub ticks_per_packet: Figure,
    /// The same with few repeated packets, so that its data is cached; `null` if it is not
    /// memory-bound, or that was not checked.
    pub hot_ticks_per_packet: Option<Figure>,
    /// Share of the packets entering the path that reach it, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub reach: f64,
}

/// Basis of the predictions: a record with it is sufficient for predicting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CalibrationReport {
    /// The kernels that the stages called, as in [`RunReport::kernels`]: those of the candidates.
    pub kernels: String,
    /// Packets per burst.
    pub burst: u32,
    /// Capacity of a ring between two workers, in packets.
    pub ring: u32,
    /// Workers that ran at the same time.
    pub workers: u32,
    /// CPUs that workers could be pinned to.
    pub cpus: u32,
    /// Ticks of the timestamp counter per second.
    #[serde(serialize_with = "crate::finite")]
    pub ticks_per_s: f64,
    /// Standard deviation of the relative change of a CPU's speed from the calibration to a run.
    #[serde(serialize_with = "crate::finite")]
    pub drift: f64,
    /// Cost of receiving packets from the source.
    pub source: CalibratedStage,
    /// The stages, in the order of the path.
    pub stages: Vec<CalibratedStage>,
    /// Cost of delivering packets to the sink.
    pub sink: CalibratedStage,
    /// Stages with global state: they are not replicated.
    pub global_stages: Vec<String>,
    /// Ticks per packet on the worker that pushes into a ring.
    pub ring_out: Figure,
    /// Ticks per packet on the worker that pops, including the first touch of the packet.
    pub ring_in: Figure,
    /// Fixed ticks per burst, over all parts of a worker.
    pub burst_ticks: Figure,
    /// Entry `r - 1`: the largest share of the packets that one of `r` replicas gets.
    pub largest_shares: Vec<f64>,
}

/// Result of `linerate tune`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TuneReport {
    /// The mapping in the file.
    pub given_mapping: String,
    /// The mapping that was measured first: the given one, or the closest that fits the available
    /// CPUs.
    pub baseline_mapping: String,
    /// The profile of that mapping.
    pub baseline: RunReport,
    /// The rate of the baseline: over the rounds, or over its own run when there were none.
    pub baseline_kpps: Figure,
    /// Conclusion from the profile.
    pub finding: Finding,
    /// All predicted mappings, best prediction first; those that ran have a measurement.
    pub candidates: Vec<Candidate>,
    /// Mappings ruled out by a stage or the machine.
    pub ruled_out: Vec<RuledOut>,
    /// Index into `candidates` of the mapping to keep; `null` keeps the baseline.
    pub chosen: Option<u32>,
    /// The profile of the chosen mapping.
    pub tuned: RunReport,
    /// Rounds in which the baseline and the candidates ran in random order.
    pub rounds: u32,
    /// The share of kernels in the work of each stage, in the order of the stages; one entry per
    /// kernel that some stage calls. `null` when calls were not logged.
    pub kernel_shares: Option<Vec<KernelShare>>,
    /// Better kernels for the baseline's calls; `null` if unknown.
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
    /// Waiting times of the memory-bound stages, a sentence each.
    #[serde(default)]
    pub waits: Vec<String>,
    /// Basis of the predictions; `null` if nothing was calibrated, and in records before version
    /// 2.0.
    #[serde(default)]
    pub calibration: Option<CalibrationReport>,
    /// The record used for explanation and predictions; `null` if packets were sent.
    #[serde(default)]
    pub predicted_from: Option<String>,
    /// Latency of the baseline in the rounds; `null` without rounds, and in records before version
    /// 2.0.
    #[serde(default)]
    pub baseline_latency: Option<RoundLatency>,
    /// Limit on the 99th percentile latency of the chosen mapping, in nanoseconds; `null` without
    /// one.
    #[serde(default)]
    pub p99_limit_ns: Option<f64>,
}
