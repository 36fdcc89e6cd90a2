// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `profile_diff` record: functions whose CPU cost differs between two profiles.

use crate::figure::Figure;
use crate::profile::CostClass;
use serde::{Deserialize, Serialize};

/// Comparison of two profiles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfileDiffReport {
    /// The earlier profile.
    pub old: ComparedProfile,
    /// The later profile.
    pub new: ComparedProfile,
    /// Unit of all costs.
    pub unit: CostUnit,
    /// Total change over all functions.
    pub total: CostChange,
    /// Functions: significant changes first, then undetermined changes, both in order of decreasing
    /// magnitude.
    pub functions: Vec<FunctionChange>,
    /// Number of functions omitted because they have too few samples in both profiles.
    pub functions_left_out: u64,
    /// Differences in how the two profiles were sampled, and how the comparison allows for them.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// One of the compared profiles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedProfile {
    /// Name of the program.
    pub program: String,
    /// Number of samples.
    pub samples: u64,
    /// CPU time of all threads in the window, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub cpu_s: f64,
    /// Number of packets in the window; `null` if none were counted.
    pub packets: Option<u64>,
}

/// Unit in which costs are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CostUnit {
    /// CPU time per packet, in ns. Both profiles counted packets.
    NsPerPacket,
    /// Share of all samples, 0 to 1. A function's share also changes when other functions get
    /// cheaper.
    ShareOfSamples,
}

impl CostUnit {
    /// Returns the unit used in figures: `ns` or `ratio`.
    pub fn name(self) -> &'static str {
        match self {
            Self::NsPerPacket => "ns",
            Self::ShareOfSamples => "ratio",
        }
    }
}

/// A cost in both profiles, and its change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostChange {
    /// Cost in the earlier profile.
    pub old: Figure,
    /// Cost in the later profile.
    pub new: Figure,
    /// `new` minus `old`. Intervals are simultaneous: with 95 % confidence, the intervals of all
    /// functions contain the true change.
    pub change: Figure,
    /// Conclusion from the interval of `change`.
    pub verdict: ChangeVerdict,
}

/// Direction of a significant change in cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangeVerdict {
    /// The function costs more: the interval is entirely above 0.
    More,
    /// The function costs less: the interval is entirely below 0.
    Less,
    /// Undetermined: the interval includes 0, or one of its ends is unknown.
    CannotTell,
}

impl ChangeVerdict {
    /// Returns the keyword in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::More => "more",
            Self::Less => "less",
            Self::CannotTell => "cannot_tell",
        }
    }
}

/// Change of a function's cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionChange {
    /// Function name, or `[functions without symbols]` for all unnamed functions of a file;
    /// `[without names]` in records before version 2.10.
    pub name: String,
    /// Basename of the binary or shared library that contains the function; `kernel` for the
    /// kernel.
    pub module: String,
    /// Kind of work.
    pub class: CostClass,
    /// Self samples in the earlier and the later profile.
    pub samples: [u64; 2],
    /// Self cost, excluding callees.
    pub cost: CostChange,
}

impl ProfileDiffReport {
    /// Returns the functions whose cost changed.
    pub fn changed(&self) -> impl Iterator<Item = &FunctionChange> {
        self.functions.iter().filter(|one| one.cost.verdict != ChangeVerdict::CannotTell)
    }
}
