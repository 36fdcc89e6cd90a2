// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of a program's own regions: code between two reads of the counters.

use crate::figure::{Figure, Tier};
use serde::{Deserialize, Serialize};

/// The regions of one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegionsReport {
    /// Evidence tier of the counts.
    pub tier: Tier,
    /// Read method: `user read`, `read(2)`, or `timestamp counter only`.
    pub reading: String,
    /// Cost of an empty region, in ticks: measured here, and subtracted below.
    pub own_ticks: Figure,
    /// Every region of every thread that was entered.
    pub regions: Vec<RegionReport>,
}

/// One region in one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegionReport {
    /// Its name; nested ones are joined by `/`.
    pub name: String,
    /// The thread's number.
    pub tid: u32,
    /// Number of completed visits.
    pub visits: u64,
    /// Units of work that were reported in it; 0 if none were.
    pub units: u64,
    /// Ticks in it, inner regions included, own cost subtracted. Wall time.
    pub ticks: Figure,
    /// The same, without those of inner regions.
    pub own_ticks: Figure,
    /// The counts in it, by the name of the event; own cost subtracted.
    pub events: Vec<RegionEvent>,
    /// The verdict; or why there is none, which is the case for regions of less than ten times
    /// their measuring overhead, nested regions included, and if the thread was off the CPU.
    pub verdict: String,
    /// Whether a sampler counted it: all that its thread did, its other regions included.
    #[serde(default)]
    pub is_sampled: bool,
}

/// A region in all threads of a program together; follows from the report, and is not stored.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionTotal<'a> {
    /// Its name.
    pub name: &'a str,
    /// Number of threads that entered it.
    pub threads: usize,
    /// Number of completed visits.
    pub visits: u64,
    /// Units of work that were reported in it.
    pub units: u64,
    /// Ticks in it, or why one of the threads has none.
    pub ticks: Figure,
    /// The same, without those of inner regions.
    pub own_ticks: Figure,
    /// The counts in it, or why one of the threads has none.
    pub events: Vec<RegionEvent>,
}

/// An event in a region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegionEvent {
    /// Its name.
    pub name: String,
    /// The count, all visits together.
    pub count: Figure,
}
