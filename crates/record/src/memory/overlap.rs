// SPDX-License-Identifier: MIT OR Apache-2.0
//! Overlapping loads: outstanding loads per core, bandwidth by number of threads, and the effect of
//! bandwidth on latency.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};

/// Number of outstanding misses per core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parallelism {
    /// The level, by name.
    pub level: String,
    /// Total size of all chains in bytes.
    pub bytes: u64,
    /// ns per load, by number of parallel chains.
    pub points: Vec<ChainsPoint>,
    /// Outstanding loads beyond which more chains do not help.
    pub outstanding: Figure,
}

/// Figures for this number of parallel chains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChainsPoint {
    /// Chains.
    pub chains: u32,
    /// ns per load, over all chains.
    pub ns_per_load: Figure,
}

/// Kind of memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Loads.
    Read,
    /// Stores.
    Write,
    /// As many loads as stores; the bytes of one side are counted.
    Copy,
}

/// Bytes per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bandwidth {
    /// The level, by name.
    pub level: String,
    /// Bytes per thread.
    pub bytes: u64,
    /// Kind of memory access.
    pub operation: Operation,
    /// Number of threads, each on its own CPU.
    pub threads: u32,
    /// Total bandwidth in GB/s (10^9 bytes per second).
    pub gb_per_s: Figure,
    /// Rate of the same loop on the same number of threads with all lines in L1, in GB/s: the upper
    /// bound.
    pub bound: Figure,
}

/// Load latency under concurrent reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadedLatency {
    /// Number of concurrent readers, each on its own CPU.
    pub threads: u32,
    /// Duty cycle of the readers, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub duty: f64,
    /// Bandwidth used by the readers, in GB/s.
    pub gb_per_s: Figure,
    /// ns per load in the chase.
    pub latency_ns: Figure,
}
