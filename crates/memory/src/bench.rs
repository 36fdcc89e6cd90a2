// SPDX-License-Identifier: MIT OR Apache-2.0
//! Context of every part of the measurement: the CPU, the memory limit, and the measurement
//! windows. `measure` orders the parts.

use crate::window::Windows;
use linerate_machine::free_memory::Limit;
use linerate_record::memory::Effort;

/// The context of a measurement: its CPU, its memory limit, its observer.
pub struct Bench<'a> {
    /// Measures in windows, and checks for stop requests.
    pub windows: Windows<'a>,
    /// Time limit of the whole measurement.
    pub effort: Effort,
    /// The CPU this thread is pinned to.
    pub cpu: u32,
    /// All CPUs that this thread could have been pinned to, ascending.
    pub cpus: Vec<u32>,
    /// Cache line size in bytes.
    pub line: usize,
    /// Small page size in bytes.
    pub page: usize,
    /// Huge page size in bytes; `None` if there are none.
    pub huge: Option<usize>,
    /// Memory limit for all arenas that exist at the same time.
    pub limit: Limit,
    /// Core clock in GHz; `None` if it cannot be measured.
    pub core_ghz: Option<f64>,
    /// Seed for all random choices.
    pub seed: u64,
}

#[cfg(test)]
impl<'a> Bench<'a> {
    /// Creates a context for a measurement of at most a second, with a memory limit of this many
    /// bytes.
    pub(crate) fn small(watch: &'a crate::Watch<'a>, bytes: u64) -> Self {
        Self {
            windows: Windows::new(watch, std::time::Duration::from_secs(1)),
            effort: Effort::Quick,
            cpu: 0,
            cpus: vec![0],
            line: 64,
            page: linerate_linux::page_bytes(),
            huge: None,
            limit: Limit { bytes, reason: String::new() },
            core_ghz: None,
            seed: 1,
        }
    }
}
