// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conclusions from a profile: the bottleneck of the path, and the best kernels for its calls.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};

/// Limit of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// A worker is busy all of its running time: its stages are the bottleneck.
    Processing,
    /// All workers wait for packets: the source or the line sets the rate.
    Offered,
    /// The profile does not single out a worker.
    CannotTell,
}

/// Conclusion from a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The kind of limit.
    pub limit: Limit,
    /// The bottleneck stage; `null` if there is none or it cannot be determined.
    pub bottleneck: Option<String>,
    /// The worker it runs on.
    pub worker: Option<String>,
    /// One sentence with the figures behind it.
    pub sentence: String,
}

/// Best kernels for the calls that a run makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelAdvice {
    /// The kernels in use, as in `kernels` of a run.
    pub in_use: String,
    /// The kernels with the lowest total time for all calls of the path.
    pub fastest: String,
    /// Time of all calls with the fastest over the time with those in use.
    pub time_ratio: Figure,
    /// The stage that gains most from the fastest kernels; if they are in use, the one whose calls
    /// take the most time.
    pub stage: String,
    /// Capacity of a worker that runs only this stage, thousand packets per second.
    pub stage_kpps: Figure,
    /// The same with the fastest kernels.
    pub stage_fastest_kpps: Figure,
    /// Capacity of the path if its busiest worker never waited, thousand packets per second.
    pub path_kpps: Figure,
    /// The same with the fastest kernels.
    pub path_fastest_kpps: Figure,
    /// Whether the gain is large enough to try.
    pub worth_trying: bool,
    /// All this in a sentence.
    pub sentence: String,
}
