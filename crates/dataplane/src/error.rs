// SPDX-License-Identifier: MIT OR Apache-2.0
//! Run errors.

use crate::stage::BuildError;
use linerate_linux as linux;
use linerate_record::run::RunReport;

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
    /// A stage panicked.
    Panicked {
        /// Name of the worker, as `segment.replica`.
        worker: String,
        /// Name of the stage that panicked, or of the worker's head or tail, such as `source`.
        stage: String,
        /// Position, in the sequence that the source offers, of the packet being processed; `None`
        /// if the stage was not processing a packet.
        packet: Option<u64>,
        /// Panic message.
        message: String,
        /// Profile of the run up to the panic.
        report: Box<RunReport>,
    },
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownKind(kind) => write!(f, "unknown stage kind '{kind}'"),
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
