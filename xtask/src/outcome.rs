// SPDX-License-Identifier: MIT OR Apache-2.0
//! Result of a check.

/// Result of a step.
pub(crate) enum Outcome {
    /// Passed, with the reasons why individual tests were skipped.
    Passed(Vec<String>),
    Failed(String),
    Skipped(String),
}

impl From<Result<(), String>> for Outcome {
    fn from(result: Result<(), String>) -> Self {
        match result {
            Ok(()) => Self::Passed(Vec::new()),
            Err(reason) => Self::Failed(reason),
        }
    }
}

/// Treats an exit status other than 0 as a failure.
pub(crate) fn judge(status: Result<i32, String>) -> Result<(), String> {
    match status? {
        0 => Ok(()),
        code => Err(format!("exit status {code}")),
    }
}
