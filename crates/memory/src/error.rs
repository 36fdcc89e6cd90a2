// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reasons why the memory hierarchy could not be measured.

use std::fmt;

/// A failure that prevents the whole measurement; its message names the failure, the offending
/// value and the remedy. A failure that affects only one part is recorded in the report instead.
#[derive(Clone, Debug, PartialEq)]
pub enum MemoryError {
    /// Too little memory for a meaningful measurement.
    TooLittle {
        /// Bytes that may be allocated.
        bytes: u64,
        /// Bytes needed.
        least: u64,
        /// The reason for the limit.
        reason: String,
    },
    /// An error from the kernel.
    System(linerate_linux::Error),
    /// A stop request came before the first result.
    Stopped,
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLittle { bytes, least, reason } => write!(
                f,
                "{bytes} bytes of memory are too little to measure with ({reason}); the minimum is \
                 {least}: allow more, or free some"
            ),
            Self::System(error) => error.fmt(f),
            Self::Stopped => f.write_str("stopped before anything was measured; run it again"),
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
