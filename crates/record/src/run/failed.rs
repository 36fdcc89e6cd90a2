// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stage that failed and so ended a run.

use serde::{Deserialize, Serialize};

/// How a stage failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// A signal such as SIGSEGV, in a stage from a shared object.
    Crash,
    /// An invalid verdict or change to a packet, by a stage from a shared object.
    Invalid,
    /// A panic, in a stage in Rust.
    Panic,
    /// A kind unknown to this version, from a record written by a newer one.
    #[serde(other)]
    Unknown,
}

impl FailureKind {
    /// Returns what the stage did: `crashed`.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Crash => "crashed",
            Self::Panic => "panicked",
            Self::Invalid | Self::Unknown => "failed",
        }
    }
}

/// The failure of a stage, which ended the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageFailure {
    /// How the stage failed.
    pub kind: FailureKind,
    /// Name of the worker, as `segment.replica`.
    pub worker: String,
    /// Name of the stage, or of the worker's head or tail, such as `source`.
    pub stage: String,
    /// Position, in the sequence that the source offers, of the packet being processed; `null` if
    /// the stage was not processing a packet.
    pub packet: Option<u64>,
    /// Signal and address of a crash, panic message, or what was invalid.
    pub message: String,
}

impl std::fmt::Display for StageFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, worker, stage, packet, message } = self;
        write!(f, "stage `{stage}` on worker {worker} {}", kind.verb())?;
        if let Some(packet) = packet {
            write!(f, " at packet {packet}")?;
        }
        write!(f, ": {message}")
    }
}
