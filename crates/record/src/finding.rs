// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conclusions about a packet path: its bottleneck, and the best kernels for its calls.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};

/// What limits a packet path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// A worker is busy for all of its running time, so one of its stages is the bottleneck.
    Processing,
    /// All workers wait for packets, so the source or the line sets the rate.
    Offered,
    /// Workers wait for a network interface to accept packets, or lose packets that it refuses.
    Interface,
    /// Undetermined: no single worker stands out in the profile.
    CannotTell,
    /// A limit unknown to this version, from a record written by a newer one.
    #[serde(other)]
    Unknown,
}

impl Limit {
    /// Action that raises the rate if an interface limits it.
    pub const FASTER_INTERFACE: &str =
        "send over a faster interface or more of its queues, or offer packets at a lower rate";
}

/// What limits a packet path, as concluded from its profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Kind of limit.
    pub limit: Limit,
    /// The bottleneck stage; `null` if there is none or it is unknown.
    pub bottleneck: Option<String>,
    /// Worker that runs the bottleneck stage; `null` if there is none or it is unknown.
    pub worker: Option<String>,
    /// The finding in one sentence, with its evidence.
    pub sentence: String,
}

/// Advice on the best kernels for the calls that a path made in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelAdvice {
    /// Kernels in use during the run, as in the run's `kernels` field.
    pub in_use: String,
    /// Kernels with the lowest total time for the path's calls.
    pub fastest: String,
    /// Total time of all calls with the fastest kernels, relative to their time with the kernels in
    /// use.
    pub time_ratio: Figure,
    /// Stage that gains the most from the fastest kernels or, if these are already in use, the
    /// stage that spends the most time in kernel calls.
    pub stage: String,
    /// Capacity of a worker that runs only this stage, in kpps.
    pub stage_kpps: Figure,
    /// Capacity of a worker that runs only this stage, using the fastest kernels, in kpps.
    pub stage_fastest_kpps: Figure,
    /// Path capacity if the busiest worker never waited, using the current kernels, in kpps.
    pub path_kpps: Figure,
    /// Path capacity if the busiest worker never waited, using the fastest kernels, in kpps.
    pub path_fastest_kpps: Figure,
    /// Whether the gain is large enough to justify switching kernels.
    pub worth_trying: bool,
    /// The advice in one sentence.
    pub sentence: String,
}
