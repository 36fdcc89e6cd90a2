// SPDX-License-Identifier: MIT OR Apache-2.0
//! Context of every part of the measurement: the CPU, the memory limit, and the measurement
//! windows. `measure` orders the parts.

use crate::window::Windows;
use linerate_machine::free_memory::Limit;
use linerate_record::memory::Effort;

/// A measurement: its CPU, its memory limit, its observer.
pub struct Bench<'a> {
    /// Measures in windows, and knows about stop requests.
    pub windows: Windows<'a>,
    /// Time limit of the whole measurement.
    pub effort: Effort,
    /// The CPU this thread is pinned to.
    pub cpu: u32,
    /// All CPUs it could have been pinned to, ascending.
    pub cpus: Vec<u32>,
    /// Bytes of a cache line.
    pub line: usize,
    /// Bytes of a small page.
    pub page: usize,
    /// Bytes of a huge page; `None` if there are none.
    pub huge: Option<usize>,
    /// Memory limit for all arenas that exist at the same time.
    pub limit: Limit,
    /// GHz of the core; `None` if it cannot be measured.
    pub core_ghz: Option<f64>,
    /// Seed of everything random.
    pub seed: u64,
}

#[cfg(test)]
impl<'a> Bench<'a> {
    /// For at most a second, in this many bytes.
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
