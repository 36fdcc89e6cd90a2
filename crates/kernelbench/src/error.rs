// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors that prevent a measurement.

use std::fmt;

/// Why nothing was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The variant does not exist, or this CPU does not support it. The message lists the supported
    /// variants.
    Variant(String),
    /// The thread could not be pinned to the CPU.
    Pin(linerate_linux::Error),
    /// The requested sizes, kernels and states have no case in common.
    NothingToDo,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variant(words) => f.write_str(words),
            Self::Pin(error) => error.fmt(f),
            Self::NothingToDo => f.write_str(
                "no case matches all of these sizes, kernels and states: remove some \
                             of them",
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Pin(error) => Some(error),
            Self::Variant(_) | Self::NothingToDo => None,
        }
    }
}
