// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reasons why a fact about this machine is unknown.

use std::fmt;

/// The reason why something could not be determined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A system call failed.
    System(linerate_linux::Error),
    /// A kernel file is missing, or does not contain the requested information.
    File {
        /// The file.
        path: String,
        /// The error.
        reason: String,
    },
    /// The operation is not supported on this kind of processor.
    Unsupported {
        /// The operation.
        what: &'static str,
        /// The kind of processor.
        architecture: &'static str,
    },
    /// The list of CPUs is not suitable for the query.
    Cpus {
        /// The requested CPUs.
        cpus: Vec<u32>,
        /// What is wrong with the list.
        reason: &'static str,
    },
    /// The measurement was inconclusive.
    CannotTell {
        /// The question.
        what: &'static str,
        /// The reason.
        reason: String,
        /// The fix.
        advice: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(error) => error.fmt(f),
            Self::File { path, reason } => write!(f, "{path}: {reason}; continue without it"),
            Self::Unsupported { what, architecture } => {
                write!(f, "{what}: not supported on {architecture}; continue without it")
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
