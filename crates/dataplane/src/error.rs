// SPDX-License-Identifier: MIT OR Apache-2.0
//! Run errors.

use crate::stage::BuildError;
use linerate_linux as linux;
use linerate_record::run::{RunReport, StageFailure};

/// Error returned by a failed run.
#[derive(Debug)]
pub enum RunError {
    /// Unknown stage kind.
    UnknownKind(String),
    /// A stage cannot be built.
    Stage {
        /// Index of the stage in the path, 0-based.
        stage: usize,
        /// The parameter that is invalid, and the reason.
        error: BuildError,
    },
    /// A system call failed, for example while starting or pinning a thread.
    System(linux::Error),
    /// A stage panicked or crashed, or what it did to a packet was invalid.
    StageFailed {
        /// The stage and what it did.
        failure: StageFailure,
        /// Profile of the run up to the failure, which it contains.
        report: Box<RunReport>,
    },
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownKind(kind) => write!(f, "unknown stage kind '{kind}'"),
            Self::Stage { stage, error } => write!(f, "stage {stage}: {error}"),
            Self::System(error) => error.fmt(f),
            Self::StageFailed { failure, .. } => failure.fmt(f),
        }
    }
}

impl std::error::Error for RunError {}
