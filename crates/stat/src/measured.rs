// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raw readings of all runs of a request: the input of the figures.

use crate::requested::Requested;
use crate::run::Run;
use linerate_record::Warning;
use linerate_record::stat::SimulatedCaches;

/// Names and evidence tiers of the events.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) table: &'static str,
    pub(crate) is_known_processor: bool,
    pub(crate) caches: Option<SimulatedCaches>,
}

/// All runs.
#[derive(Debug)]
pub(crate) struct Measured {
    /// The requested events; for tier `sim`, with the simulator's names.
    pub(crate) asked: Requested,
    /// At least one.
    pub(crate) runs: Vec<Run>,
    /// The run after these, if a signal interrupted it.
    pub(crate) cut_short: Option<Run>,
    /// Their evidence tier.
    pub(crate) ground: Ground,
    /// The simulator's warnings about its counts.
    pub(crate) warnings: Vec<Warning>,
}
