// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts for a program's own regions: code between two counter reads.

use crate::figure::{Figure, Tier};
use serde::{Deserialize, Serialize};

/// The regions of one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegionsReport {
    /// Evidence tier of the counts.
    pub tier: Tier,
    /// How counters were read: `user read`, `read(2)`, or `timestamp counter only`.
    pub reading: String,
    /// Cost of an empty region, in ticks: measured here and subtracted below.
    pub own_ticks: Figure,
    /// Regions that were entered, one entry per thread.
    pub regions: Vec<RegionReport>,
}

/// One region in one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegionReport {
    /// Name; nested regions are joined by `/`.
    pub name: String,
    /// The thread's number.
    pub tid: u32,
    /// Number of completed visits.
    pub visits: u64,
    /// Units of work reported in the region; 0 if none.
    pub units: u64,
    /// Ticks in the region, including nested regions, with the measurement's own cost subtracted.
    /// Wall time.
    pub ticks: Figure,
    /// Ticks in the region, excluding nested regions.
    pub own_ticks: Figure,
    /// Counts by event name, with the measurement's own cost subtracted.
    pub events: Vec<RegionEvent>,
    /// The verdict, or the reason why there is none: the region is shorter than ten times its
    /// measurement overhead (including that of nested regions), or the thread was off-CPU.
    pub verdict: String,
    /// Whether a sampler counted the region, in which case the counts cover everything its thread
    /// did, including other regions.
    #[serde(default)]
    pub is_sampled: bool,
}

/// A region summed over all threads of a program; derived from the report, not stored.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionTotal<'a> {
    /// Its name.
    pub name: &'a str,
    /// Number of threads that entered the region.
    pub threads: usize,
    /// Number of completed visits.
    pub visits: u64,
    /// Units of work that were reported in the region.
    pub units: u64,
    /// Ticks in the region, or the reason why they are missing for one of the threads.
    pub ticks: Figure,
    /// Ticks in the region, excluding nested regions.
    pub own_ticks: Figure,
    /// Counts in the region, or the reason why they are missing for one of the threads.
    pub events: Vec<RegionEvent>,
}

/// An event in a region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegionEvent {
    /// Its name.
    pub name: String,
    /// Total count over all visits.
    pub count: Figure,
}
