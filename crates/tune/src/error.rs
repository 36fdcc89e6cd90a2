// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reasons why a path could not be tuned.

use crate::assign::AssignError;
use linerate_dataplane::RunError;
use linerate_plan::costs::CostsError;
use std::fmt;
use std::io;

/// Reason why a path could not be tuned.
#[derive(Debug)]
pub enum TuneError {
    /// The stage kinds `parse` and `verify`, which the background load of calibration runs needs,
    /// are not available; contains the checker's message.
    NoPacketWork(String),
    /// The workers cannot be assigned to the available CPUs.
    Assign(AssignError),
    /// A run failed.
    Run(RunError),
    /// A thread for the background load of a calibration run could not be started.
    NoThread(io::Error),
    /// The background load of a calibration run panicked.
    LoadPanicked,
    /// The costs of the stages could not be determined from the calibration run.
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
                "cannot start a thread for the background load of a calibration run: {error}; \
                 raise the process limit (ulimit -u, or the container's)"
            ),
            Self::LoadPanicked => f.write_str("the background load of a calibration run panicked"),
            Self::Costs(error) => write!(f, "cannot determine the costs of the stages: {error}"),
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
