// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time and packets of a running program, and of the system around it, over one window.
//!
//! [`observe`] reads counters of the kernel and of the program at both ends of the window and at
//! the ends of its slices, and returns their differences. It needs no privilege for the user's own
//! processes, never attaches with ptrace, and changes no setting. What cannot be read becomes an
//! entry of [`Observation::unread`]; the rest is kept. Left out: any judgement (see `explain`).

#![forbid(unsafe_code)]

mod adapters;
mod arrivals;
mod assemble;
mod budget;
mod command;
mod cpus;
mod error;
mod interfaces;
mod namespace;
mod packets;
mod procfs;
pub mod profile;
mod profiling;
mod quotas;
mod reader;
mod refusal;
pub mod sampler;
mod sleep;
mod sockets;
mod target;
mod threads;
pub mod tracing;
mod watching;
mod window;

pub use error::ObserveError;

use linerate_machine::Root;
use linerate_record::why::Observation;
use linerate_trial::Watch;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// Target and duration of an observation.
#[derive(Clone, Debug)]
pub struct Request {
    /// Target of an observation.
    pub target: Target,
    /// Length of the window.
    pub window: Duration,
    /// Line rate that the program should reach, bits per second; quoted in the record.
    pub line_bits_per_s: Option<f64>,
}

/// Target of an observation.
#[derive(Clone, Debug)]
pub enum Target {
    /// These processes, with their descendants.
    Pids(Vec<u32>),
    /// All processes with this name or executable name, with their descendants.
    Name(String),
    /// A command started here in its own process group. It is terminated at the end of the window
    /// with SIGTERM, then SIGKILL, unless it has already ended.
    Command(Vec<OsString>),
    /// No program: an interface in this network namespace, the CPUs, and socket losses.
    Interface(String),
}

/// Watches `request.target` for `request.window`, or until `watch` stops it or all of its processes
/// have ended; readings taken until then are kept.
///
/// # Errors
/// There is nothing to watch, or it may not be watched.
pub fn observe(request: &Request, watch: &Watch<'_>) -> Result<Observation, ObserveError> {
    window::observe(&Root::new(Path::new("/")), request, watch)
}
