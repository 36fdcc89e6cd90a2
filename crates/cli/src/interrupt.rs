// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handles Ctrl-C without losing measurements.

use crate::failure::Failure;
use std::sync::atomic::AtomicBool;

/// Message printed when a command is interrupted. The command then exits with the failure status,
/// because its results are incomplete.
pub(crate) const INTERRUPTED: &str = "interrupted: the figures above are incomplete";

/// Returns a flag that Ctrl-C sets. A second Ctrl-C terminates the program.
pub(crate) fn stop_on_interrupt() -> Result<&'static AtomicBool, Failure> {
    linerate_linux::signal::stop_flag()
        .map_err(|error| Failure::new(format!("cannot install signal handlers: {error}")))
}
