// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raw readings from all runs of a request, from which the figures are computed.

use crate::requested::Requested;
use crate::run::Run;
use linerate_record::Warning;
use linerate_record::stat::SimulatedCaches;

/// What the counts are based on: the event table and, for tier `sim`, the caches.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) table: &'static str,
    pub(crate) is_known_processor: bool,
    pub(crate) caches: Option<SimulatedCaches>,
}

/// Readings from all runs of a request.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Requested events; for tier `sim`, with the simulator's native names.
    pub(crate) asked: Requested,
    /// Completed runs; at least one.
    pub(crate) runs: Vec<Run>,
    /// The last run, if it was interrupted by a signal after others had completed.
    pub(crate) cut_short: Option<Run>,
    /// Event table and simulated caches.
    pub(crate) ground: Ground,
    /// The simulator's warnings about its counts.
    pub(crate) warnings: Vec<Warning>,
}
