// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `tune` record: finding, candidates with their predictions, and results.

use crate::figure::Figure;
pub use crate::finding::{Finding, KernelAdvice, Limit};
use crate::kernels::Kernel;
use crate::run::{PacketsHome, RunReport};
use serde::{Deserialize, Serialize};

/// Time through the path in the rounds: medians over the rounds, nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoundLatency {
    /// Median of the packets of a round.
    pub p50: Figure,
    /// 99th percentile of the packets of a round.
    pub p99: Figure,
}

/// One mapping that was considered.
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
    /// Whether a stage that waits for memory makes the prediction a range only.
    pub memory_bound: bool,
    /// Measured rate; `null` when it was not run.
    pub measured_kpps: Option<Figure>,
    /// Measured rate over the baseline's of the same rounds; `null` when it was not run.
    pub speedup: Option<Figure>,
    /// Measured latency; `null` when it was not run, and in records before version 2.0.
    #[serde(default)]
    pub latency: Option<RoundLatency>,
}

/// A mapping that was ruled out, and the rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuledOut {
    /// Its intended change.
    pub name: String,
    /// Why it may not.
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
/// behind a filter counts less.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CalibratedStage {
    /// The stage; `source` or `sink` for the ends.
    pub name: String,
    /// As the packets of the path find it.
    pub ticks_per_packet: Figure,
    /// The same when few packets are repeated, so that its data is in the cache; `null` where it
    /// does not wait for memory, or that was not checked.
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
    /// Packets that a ring between two workers holds.
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
    /// Taking packets from the source.
    pub source: CalibratedStage,
    /// The stages, in the order of the path.
    pub stages: Vec<CalibratedStage>,
    /// Handing packets to the sink.
    pub sink: CalibratedStage,
    /// Stages with one state for all packets: they are not replicated.
    pub global_stages: Vec<String>,
    /// Ticks per packet on the worker that pushes into a ring.
    pub ring_out: Figure,
    /// Ticks per packet on the worker that pops, the first touch of the packet included.
    pub ring_in: Figure,
    /// Ticks per burst that do not depend on its size, over all parts of a worker.
    pub burst_ticks: Figure,
    /// Entry `r - 1`: the largest share of the packets that one of `r` replicas gets.
    pub largest_shares: Vec<f64>,
}

/// Everything `tune` did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TuneReport {
    /// The mapping of the file.
    pub given_mapping: String,
    /// The mapping that was measured first: the given one, or the nearest that fits the processors.
    pub baseline_mapping: String,
    /// The profile of that mapping.
    pub baseline: RunReport,
    /// The rate of the baseline: over the rounds, or over its own run when there were none.
    pub baseline_kpps: Figure,
    /// Conclusion from the profile.
    pub finding: Finding,
    /// Every mapping that was predicted, best prediction first; those that ran have a measurement.
    pub candidates: Vec<Candidate>,
    /// Mappings that a stage or the machine forbids.
    pub ruled_out: Vec<RuledOut>,
    /// Index into `candidates` of the mapping to keep; `null` keeps the baseline.
    pub chosen: Option<u32>,
    /// The profile of the mapping to keep.
    pub tuned: RunReport,
    /// Rounds in which the baseline and the candidates ran in random order.
    pub rounds: u32,
    /// The share of kernels in the work of each stage, in the order of the stages; one entry per
    /// kernel that some stage calls. `null` when calls were not logged.
    pub kernel_shares: Option<Vec<KernelShare>>,
    /// Whether other kernels suit the baseline's calls better; `null` when that is not known.
    pub kernel_advice: Option<KernelAdvice>,
    /// Workers of the mapping of the file; `null` in records before version 1.4.
    #[serde(default)]
    pub given_workers: Option<u32>,
    /// Logical processors that workers could be placed on; `null` in records before version 1.4.
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
    /// The record that was explained and predicted from; `null` where packets were sent.
    #[serde(default)]
    pub predicted_from: Option<String>,
    /// Latency of the baseline in the rounds; `null` when there were none, and in records before
    /// version 2.0.
    #[serde(default)]
    pub baseline_latency: Option<RoundLatency>,
    /// Nanoseconds that the 99th percentile of the mapping to keep may reach; `null` without such a
    /// limit.
    #[serde(default)]
    pub p99_limit_ns: Option<f64>,
}
