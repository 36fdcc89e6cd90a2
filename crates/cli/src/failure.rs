// SPDX-License-Identifier: MIT OR Apache-2.0
//! Failure of a command.

use std::fmt;

/// Message for stderr before exiting with status 2.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    /// Failure with a message that names the operation, the value and a remedy.
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self(message.to_string())
    }
}

/// Returns `first`, unless `second` failed as well: then the error names both, so that the failure
/// of one output does not hide that of the other.
pub(crate) fn also<T>(
    first: Result<T, Failure>,
    second: Result<(), Failure>,
) -> Result<T, Failure> {
    match (first, second) {
        (Err(first), Err(second)) => Err(Failure::new(format!("{first}; and {second}"))),
        (Ok(_), Err(failure)) | (Err(failure), Ok(())) => Err(failure),
        (Ok(done), Ok(())) => Ok(done),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Exit status of a failed command.
pub(crate) const STATUS_OF_FAILURE: u8 = 2;

/// Exit status on failure for commands that otherwise exit with their program's status, as env(1)
/// does.
pub(crate) const STATUS_AS_ENV: u8 = 125;
