// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors that prevent tuning a path.

use crate::assign::AssignError;
use linerate_dataplane::RunError;
use linerate_plan::costs::CostsError;
use std::fmt;
use std::io;

/// Error returned when a tuning session fails or is incomplete.
#[derive(Debug)]
pub enum TuneError {
    /// The stage kinds `parse` and `verify`, required for the background load of calibration runs,
    /// are missing; holds the checker's message.
    NoPacketWork(String),
    /// Workers cannot be assigned to the available CPUs.
    Assign(AssignError),
    /// A run of the path failed, for example because a stage panicked.
    Run(RunError),
    /// The thread for a calibration run's background load could not be started.
    NoThread(io::Error),
    /// A calibration run's background load panicked.
    LoadPanicked,
    /// The calibration run did not yield stage costs.
    Costs(CostsError),
}

impl fmt::Display for TuneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPacketWork(problems) => {
                write!(f, "the background load needs the stages `parse` and `verify`: {problems}")
            }
            Self::Assign(error) => error.fmt(f),
            Self::Run(error) => error.fmt(f),
            Self::NoThread(error) => write!(
                f,
                "cannot start a background load thread for a calibration run: {error}; raise the \
                 process limit (ulimit -u or the container's limit)"
            ),
            Self::LoadPanicked => f.write_str("the background load of a calibration run panicked"),
            Self::Costs(error) => write!(f, "cannot determine stage costs: {error}"),
        }
    }
}

impl std::error::Error for TuneError {}

impl From<AssignError> for TuneError {
    fn from(error: AssignError) -> Self {
        Self::Assign(error)
    }
}

impl From<RunError> for TuneError {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}
