// SPDX-License-Identifier: MIT OR Apache-2.0
//! Octets per second, of one thread and of all, and what a load costs while others use memory.

use crate::arena::Arena;
use crate::window::Windows;
use linerate_record::memory::{Bandwidth, LoadedLatency, MemoryTier};
use std::time::Instant;

/// How to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request<'a> {
    /// The processors to use, one thread each; the first is that of the calling thread, which is
    /// pinned to it.
    pub cpus: &'a [u32],
    /// Octets of a line.
    pub line: usize,
    /// Of the orders.
    pub seed: u64,
    /// When to be done.
    pub deadline: Instant,
}

/// Reads, writes and copies in each of `tiers`, with one thread and with all. What the deadline or
/// a stop cuts short, or does not fit, is absent with a reason.
pub fn measure(
    windows: &Windows<'_>,
    arena: &mut Arena,
    tiers: &[MemoryTier],
    request: &Request<'_>,
) -> Vec<Bandwidth> {
    let _ = (windows, arena, tiers, request);
    Vec::new()
}

/// The time of a load in memory while the other processors read it, by more and more. With one
/// processor there is one point, whose figures say so.
pub fn loaded(
    windows: &Windows<'_>,
    arena: &mut Arena,
    tiers: &[MemoryTier],
    request: &Request<'_>,
) -> Vec<LoadedLatency> {
    let _ = (windows, arena, tiers, request);
    Vec::new()
}
