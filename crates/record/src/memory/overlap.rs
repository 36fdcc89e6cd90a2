// SPDX-License-Identifier: MIT OR Apache-2.0
//! Overlapping loads: the number of outstanding loads per core, bandwidth by number of threads, and
//! the effect of bandwidth use on latency.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};

/// Number of loads that a core can keep outstanding, at one level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parallelism {
    /// Name of the level that holds the chains.
    pub level: String,
    /// Total size of all parallel chains, in bytes.
    pub bytes: u64,
    /// Time per load, by number of parallel chains.
    pub points: Vec<ChainsPoint>,
    /// Number of outstanding loads beyond which more parallel chains do not help.
    pub outstanding: Figure,
}

/// Time per load with one number of parallel chains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChainsPoint {
    /// Number of parallel chains.
    pub chains: u32,
    /// Time per load in ns, over all chains: elapsed time divided by the loads of all chains.
    pub ns_per_load: Figure,
}

/// Kind of memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Loads only.
    Read,
    /// Stores only.
    Write,
    /// Loads and stores in equal number; only the bytes of one side are counted.
    Copy,
}

/// Memory bandwidth of one level, for one operation and number of threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bandwidth {
    /// Name of the level that holds the data.
    pub level: String,
    /// Size of the data per thread, in bytes.
    pub bytes: u64,
    /// Kind of memory access.
    pub operation: Operation,
    /// Number of threads, each on its own CPU.
    pub threads: u32,
    /// Total bandwidth in GB/s (10^9 bytes per second).
    pub gb_per_s: Figure,
    /// Upper bound in GB/s: the rate of the same loop on the same number of threads with all lines
    /// in L1.
    pub bound: Figure,
}

/// Latency of loads while other threads read from memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadedLatency {
    /// Number of concurrent readers, each on its own CPU.
    pub threads: u32,
    /// Share of the time during which each reader reads, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub duty: f64,
    /// Bandwidth used by the readers, in GB/s.
    pub gb_per_s: Figure,
    /// Time per load, in ns, of the chase that runs next to the readers.
    pub latency_ns: Figure,
}
