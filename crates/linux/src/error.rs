// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors from requests to the kernel.

use std::fmt;

/// A failed request to the kernel: what was requested, on which object, why it failed, and how to
/// fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A system call returned an error.
    Call {
        /// The system call.
        call: &'static str,
        /// The object of the call.
        value: String,
        /// The error number, as in errno(3).
        errno: i32,
        /// The fix.
        advice: &'static str,
    },
    /// A kernel file is missing or lacks the expected contents.
    File {
        /// The file.
        path: &'static str,
        /// The error.
        reason: String,
        /// The fix.
        advice: &'static str,
    },
}

impl Error {
    /// The error of the system call that has just failed on this thread.
    pub(crate) fn last(call: &'static str, value: String, advice: &'static str) -> Self {
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        Self::Call { call, value, errno, advice }
    }
}

impl Error {
    /// The failure and its reason without the advice, for callers with better advice.
    pub fn without_advice(&self) -> String {
        match self {
            Self::Call { call, value, errno, .. } => {
                format!("{call}({value}): {}", std::io::Error::from_raw_os_error(*errno))
            }
            Self::File { path, reason, .. } => format!("{path}: {reason}"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call { advice, .. } | Self::File { advice, .. } => {
                write!(f, "{}; {advice}", self.without_advice())
            }
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::Error;

    #[test]
    fn says_call_value_reason_and_advice() {
        let error =
            Error::Call { call: "frob", value: "cpu 3".into(), errno: libc::EPERM, advice: "ask" };
        let text = error.to_string();
        assert!(text.starts_with("frob(cpu 3): Operation not permitted"), "{text}");
        assert!(text.ends_with("; ask"), "{text}");
    }
}
