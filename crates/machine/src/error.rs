// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors from queries and measurements of this machine.

use std::fmt;

/// Why a property of this machine could not be determined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A system call failed.
    System(linerate_linux::Error),
    /// A kernel file is missing or lacks the requested information.
    File {
        /// Path of the file.
        path: String,
        /// What is missing or invalid.
        reason: String,
    },
    /// The operation is not supported on this architecture.
    Unsupported {
        /// Name of the operation.
        what: &'static str,
        /// Name of the architecture.
        architecture: &'static str,
    },
    /// The list of CPUs is unsuitable for the query.
    Cpus {
        /// The CPUs in the list.
        cpus: Vec<u32>,
        /// Why the list is unsuitable.
        reason: &'static str,
    },
    /// The measurement was inconclusive.
    CannotTell {
        /// The quantity that was to be measured.
        what: &'static str,
        /// What prevented a conclusion.
        reason: String,
        /// What the user can do about it.
        advice: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(error) => error.fmt(f),
            Self::File { path, reason } => write!(f, "{path}: {reason}"),
            Self::Unsupported { what, architecture } => {
                write!(f, "{what}: not supported on {architecture}")
            }
            Self::Cpus { cpus, reason } => write!(f, "CPUs {cpus:?}: {reason}"),
            Self::CannotTell { what, reason, advice } => {
                write!(f, "cannot determine {what}: {reason}; {advice}")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            _ => None,
        }
    }
}

impl From<linerate_linux::Error> for Error {
    fn from(error: linerate_linux::Error) -> Self {
        Self::System(error)
    }
}
