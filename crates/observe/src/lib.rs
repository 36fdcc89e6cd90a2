// SPDX-License-Identifier: MIT OR Apache-2.0
//! Observes a running program and the system around it over one window: where time and packets go.
//!
//! [`observe`] reads kernel and program counters at both ends of the window and at the end of each
//! slice, and returns the differences. Observing the user's own processes requires no privileges;
//! ptrace is never used, and no settings are changed. Whatever cannot be read is listed in
//! [`Observation::unread`]. Drawing conclusions is left to `explain`.

#![forbid(unsafe_code)]

mod adapters;
mod arrivals;
mod assemble;
mod budget;
mod command;
mod cpus;
mod descriptors;
mod duty;
mod ended;
mod error;
mod event_costs;
mod freezer;
mod hot;
mod interfaces;
mod kernel_config;
mod live;
pub mod machine_time;
mod memory;
mod mutex;
mod namespace;
mod outputs;
mod packets;
mod ports;
mod procfs;
pub mod profile;
mod profiling;
mod protocols;
mod quotas;
mod reader;
mod refusal;
mod resident;
pub mod sampler;
mod sleep;
mod sockets;
mod sparing;
mod target;
mod threads;
pub mod tracing;
#[cfg(test)]
mod tree;
mod watching;
mod window;
mod written;

pub use error::ObserveError;
pub use hot::hot_spots;
pub use live::Live;

use linerate_machine::Root;
use linerate_record::why::Observation;
use linerate_trial::Watch;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// What to observe and for how long.
#[derive(Clone, Debug)]
pub struct Request {
    /// What to observe.
    pub target: Target,
    /// Window length.
    pub window: Duration,
    /// Line rate that the program should reach, in bits per second; copied to the record.
    pub line_bits_per_s: Option<f64>,
}

/// What to observe.
#[derive(Clone, Debug)]
pub enum Target {
    /// These processes and their descendants.
    Pids(Vec<u32>),
    /// All processes with this name or executable name, and their descendants.
    Name(String),
    /// A command, started in its own process group. At the end of the window, it is terminated with
    /// SIGTERM, then SIGKILL, unless it has ended.
    Command(Vec<OsString>),
    /// No program: an interface in this network namespace, the CPUs, and socket drops.
    Interface(String),
}

/// Observes `request.target` for `request.window`, or until `watch` stops it or all processes have
/// ended. Readings taken until then are kept.
///
/// # Errors
/// Returns an error if there is nothing to observe, or if observing it is not permitted.
pub fn observe(request: &Request, watch: &Watch<'_>) -> Result<Observation, ObserveError> {
    window::observe(&Root::new(Path::new("/")), request, watch)
}
