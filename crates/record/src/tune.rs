// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `tune` record: what limits the path, candidate mappings with their predictions,
//! and how they performed.

use crate::figure::Figure;
pub use crate::finding::{Finding, KernelAdvice, Limit};
use crate::kernels::Kernel;
use crate::run::{PacketsHome, RunReport};
use serde::{Deserialize, Serialize};

/// Path latency in the rounds of a comparison: medians over the rounds, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoundLatency {
    /// Median latency within a round.
    pub p50: Figure,
    /// 99th percentile latency within a round.
    pub p99: Figure,
}

/// A candidate mapping of stages to workers, with predicted and measured rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Candidate {
    /// The change in words: `merge and replicate x2`.
    pub name: String,
    /// The mapping in short form: `parse+verify | filter x2`.
    pub mapping: String,
    /// Packets per burst.
    pub burst: u32,
    /// Kernels that the workers call, as in [`RunReport::kernels`]; `null` in older records.
    pub kernels: Option<String>,
    /// Rate predicted before any candidate ran, in kpps.
    pub predicted_kpps: Figure,
    /// Whether the prediction is a range because a stage is memory-bound.
    pub memory_bound: bool,
    /// Measured rate, in kpps; `null` if the candidate was not run.
    pub measured_kpps: Option<Figure>,
    /// Measured rate relative to the baseline in the same rounds; `null` if the candidate was not
    /// run.
    pub speedup: Option<Figure>,
    /// Measured latency; `null` if the candidate was not run, and in records before version 2.0.
    #[serde(default)]
    pub latency: Option<RoundLatency>,
}

/// A mapping that was ruled out, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuledOut {
    /// The change that was considered, in words.
    pub name: String,
    /// Why it was ruled out.
    pub reason: String,
}

/// Fraction of a stage's service time spent in a kernel, before and after tuning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelShare {
    /// Stage name, or `source` or `sink` for the ends of the path.
    pub stage: String,
    /// The kernel.
    pub kernel: Kernel,
    /// Fraction under the baseline mapping, over all replicas of the stage.
    pub before: Figure,
    /// Fraction under the chosen mapping, over all replicas of the stage.
    pub after: Figure,
}

/// Cost of a stage, or of the path's source or sink, in ticks per packet that enters the path. For
/// a stage after a filter, this is less than the cost per packet that reaches the stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CalibratedStage {
    /// Stage name, or `source` or `sink` for the ends of the path.
    pub name: String,
    /// Cost with the path's own packets, in ticks per packet entering the path.
    pub ticks_per_packet: Figure,
    /// Cost when the same few packets are repeated, so that the stage's data stays in cache, in
    /// ticks per packet entering the path; `null` if the stage is not memory-bound or this was not
    /// checked.
    pub hot_ticks_per_packet: Option<Figure>,
    /// Fraction of packets entering the path that reach this stage, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub reach: f64,
}

/// Measured costs behind the predictions. A record that contains them can be used for predictions
/// without measuring again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CalibrationReport {
    /// Kernels that the stages called, as in [`RunReport::kernels`]. Candidates use the same
    /// kernels.
    pub kernels: String,
    /// Packets per burst during calibration.
    pub burst: u32,
    /// Capacity of the rings between workers, in packets.
    pub ring: u32,
    /// Number of concurrent workers while costs were measured.
    pub workers: u32,
    /// Number of CPUs available for pinning workers.
    pub cpus: u32,
    /// Frequency of the timestamp counter, in ticks per second.
    #[serde(serialize_with = "crate::finite")]
    pub ticks_per_s: f64,
    /// Standard deviation of the relative change in CPU speed between calibration and run: 0.02 is
    /// 2 %.
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
    /// Ticks per packet spent pushing into a ring.
    pub ring_out: Figure,
    /// Ticks per packet spent popping from a ring, including the first access to packet data.
    pub ring_in: Figure,
    /// Fixed cost per burst in ticks, summed over a worker's stages, its input and its output.
    pub burst_ticks: Figure,
    /// Fraction of packets handled by the busiest replica: entry `r - 1` is for `r` replicas.
    pub largest_shares: Vec<f64>,
}

/// Idle policy proposed for the workers of one segment of the kept mapping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerIdle {
    /// The segment's busiest worker, whose load the proposal is based on.
    pub worker: String,
    /// Proposed policy: `spin`, `pause`, `slow`, `park` or `auto`.
    pub policy: String,
    /// Expected CPU time of the worker divided by wall time.
    pub cpu_share: Figure,
    /// Expected latency added to the first packet after an idle period, in nanoseconds.
    pub added: Figure,
    /// The policy with its reason, in one sentence.
    pub sentence: String,
}

/// The proposed idle policies, compared with polling at the same rate: medians over rounds, each of
/// which ran the path with both in random order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleTrial {
    /// Number of rounds.
    pub rounds: u32,
    /// Total CPU time of all workers when polling, divided by wall time.
    pub cpus_polling: Figure,
    /// Total CPU time of all workers with the proposed policies, divided by wall time.
    pub cpus: Figure,
    /// CPU time that the policies save, divided by wall time.
    pub cpus_saved: Figure,
    /// Median latency that the policies add, in nanoseconds; negative if it falls.
    pub p50_added: Figure,
    /// p99 latency that the policies add, in nanoseconds; negative if it falls.
    pub p99_added: Figure,
    /// p99 latency with the proposed policies, in nanoseconds.
    pub p99: Figure,
    /// Rate of processed packets relative to polling.
    pub rate_ratio: Figure,
}

/// Idle policies proposed for the kept mapping at the rate of the path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleAdvice {
    /// Median time of a wake-up on this machine, in nanoseconds.
    pub wake_up_p50: Figure,
    /// 99th percentile of the time of a wake-up, in nanoseconds.
    pub wake_up_p99: Figure,
    /// The proposals, one per segment of the kept mapping; empty if none can be made.
    pub workers: Vec<WorkerIdle>,
    /// Why no policy is proposed; `null` if one is.
    pub unknown: Option<String>,
    /// Comparison with polling; `null` if all workers should poll, or if it was stopped.
    pub trial: Option<IdleTrial>,
    /// Whether the comparison shows that the policies save CPU time, keep the rate, and meet the
    /// limit on latency. If so, they are written to the tuned path file.
    pub kept: bool,
}

/// Result of `linerate tune`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TuneReport {
    /// The mapping given in the path file.
    pub given_mapping: String,
    /// The mapping measured first: the one in the path file or, if that needs too many CPUs, the
    /// closest one that fits.
    pub baseline_mapping: String,
    /// Profile of the baseline mapping.
    pub baseline: RunReport,
    /// Rate of the baseline mapping: from the rounds if there were any, otherwise from its own run.
    pub baseline_kpps: Figure,
    /// What limits the baseline mapping, as concluded from its profile.
    pub finding: Finding,
    /// All predicted mappings, best prediction first. Mappings that were run also have a measured
    /// rate.
    pub candidates: Vec<Candidate>,
    /// Mappings ruled out by a stage or by the machine.
    pub ruled_out: Vec<RuledOut>,
    /// Index in `candidates` of the mapping to keep; `null` keeps the baseline.
    pub chosen: Option<u32>,
    /// Profile of the chosen mapping.
    pub tuned: RunReport,
    /// Number of rounds. In each, the baseline and the candidates ran in random order.
    pub rounds: u32,
    /// Fraction of each stage's service time spent in kernels, in path order: one entry per stage
    /// and kernel, for checksum, copy, and any other kernel that a stage calls. `null` if calls
    /// were not logged.
    pub kernel_shares: Option<Vec<KernelShare>>,
    /// Advice on faster kernels for the baseline's calls; `null` if unknown.
    pub kernel_advice: Option<KernelAdvice>,
    /// Number of workers in the path file's mapping; `null` in records before version 1.4.
    #[serde(default)]
    pub given_workers: Option<u32>,
    /// Logical CPUs available to workers; `null` in records before version 1.4.
    #[serde(default)]
    pub cpus_available: Option<u32>,
    /// Cache level that holds the packets under the baseline mapping; `null` in records before
    /// version 1.4.
    #[serde(default)]
    pub packets_home: Option<PacketsHome>,
    /// How long each memory-bound stage waits for memory, one sentence per stage.
    #[serde(default)]
    pub waits: Vec<String>,
    /// Measured costs behind the predictions; `null` if nothing was calibrated, and in records
    /// before version 2.0.
    #[serde(default)]
    pub calibration: Option<CalibrationReport>,
    /// Record that the explanation and predictions are based on; `null` if they are based on a run
    /// of the path.
    #[serde(default)]
    pub predicted_from: Option<String>,
    /// Baseline latency in the rounds; `null` without rounds, and in records before version 2.0.
    #[serde(default)]
    pub baseline_latency: Option<RoundLatency>,
    /// Upper limit on the 99th percentile latency of the chosen mapping, in nanoseconds; `null`
    /// without a limit.
    #[serde(default)]
    pub p99_limit_ns: Option<f64>,
    /// Idle policies for the kept mapping; `null` for a path without a rate, and in records before
    /// version 2.8.
    #[serde(default)]
    pub idle: Option<IdleAdvice>,
}
