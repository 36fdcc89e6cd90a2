// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a command could not do its work.

use std::fmt;

/// What to print on stderr before leaving with status 2.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    /// A failure in words: what failed, with which value, and what to do.
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self(message.to_string())
    }
}

/// What came of `first`, unless `second` failed as well: then both are named, so that the failure
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

/// The exit status of a command that could not do its work.
pub(crate) const STATUS_OF_FAILURE: u8 = 2;

/// The status of failure of a command that otherwise has that of a program it starts: as env(1).
pub(crate) const STATUS_AS_ENV: u8 = 125;
