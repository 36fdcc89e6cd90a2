// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads that overlap: how many a core has outstanding, what threads move per second, and what
//! that does to the others.

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
    /// Outstanding loads when more chains do not help.
    pub outstanding: Figure,
}

/// Figures for this number of parallel chains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChainsPoint {
    /// Chains.
    pub chains: u32,
    /// ns per load, all chains counted.
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
    /// Bytes that each thread works on.
    pub bytes: u64,
    /// Kind of memory access.
    pub operation: Operation,
    /// Threads, each on a separate processor.
    pub threads: u32,
    /// GB/s of all of them, 10^9 bytes per second.
    pub gb_per_s: Figure,
    /// Rate of the same loop and threads with all lines in L1, in GB/s: the upper bound.
    pub bound: Figure,
}

/// Time of a load in memory while others use it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadedLatency {
    /// Threads that read meanwhile, each on a separate processor.
    pub threads: u32,
    /// The share of their time they read, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub duty: f64,
    /// GB/s they read.
    pub gb_per_s: Figure,
    /// ns per load of the chase.
    pub latency_ns: Figure,
}
