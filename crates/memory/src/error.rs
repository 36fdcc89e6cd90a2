// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why the memory hierarchy could not be measured at all.

use std::fmt;

/// What failed, with which value, and what to do next. Failures that only leave a part out are in
/// the report instead.
#[derive(Clone, Debug, PartialEq)]
pub enum MemoryError {
    /// Too little memory for a meaningful measurement.
    TooLittle {
        /// Bytes that may be taken.
        bytes: u64,
        /// Bytes that are needed.
        least: u64,
        /// Why it is not more.
        reason: String,
    },
    /// The kernel refused.
    System(linerate_linux::Error),
    /// It was stopped before anything was measured.
    Stopped,
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLittle { bytes, least, reason } => write!(
                f,
                "{bytes} bytes of memory are too little to measure in ({reason}); {least} are the \
                 least: allow more, or free some"
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
