// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reasons why a run ended without a result.

use std::fmt;

/// The kind of failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Unknown name; the message lists the valid ones.
    Unknown {
        /// What the name should denote: a set of routines, a pattern, a mix.
        what: &'static str,
        /// The unknown name.
        name: String,
        /// Valid names.
        known: Vec<String>,
    },
    /// A routine produced a wrong result.
    WrongRoutine {
        /// The set.
        set: String,
        /// The first difference from the specification.
        difference: String,
    },
    /// The stack does not support the request; the message is its own.
    Stack {
        /// The stack.
        stack: String,
        /// Its message.
        reason: String,
    },
    /// No progress for a long time.
    Stuck(Box<Stuck>),
    /// The received data differ from the data sent.
    Corrupt {
        /// The stack or stacks.
        stacks: String,
        /// The set.
        set: String,
        /// Position of the byte in the stream.
        byte: u64,
        /// Sent value.
        expected: u8,
        /// Received value.
        got: u8,
    },
    /// The connection ended though neither side had closed it.
    Lost {
        /// The stack or stacks.
        stacks: String,
        /// The pattern.
        pattern: String,
        /// The set.
        set: String,
        /// Payload bytes that had arrived.
        bytes: u64,
    },
}

/// The point at which a run stalled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The stack or stacks.
    pub stacks: String,
    /// The pattern.
    pub pattern: String,
    /// The set.
    pub set: String,
    /// Virtual seconds without progress.
    pub seconds: u64,
    /// Loop iterations without progress.
    pub turns: u64,
    /// Payload bytes that had arrived.
    pub bytes: u64,
    /// Frames that the receivers dropped for a bad checksum.
    pub bad_checksums: u64,
    /// Description of the last segment on the wire.
    pub segment: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { what, name, known } => {
                write!(f, "unknown {what} `{name}`; choose from {}", known.join(", "))
            }
            Self::WrongRoutine { set, difference } => write!(
                f,
                "set `{set}` computes wrong results: {difference}; leave it out, and run `make -C \
                 native check`"
            ),
            Self::Stack { stack, reason } => write!(f, "{stack}: {reason}"),
            Self::Stuck(stuck) => stuck.fmt(f),
            Self::Corrupt { stacks, set, byte, expected, got } => write!(
                f,
                "{stacks} with set `{set}`: byte {byte} of the stream arrived as {got:#04x}, \
                 expected {expected:#04x}"
            ),
            Self::Lost { stacks, pattern, set, bytes } => write!(
                f,
                "{stacks}, pattern {pattern}, set `{set}`: the connection ended unexpectedly after \
                 {bytes} bytes"
            ),
        }
    }
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stacks, pattern, set, seconds, turns, bytes, bad_checksums, segment } = self;
        write!(
            f,
            "{stacks}, pattern {pattern}, set `{set}`: no progress for {seconds} virtual seconds \
             and {turns} iterations after {bytes} bytes; {bad_checksums} segments were dropped for \
             a bad checksum; the last segment was {segment}. A routine with a wrong result for \
             this segment makes its sender retransmit it forever: run `make -C native check`"
        )
    }
}

impl std::error::Error for Error {}
