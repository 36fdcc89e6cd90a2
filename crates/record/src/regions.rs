// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `regions` record: counts for marked regions of a program's code, each measured as
//! the difference between two counter reads.

use crate::figure::{Figure, Tier};
use serde::{Deserialize, Serialize};

/// Counts for the regions of one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegionsReport {
    /// Strongest evidence tier among the counts.
    pub tier: Tier,
    /// How counters were read: `user read`, `read(2)`, or `timestamp counter only`.
    pub reading: String,
    /// Overhead of an empty region in ticks, as measured on this machine; already subtracted from
    /// the regions' figures.
    pub own_ticks: Figure,
    /// One entry per region and thread that entered it.
    pub regions: Vec<RegionReport>,
}

/// One region in one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegionReport {
    /// Region name; for nested regions, all names from the outermost inwards, joined by `/`.
    pub name: String,
    /// Thread ID.
    pub tid: u32,
    /// Number of times the region was entered and left.
    pub visits: u64,
    /// Units of work, such as packets, that the program reported in the region; 0 if none.
    pub units: u64,
    /// Wall time in the region in ticks, including nested regions, less the measurement overhead.
    pub ticks: Figure,
    /// Wall time in the region in ticks, excluding nested regions, less the measurement overhead.
    pub own_ticks: Figure,
    /// Event counts in the region, less the measurement overhead.
    pub events: Vec<RegionEvent>,
    /// Verdict such as the region's share of its parent, or why there is none: the region is
    /// shorter than ten times its measurement overhead (nested regions included), or the thread
    /// went off-CPU.
    pub verdict: String,
    /// Whether the counts come from a sampler. They then cover everything the thread did, including
    /// its work in other regions.
    #[serde(default)]
    pub is_sampled: bool,
}

/// A region summed over all threads. Derived from the report, not stored.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionTotal<'a> {
    /// Name of the region.
    pub name: &'a str,
    /// Number of threads that entered the region.
    pub threads: usize,
    /// Number of times the region was entered and left.
    pub visits: u64,
    /// Units of work reported in the region.
    pub units: u64,
    /// Wall time in the region in ticks, including nested regions; absent, with a reason, if it is
    /// missing for any thread.
    pub ticks: Figure,
    /// Wall time in the region in ticks, excluding nested regions.
    pub own_ticks: Figure,
    /// Event counts in the region; absent, with a reason, if the count is missing for any thread.
    pub events: Vec<RegionEvent>,
}

/// Count of one event in a region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegionEvent {
    /// Name of the event.
    pub name: String,
    /// Total count over all visits.
    pub count: Figure,
}
