// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `regions` record: counts for regions that a program marked itself, each of which
//! is the code between two counter reads.

use crate::figure::{Figure, Tier};
use serde::{Deserialize, Serialize};

/// Counts for the regions of one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegionsReport {
    /// Evidence tier of the counts.
    pub tier: Tier,
    /// How the counters were read: `user read`, `read(2)`, or `timestamp counter only`.
    pub reading: String,
    /// Measurement overhead of an empty region, in ticks. It is measured on this machine, and
    /// subtracted from the figures of the regions.
    pub own_ticks: Figure,
    /// Regions that were entered, one entry per region and thread.
    pub regions: Vec<RegionReport>,
}

/// One region in one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegionReport {
    /// Name of the region; for a nested region, the names from the outermost region on, joined by
    /// `/`.
    pub name: String,
    /// Thread ID.
    pub tid: u32,
    /// Number of completed visits.
    pub visits: u64,
    /// Number of units of work, such as packets, that the program reported in the region; 0 if it
    /// reported none.
    pub units: u64,
    /// Ticks of wall time in the region, including nested regions, with the measurement overhead
    /// subtracted.
    pub ticks: Figure,
    /// Ticks of wall time in the region, excluding nested regions, with the measurement overhead
    /// subtracted.
    pub own_ticks: Figure,
    /// Event counts in the region, with the measurement overhead subtracted.
    pub events: Vec<RegionEvent>,
    /// A verdict in words, such as the region's share of the enclosing region, or the reason why
    /// there is none: the region is shorter than ten times its measurement overhead (including that
    /// of nested regions), or the thread was off-CPU.
    pub verdict: String,
    /// Whether a sampler counted the region. The counts then cover everything that its thread did,
    /// including other regions.
    #[serde(default)]
    pub is_sampled: bool,
}

/// A region summed over all threads of a program; derived from the report, not stored.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionTotal<'a> {
    /// Name of the region.
    pub name: &'a str,
    /// Number of threads that entered the region.
    pub threads: usize,
    /// Number of completed visits.
    pub visits: u64,
    /// Number of units of work that were reported in the region.
    pub units: u64,
    /// Ticks of wall time in the region, including nested regions; absent with a reason if they are
    /// missing for one of the threads.
    pub ticks: Figure,
    /// Ticks of wall time in the region, excluding nested regions.
    pub own_ticks: Figure,
    /// Event counts in the region; a count is absent with a reason if it is missing for one of the
    /// threads.
    pub events: Vec<RegionEvent>,
}

/// Count of one event in a region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegionEvent {
    /// Name of the event.
    pub name: String,
    /// Total count over all visits to the region.
    pub count: Figure,
}
