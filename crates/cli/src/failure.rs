// SPDX-License-Identifier: MIT OR Apache-2.0
//! Command failures.

use linerate_linux::errno;
use std::fmt;

/// A message to print to stderr before exiting with status 2.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    /// Creates a failure. The message should name the operation, the value and a remedy. Removes
    /// OS error numbers from the message.
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self(errno::without_numbers(&message.to_string()))
    }
}

/// Returns `first`, or the error of `second` if only `second` failed. If both failed, the error
/// contains both messages.
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

/// Exit status for failures of linerate itself, in commands that otherwise exit with the status of
/// the program they run; the same value as for env(1).
pub(crate) const STATUS_AS_ENV: u8 = 125;
