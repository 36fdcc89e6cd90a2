// SPDX-License-Identifier: MIT OR Apache-2.0
//! All of it, in order, within a budget of time.
//!
//! Each part gets a [`Bench`] and the moment to be done by, and leaves out what it has no time for:
//!
//! ```text
//! translation::measure(&Bench, deadline) -> (Vec<TlbLevel>, Pages)
//! single::timer(&Bench) -> Timer
//! single::measure(&Bench, &mut Arena, &[MemoryTier], deadline) -> Vec<Histogram>
//! noise::measure(&Bench, deadline) -> Noise
//! events::measure(&Bench, &mut Arena, sizes: &[u64], deadline) -> Result<Vec<EventsOfSize>, String>
//! parallel::measure(&Bench, &mut Arena, &[MemoryTier], deadline) -> Vec<Parallelism>
//! bandwidth::measure(&Bench, &mut Arena, &[MemoryTier], deadline) -> Vec<Bandwidth>
//! bandwidth::loaded(&Bench, &mut Arena, deadline) -> Vec<LoadedLatency>
//! ```

use crate::MemoryError;
use crate::limits::Limit;
use crate::window::Windows;
use linerate_record::memory::{Effort, MemoryReport, PageKind};
use std::sync::atomic::AtomicBool;

/// What every part of the measurement gets.
pub struct Bench<'a> {
    /// Measures in windows; knows whether to stop.
    pub windows: Windows<'a>,
    /// How long the whole is to take.
    pub effort: Effort,
    /// The processor this thread is pinned to.
    pub cpu: u32,
    /// All processors that it might have had, ascending.
    pub cpus: Vec<u32>,
    /// Octets of a cache line.
    pub line: usize,
    /// Octets of a small page.
    pub page: usize,
    /// Octets of a huge page; `None` where there are none.
    pub huge: Option<usize>,
    /// How much memory may be taken, all arenas of a moment together.
    pub limit: Limit,
    /// GHz of the core; `None` where nothing tells.
    pub core_ghz: Option<f64>,
    /// Of everything random.
    pub seed: u64,
}

/// What to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// How long.
    pub effort: Effort,
    /// The processor to measure on; `None` for the one this runs on.
    pub cpu: Option<u32>,
    /// The most octets to take; `None` for what the effort and the machine ask for.
    pub max_bytes: Option<u64>,
    /// The pages to measure on; `None` for huge ones where there are any.
    pub pages: Option<PageKind>,
    /// Of everything random.
    pub seed: u64,
}

/// Who watches.
pub struct Watch<'a> {
    /// Set to stop: what was measured until then stands.
    pub stop: &'a AtomicBool,
    /// Told what is measured now, and the share of the whole that is done, 0 to 1.
    pub progress: &'a dyn Fn(&str, f64),
}

/// Measures the memory hierarchy as the calling thread meets it, which is left pinned to the
/// processor measured on. Takes about as long as `request.effort` says.
///
/// # Errors
/// There is too little memory, the processor is not to be had, or it was stopped before the first
/// curve was there.
pub fn measure(request: &Request, watch: &Watch<'_>) -> Result<MemoryReport, MemoryError> {
    let _ = (request, watch);
    Err(MemoryError::Stopped)
}
