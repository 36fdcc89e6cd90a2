// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `tune` record: finding, candidates with their predictions, what came of them.

use crate::figure::Figure;
pub use crate::finding::{Finding, KernelAdvice, Limit};
use crate::kernels::Kernel;
use crate::run::{PacketsHome, RunReport};
use serde::{Deserialize, Serialize};

/// One mapping that was considered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Candidate {
    /// What it does, in words: `merge and replicate x2`.
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
}

/// A mapping that was ruled out, and the rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuledOut {
    /// What it would have done.
    pub name: String,
    /// Why it may not.
    pub reason: String,
}

/// How much of a stage's work a kernel is, before and after.
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
    /// What the profile says.
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
    /// Where the packets are in the memory hierarchy under the baseline; `null` in records before
    /// version 1.4.
    #[serde(default)]
    pub packets_home: Option<PacketsHome>,
    /// What the stages that were seen to wait for memory wait, a sentence each.
    #[serde(default)]
    pub waits: Vec<String>,
}
