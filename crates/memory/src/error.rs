// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors that prevent measuring the memory hierarchy.

use std::fmt;

/// An error that prevents the whole measurement. The message states the failure, the offending
/// value and the remedy. Failures that affect only one part are recorded in the report instead.
#[derive(Clone, Debug, PartialEq)]
pub enum MemoryError {
    /// Not enough memory for a meaningful measurement.
    TooLittle {
        /// Bytes available for allocation.
        bytes: u64,
        /// Minimum bytes required.
        least: u64,
        /// Reason for the limit.
        reason: String,
    },
    /// An error from the kernel.
    System(linerate_linux::Error),
    /// Stopped before the first result.
    Stopped,
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLittle { bytes, least, reason } => write!(
                f,
                "{bytes} bytes of memory are not enough to measure ({reason}); the minimum is \
                 {least}: allow more memory, or free some"
            ),
            Self::System(error) => error.fmt(f),
            Self::Stopped => f.write_str("stopped before anything was measured; measure again"),
        }
    }
}

impl std::error::Error for MemoryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            _ => None,
        }
    }
}

impl From<linerate_linux::Error> for MemoryError {
    fn from(error: linerate_linux::Error) -> Self {
        Self::System(error)
    }
}
