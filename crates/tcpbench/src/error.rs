// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors that end a run without a result.

use std::fmt;

/// A failed run, with its context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is no item with this name. The message lists the valid names.
    Unknown {
        /// What kind of item the name should refer to: a routine set, a pattern, a mix.
        what: &'static str,
        /// The name as given.
        name: String,
        /// The valid names.
        known: Vec<String>,
    },
    /// A routine returned a wrong result.
    WrongRoutine {
        /// Name of the routine set.
        set: String,
        /// Description of the first difference from the specification.
        difference: String,
    },
    /// The stack does not support the request.
    Stack {
        /// Name of the stack.
        stack: String,
        /// What the stack does not support, in its own words.
        reason: String,
    },
    /// The run made no progress for too long.
    Stuck(Box<Stuck>),
    /// Received data differs from the data sent.
    Corrupt {
        /// Name of the stack, or both names if client and server differ.
        stacks: String,
        /// Name of the routine set.
        set: String,
        /// Position of the first wrong byte in the stream.
        byte: u64,
        /// The byte that was sent.
        expected: u8,
        /// The byte that was received.
        got: u8,
    },
    /// The connection ended although neither side had closed it.
    Lost {
        /// Name of the stack, or both names if client and server differ.
        stacks: String,
        /// Name of the traffic pattern.
        pattern: String,
        /// Name of the routine set.
        set: String,
        /// Number of payload bytes received before the connection ended.
        bytes: u64,
    },
}

/// A run that made no progress, and its state when it was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Name of the stack, or both names if client and server differ.
    pub stacks: String,
    /// Name of the traffic pattern.
    pub pattern: String,
    /// Name of the routine set.
    pub set: String,
    /// Duration without progress, in virtual seconds.
    pub seconds: u64,
    /// Number of loop iterations without progress.
    pub turns: u64,
    /// Number of payload bytes received before the run was stopped.
    pub bytes: u64,
    /// Number of frames that receivers dropped because of a bad checksum.
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
             a bad checksum; the last segment was {segment}. A routine that computes a wrong \
             result for this segment makes the sender retransmit it forever: run `make -C native \
             check`"
        )
    }
}

impl std::error::Error for Error {}
