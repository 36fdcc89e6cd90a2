// SPDX-License-Identifier: MIT OR Apache-2.0
//! Overlapping loads: outstanding loads per core, bandwidth by thread count, and latency under
//! load.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};

/// Number of loads that a core can have outstanding at one level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parallelism {
    /// Level that holds the chains.
    pub level: String,
    /// Total size of all parallel chains, in bytes.
    pub bytes: u64,
    /// Time per load, by number of parallel chains.
    pub points: Vec<ChainsPoint>,
    /// Maximum number of outstanding loads: the number of parallel chains beyond which throughput
    /// does not improve.
    pub outstanding: Figure,
}

/// Time per load with a given number of parallel chains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChainsPoint {
    /// Number of parallel chains.
    pub chains: u32,
    /// Time per load in ns: elapsed time divided by the total number of loads.
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
    /// Equal numbers of loads and stores; each copied byte is counted once.
    Copy,
}

/// Memory bandwidth of one level, for one operation and thread count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bandwidth {
    /// Level that holds the data.
    pub level: String,
    /// Data size per thread, in bytes.
    pub bytes: u64,
    /// Kind of memory access.
    pub operation: Operation,
    /// Number of threads, each on its own CPU.
    pub threads: u32,
    /// Total bandwidth, in GB/s (10^9 bytes per second).
    pub gb_per_s: Figure,
    /// Upper bound in GB/s: bandwidth of the same loop with the same number of threads and all
    /// lines in L1, or the highest bandwidth measured at any level if that is higher.
    pub bound: Figure,
}

/// Latency of loads while other threads read from memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadedLatency {
    /// Number of concurrent readers, each on its own CPU.
    pub threads: u32,
    /// Duty cycle of each reader, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub duty: f64,
    /// Bandwidth used by the readers, in GB/s.
    pub gb_per_s: Figure,
    /// Time per load in ns, of a chase that runs alongside the readers.
    pub latency_ns: Figure,
}
