// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of writing and reading records.

use super::{MAJOR, MINOR};
use std::fmt;

/// Error returned when a record cannot be written because a required number is infinite or NaN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteError {
    /// Path of the field: `workers[0].stages[2].kpps`.
    pub field: String,
    /// Description of the problem.
    pub message: String,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, message } = self;
        write!(f, "the record cannot be written: `{field}`: {message}; please report this")
    }
}

impl std::error::Error for WriteError {}

/// Error returned when text cannot be parsed as a record. Lines and columns are 1-based.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The text ends within a record.
    Truncated {
        /// Line on which the text ends.
        line: usize,
        /// Column at which the text ends.
        column: usize,
    },
    /// The text is not JSON.
    Syntax {
        /// Line of the error.
        line: usize,
        /// Column of the error.
        column: usize,
        /// Description of the problem.
        message: String,
    },
    /// The text is JSON, but not a record.
    NotARecord {
        /// What the text contains instead of a record.
        found: String,
    },
    /// Unsupported major version.
    OtherVersion {
        /// Version of the record.
        version: String,
    },
    /// A record of the previous major version cannot be upgraded: a field is missing or has the
    /// wrong type.
    NotUpgraded {
        /// Version of the record.
        version: String,
        /// Path of the invalid field or, if a field is missing, of the object that lacks it; `.` is
        /// the record itself.
        field: String,
        /// Description of the problem.
        message: String,
    },
    /// Record kind unknown to this version.
    UnknownKind {
        /// Kind of the record.
        kind: String,
    },
    /// A field is missing or has the wrong type.
    Field {
        /// Path of the invalid field or, if a field is missing, of the object that lacks it; `.` is
        /// the record itself.
        field: String,
        /// Description of the problem.
        message: String,
        /// Line of the error.
        line: usize,
        /// Column of the error.
        column: usize,
    },
    /// A value unknown to this version's enumerations, in a record supposedly written by this
    /// version or an earlier one.
    UnknownValue {
        /// Path of the field: `findings[0].cause`.
        field: String,
        /// The value, as JSON.
        value: String,
    },
    /// `figures`, `summary` or `warnings` contradict the rest of the record.
    Changed {
        /// Path of the first field that differs: `summary.throughput_kpps`.
        field: String,
    },
}

impl ReadError {
    pub(super) fn syntax(error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        if error.is_eof() {
            return Self::Truncated { line, column };
        }
        Self::Syntax { line, column, message: without_position(error) }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { line, column } => write!(
                f,
                "the record is truncated at line {line}, column {column}; copy it again, or \
                 recreate it with --record"
            ),
            Self::Syntax { line, column, message } => {
                write!(f, "line {line}, column {column}: not JSON: {message}")
            }
            Self::NotARecord { found } => {
                write!(f, "not a linerate record: {found}; create one with --record FILE")
            }
            Self::OtherVersion { version } => write!(
                f,
                "the record has version {version}, but this linerate reads {MAJOR}.x and 1.x; read \
                 it with the version named in its `provenance.program`"
            ),
            Self::NotUpgraded { version, field, message } => write!(
                f,
                "the record has version {version} and cannot be converted to {MAJOR}.{MINOR}: \
                 `{field}`: {message}; measure again, or read it with the version named in its \
                 `provenance.program`"
            ),
            Self::UnknownKind { kind } => {
                write!(f, "unknown record kind `{kind}`; a newer linerate may support it")
            }
            Self::Field { field, message, line, column } => {
                write!(f, "line {line}, column {column}: `{field}`: {message}")
            }
            Self::UnknownValue { field, value } => write!(
                f,
                "`{field}` is {value}, which does not exist in version {MAJOR}.{MINOR} of the \
                 format; use the original record, or measure again"
            ),
            Self::Changed { field } => write!(
                f,
                "`{field}` contradicts the rest of the record, so the record must have been \
                 edited; use the original record, or measure again"
            ),
        }
    }
}

impl std::error::Error for ReadError {}

/// Returns the message of `error` without the trailing position.
pub(super) fn without_position(error: &serde_json::Error) -> String {
    let message = error.to_string();
    match message.rfind(" at line ") {
        Some(end) => message[..end].to_owned(),
        None => message,
    }
}
