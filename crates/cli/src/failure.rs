// SPDX-License-Identifier: MIT OR Apache-2.0
//! Failure of a command.

use std::fmt;

/// Message to print to stderr before exiting with status 2.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    /// Creates a failure. The message names the operation, the value and a remedy.
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self(message.to_string())
    }
}

/// Returns `first`, or the error of `second` if only `second` failed. If both failed, the error
/// names both, so that one failure does not hide the other.
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

/// Exit status on failure of commands that, like env(1), otherwise exit with the status of the
/// program they run.
pub(crate) const STATUS_AS_ENV: u8 = 125;
