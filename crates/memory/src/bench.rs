// SPDX-License-Identifier: MIT OR Apache-2.0
//! Context shared by all parts of the measurement: CPU, memory limit, and windows. `measure`
//! determines the order of the parts.

use crate::window::Windows;
use linerate_machine::free_memory::Limit;
use linerate_record::memory::Effort;

/// Measurement context: CPU, memory limit, and windows.
pub struct Bench<'a> {
    /// Runs the measurement windows and checks for stop requests.
    pub windows: Windows<'a>,
    /// Overall time budget.
    pub effort: Effort,
    /// CPU that this thread is pinned to.
    pub cpu: u32,
    /// All CPUs that this thread could have been pinned to, ascending.
    pub cpus: Vec<u32>,
    /// Cache line size in bytes.
    pub line: usize,
    /// Small page size in bytes.
    pub page: usize,
    /// Huge page size in bytes; `None` if unsupported.
    pub huge: Option<usize>,
    /// Limit on the total size of simultaneously allocated arenas.
    pub limit: Limit,
    /// Core clock in GHz; `None` if it cannot be measured.
    pub core_ghz: Option<f64>,
    /// Random seed.
    pub seed: u64,
}

#[cfg(test)]
impl<'a> Bench<'a> {
    /// Creates a context for a measurement of at most a second, limited to `bytes` bytes of memory.
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
