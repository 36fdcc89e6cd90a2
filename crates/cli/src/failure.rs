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

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
