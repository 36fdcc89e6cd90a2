// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `profile_diff` record: which functions cost more or less CPU time in one profile
//! than in another.

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
    /// Change of the cost of all functions together.
    pub total: CostChange,
    /// Functions, those whose cost changed first, by decreasing size of the change.
    pub functions: Vec<FunctionChange>,
    /// Number of functions left out because they have too few samples in both profiles.
    pub functions_left_out: u64,
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

/// Unit of compared costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CostUnit {
    /// CPU time per packet in ns: both profiles counted packets.
    NsPerPacket,
    /// Share of all samples, 0 to 1: a function's share also changes if others get cheaper.
    ShareOfSamples,
}

impl CostUnit {
    /// Returns the unit of figures: `ns` or `ratio`.
    pub fn name(self) -> &'static str {
        match self {
            Self::NsPerPacket => "ns",
            Self::ShareOfSamples => "ratio",
        }
    }
}

/// Cost in both profiles, and its change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostChange {
    /// Cost in the earlier profile.
    pub old: Figure,
    /// Cost in the later profile.
    pub new: Figure,
    /// `new` minus `old`. The intervals of all functions hold together with 95 % confidence.
    pub change: Figure,
    /// Conclusion from the interval of `change`.
    pub verdict: ChangeVerdict,
}

/// Whether a cost changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangeVerdict {
    /// It costs more: the whole interval of the change is above 0.
    More,
    /// It costs less: the whole interval of the change is below 0.
    Less,
    /// The interval includes 0, or one of its ends is unknown.
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
    /// Function name, or `[without names]` for all functions of a file that have none.
    pub name: String,
    /// Name of the file that contains the function, without its folder; `kernel` for the kernel.
    pub module: String,
    /// Kind of work.
    pub class: CostClass,
    /// Samples in the function itself, in the earlier and in the later profile.
    pub samples: [u64; 2],
    /// Cost of the function itself, without its callees.
    pub cost: CostChange,
}

impl ProfileDiffReport {
    /// Returns the functions whose cost changed.
    pub fn changed(&self) -> impl Iterator<Item = &FunctionChange> {
        self.functions.iter().filter(|one| one.cost.verdict != ChangeVerdict::CannotTell)
    }
}
