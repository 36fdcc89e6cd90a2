// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of a run.

use crate::stage::BuildError;
use linerate_linux as linux;
use linerate_record::run::RunReport;

/// Reason why a run failed.
#[derive(Debug)]
pub enum RunError {
    /// The path names an unknown kind of stage.
    UnknownKind(String),
    /// A stage cannot be built.
    Stage {
        /// Index of the stage in the path.
        stage: usize,
        /// Description of the error.
        error: BuildError,
    },
    /// A system call failed.
    System(linux::Error),
    /// A stage panicked.
    Panicked {
        /// Name of the worker, as `segment.replica`.
        worker: String,
        /// Name of the part that panicked: a stage, or the worker's input or output, such as
        /// `source`.
        stage: String,
        /// Position of the packet in the source's sequence; `None` if the stage was not processing
        /// a packet when it panicked.
        packet: Option<u64>,
        /// Panic message of the stage.
        message: String,
        /// Profile of the run up to the panic.
        report: Box<RunReport>,
    },
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownKind(kind) => write!(f, "unknown kind of stage '{kind}'"),
            Self::Stage { stage, error } => write!(f, "stage {stage}: {error}"),
            Self::System(error) => error.fmt(f),
            Self::Panicked { worker, stage, packet, message, .. } => {
                write!(f, "stage '{stage}' on worker {worker} panicked")?;
                if let Some(packet) = packet {
                    write!(f, " at packet {packet}")?;
                }
                write!(f, ": {message}")
            }
        }
    }
}

impl std::error::Error for RunError {}
