// SPDX-License-Identifier: MIT OR Apache-2.0
//! All runs of a request as they were read: what the figures are made of.

use crate::asked::Asked;
use crate::run::Run;
use linerate_record::Warning;
use linerate_record::stat::SimulatedCaches;

/// What names the events, and what they rest on.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) table: &'static str,
    pub(crate) is_known_processor: bool,
    pub(crate) caches: Option<SimulatedCaches>,
}

/// All runs.
#[derive(Debug)]
pub(crate) struct Measured {
    /// What was asked for, with the names that the simulator has for it where that counts.
    pub(crate) asked: Asked,
    /// At least one.
    pub(crate) runs: Vec<Run>,
    /// One that a signal ended, after these.
    pub(crate) cut_short: Option<Run>,
    /// What they rest on.
    pub(crate) ground: Ground,
    /// What the simulator has to say about its counts.
    pub(crate) warnings: Vec<Warning>,
}
