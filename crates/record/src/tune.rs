// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `tune` record: what limits the path, candidate mappings with predictions, and
//! their results.

use crate::figure::Figure;
pub use crate::finding::{Finding, KernelAdvice, Limit};
use crate::kernels::Kernel;
use crate::run::{PacketsHome, RunReport};
use serde::{Deserialize, Serialize};

/// Latency through the path in the rounds of a comparison: medians over the rounds, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoundLatency {
    /// Median latency of the packets in a round.
    pub p50: Figure,
    /// 99th percentile latency of the packets in a round.
    pub p99: Figure,
}

/// A candidate mapping of stages to workers, with its predicted and measured rates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Candidate {
    /// The change in words: `merge and replicate x2`.
    pub name: String,
    /// The mapping in short form: `parse+verify | filter x2`.
    pub mapping: String,
    /// Packets per burst.
    pub burst: u32,
    /// Kernels that the candidate's workers call, as in [`RunReport::kernels`].
    pub kernels: Option<String>,
    /// Rate that was predicted before any candidate ran, in thousand packets per second.
    pub predicted_kpps: Figure,
    /// Whether a memory-bound stage makes the prediction a range.
    pub memory_bound: bool,
    /// Measured rate, in thousand packets per second; `null` if the candidate was not run.
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
    /// The change that was considered, in words.
    pub name: String,
    /// Reason for ruling out the mapping.
    pub reason: String,
}

/// Share of a kernel in the service time of a stage, before and after tuning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelShare {
    /// Name of the stage; `source` and `sink` are the ends of the path.
    pub stage: String,
    /// The kernel.
    pub kernel: Kernel,
    /// Share of the stage's service time, summed over its replicas, under the baseline mapping.
    pub before: Figure,
    /// Share of the stage's service time, summed over its replicas, under the mapping to keep.
    pub after: Figure,
}

/// Cost of a stage, or of an end of the path. It is given in ticks per packet that enters the path,
/// so the cost of a stage after a filter is lower than its cost per packet that reaches it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CalibratedStage {
    /// Stage name; `source` or `sink` for the ends.
    pub name: String,
    /// Cost with the packets of the path, in ticks per packet that enters the path.
    pub ticks_per_packet: Figure,
    /// Cost with a few repeated packets, so that the stage's data is cached, in ticks per packet
    /// that enters the path; `null` if the stage is not memory-bound, or if that was not checked.
    pub hot_ticks_per_packet: Option<Figure>,
    /// Share of the packets entering the path that reach this stage, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub reach: f64,
}

/// Measured costs on which the predictions are based. A record with this part is sufficient for
/// making predictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CalibrationReport {
    /// Kernels that the stages called, as in [`RunReport::kernels`]; the candidates use the same
    /// kernels.
    pub kernels: String,
    /// Packets per burst during calibration.
    pub burst: u32,
    /// Capacity of a ring between two workers, in packets.
    pub ring: u32,
    /// Number of workers that ran concurrently while the costs were measured.
    pub workers: u32,
    /// Number of CPUs to which workers could be pinned.
    pub cpus: u32,
    /// Frequency of the timestamp counter, in ticks per second.
    #[serde(serialize_with = "crate::finite")]
    pub ticks_per_s: f64,
    /// Standard deviation of the relative change in a CPU's speed between calibration and run, 0.02
    /// for 2 %.
    #[serde(serialize_with = "crate::finite")]
    pub drift: f64,
    /// Cost of receiving packets from the source.
    pub source: CalibratedStage,
    /// The stages, in path order.
    pub stages: Vec<CalibratedStage>,
    /// Cost of delivering packets to the sink.
    pub sink: CalibratedStage,
    /// Names of the stages with global state, which are not replicated.
    pub global_stages: Vec<String>,
    /// Ticks per packet for the worker that pushes into a ring.
    pub ring_out: Figure,
    /// Ticks per packet for the worker that pops from a ring, including the first access to the
    /// packet's data.
    pub ring_in: Figure,
    /// Fixed cost per burst in ticks, summed over all stages and ends of a worker.
    pub burst_ticks: Figure,
    /// Share of the packets that the busiest of `r` replicas gets, in entry `r - 1`.
    pub largest_shares: Vec<f64>,
}

/// Result of `linerate tune`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TuneReport {
    /// The mapping given in the path file.
    pub given_mapping: String,
    /// The mapping that was measured first: the given one or, if it needs too many CPUs, the
    /// closest one that fits on the available CPUs.
    pub baseline_mapping: String,
    /// The profile of the baseline mapping.
    pub baseline: RunReport,
    /// Rate of the baseline mapping: over the rounds, or over its own run if there were no rounds.
    pub baseline_kpps: Figure,
    /// What limits the baseline mapping, as concluded from its profile.
    pub finding: Finding,
    /// All predicted mappings, best prediction first; those that were run have a measurement.
    pub candidates: Vec<Candidate>,
    /// Mappings ruled out by a stage or by the machine.
    pub ruled_out: Vec<RuledOut>,
    /// Index into `candidates` of the mapping to keep; `null` keeps the baseline.
    pub chosen: Option<u32>,
    /// The profile of the chosen mapping.
    pub tuned: RunReport,
    /// Number of rounds, in each of which the baseline and the candidates ran in random order.
    pub rounds: u32,
    /// Share of the kernels in the service time of each stage, in path order: one entry per stage
    /// and kernel, for checksum, copy, and every other kernel that a stage calls. `null` if calls
    /// were not logged.
    pub kernel_shares: Option<Vec<KernelShare>>,
    /// Better kernels for the calls that the baseline makes; `null` if unknown.
    pub kernel_advice: Option<KernelAdvice>,
    /// Number of workers in the file's mapping; `null` in records before version 1.4.
    #[serde(default)]
    pub given_workers: Option<u32>,
    /// Logical CPUs available to workers; `null` in records before version 1.4.
    #[serde(default)]
    pub cpus_available: Option<u32>,
    /// Cache level that holds the packets under the baseline mapping; `null` in records before
    /// version 1.4.
    #[serde(default)]
    pub packets_home: Option<PacketsHome>,
    /// Time that each memory-bound stage waits for memory, one sentence per stage.
    #[serde(default)]
    pub waits: Vec<String>,
    /// Measured costs on which the predictions are based; `null` if nothing was calibrated, and in
    /// records before version 2.0.
    #[serde(default)]
    pub calibration: Option<CalibrationReport>,
    /// The record from which the explanation and the predictions were computed; `null` if packets
    /// were sent through the path instead.
    #[serde(default)]
    pub predicted_from: Option<String>,
    /// Latency of the baseline in the rounds; `null` if there were no rounds, and in records before
    /// version 2.0.
    #[serde(default)]
    pub baseline_latency: Option<RoundLatency>,
    /// Upper limit on the 99th percentile latency of the chosen mapping, in nanoseconds; `null` if
    /// there is no limit.
    #[serde(default)]
    pub p99_limit_ns: Option<f64>,
}
