// SPDX-License-Identifier: MIT OR Apache-2.0
//! Overlapping loads: outstanding loads of a core, bandwidth of threads, and its effect on latency.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};

/// Number of outstanding misses of a core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parallelism {
    /// The level, by name.
    pub level: String,
    /// Bytes of all chains together.
    pub bytes: u64,
    /// ns per load with this many parallel chains.
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
    /// As many loads as stores; bytes of one side.
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
    /// Threads, each on its own CPU.
    pub threads: u32,
    /// Total GB/s, 10^9 bytes per second.
    pub gb_per_s: Figure,
    /// Rate of the same loop and threads with all lines in L1, in GB/s: the upper bound.
    pub bound: Figure,
}

/// Load latency under concurrent reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadedLatency {
    /// Concurrent readers, each on its own CPU.
    pub threads: u32,
    /// Duty cycle of the readers, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub duty: f64,
    /// GB/s of the readers.
    pub gb_per_s: Figure,
    /// ns per load of the chase.
    pub latency_ns: Figure,
}
