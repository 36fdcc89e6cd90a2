// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors between this program and the kernel.

use std::fmt;

/// A request to the kernel that failed: which, about what, why, and what to do next.
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
    /// A file of the kernel is missing, or does not say what is wanted.
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
    /// What failed and why, without what to do next: for callers that know better.
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
