// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conclusions from the profile of a packet path: its bottleneck, and the best kernels for its
//! calls.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};

/// What limits a packet path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// A worker is busy for all of its running time: its stages are the bottleneck.
    Processing,
    /// All workers wait for packets: the source or the line sets the rate.
    Offered,
    /// The limit cannot be determined: the profile does not single out a worker.
    CannotTell,
}

/// What limits a packet path, as concluded from its profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The kind of limit.
    pub limit: Limit,
    /// The bottleneck stage; `null` if there is none or it cannot be determined.
    pub bottleneck: Option<String>,
    /// Name of the worker on which the bottleneck stage runs; `null` if there is none or it is
    /// unknown.
    pub worker: Option<String>,
    /// The finding in one sentence, with supporting figures.
    pub sentence: String,
}

/// Advice on the best kernels for the calls that a path made in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelAdvice {
    /// The kernels in use during the run, as in the `kernels` field of a run.
    pub in_use: String,
    /// The kernels with the lowest total time for all calls of the path.
    pub fastest: String,
    /// Total time of all calls with the fastest kernels, relative to the kernels in use.
    pub time_ratio: Figure,
    /// The stage that gains most from the fastest kernels; if they are already in use, the stage
    /// whose calls take the most time.
    pub stage: String,
    /// Capacity of a worker that runs only this stage, in thousand packets per second.
    pub stage_kpps: Figure,
    /// Capacity of a worker that runs only this stage, with the fastest kernels, in thousand
    /// packets per second.
    pub stage_fastest_kpps: Figure,
    /// Capacity of the path if its busiest worker never waited, with the kernels in use, in
    /// thousand packets per second.
    pub path_kpps: Figure,
    /// Capacity of the path if its busiest worker never waited, with the fastest kernels, in
    /// thousand packets per second.
    pub path_fastest_kpps: Figure,
    /// Whether the gain is large enough to make the fastest kernels worth trying.
    pub worth_trying: bool,
    /// The advice in a sentence.
    pub sentence: String,
}
