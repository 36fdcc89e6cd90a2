// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reasons why nothing was measured.

use std::fmt;

/// The failed operation and the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A variant does not exist or cannot run here; the message lists those that can.
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
