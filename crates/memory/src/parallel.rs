// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many misses a core has outstanding at once: chains side by side, until more of them make it
//! no faster.

use crate::arena::Arena;
use crate::window::Windows;
use linerate_record::memory::{MemoryTier, Parallelism};
use linerate_record::stats::Estimate;
use std::time::Instant;

/// How to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Octets of a line.
    pub line: usize,
    /// Passes over all numbers of chains.
    pub passes: u32,
    /// Of the orders.
    pub seed: u64,
    /// When to be done.
    pub deadline: Instant,
}

/// What was found of a tier.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// For the record.
    pub record: Parallelism,
    /// Loads under way at once, for the costs; `None` where nothing was measured.
    pub outstanding: Option<Estimate>,
}

/// Measures each of `tiers`, in their order, by page-local chains in `arena`. What the deadline or
/// a stop cuts short is absent with a reason.
pub fn measure(
    windows: &Windows<'_>,
    arena: &mut Arena,
    tiers: &[MemoryTier],
    request: &Request,
) -> Vec<Measured> {
    let _ = (windows, arena, tiers, request);
    Vec::new()
}
