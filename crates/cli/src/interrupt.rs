// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ending early, with what was measured until then.

use crate::failure::Failure;
use std::sync::atomic::AtomicBool;

/// Why a command that was interrupted ends with the status of a failure: what is printed is not all
/// that was asked for.
pub(crate) const INTERRUPTED: &str = "interrupted: the figures above end there";

/// A flag that Ctrl-C sets. A second Ctrl-C ends the program.
pub(crate) fn stop_on_interrupt() -> Result<&'static AtomicBool, Failure> {
    linerate_linux::signal::stop_flag()
        .map_err(|error| Failure::new(format!("cannot listen to signals: {error}")))
}
