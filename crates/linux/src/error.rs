// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors from kernel requests.

use std::fmt;

/// A failed kernel request: what was requested, on which object, why it failed, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A system call returned an error.
    Call {
        /// Name of the system call.
        call: &'static str,
        /// Object of the call, such as a path or a number.
        value: String,
        /// The error number, as in errno(3).
        errno: i32,
        /// Suggested fix, appended to the error message.
        advice: &'static str,
    },
    /// There is no process with this ID.
    NoProcess {
        /// The process ID.
        pid: u32,
    },
    /// A kernel file is missing or lacks the expected contents.
    File {
        /// Path of the file.
        path: &'static str,
        /// Reason why it is unusable.
        reason: String,
        /// Suggested fix, appended to the error message.
        advice: &'static str,
    },
}

impl Error {
    /// Creates the error for the system call that just failed on this thread.
    pub(crate) fn last(call: &'static str, value: String, advice: &'static str) -> Self {
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        Self::Call { call, value, errno, advice }
    }
}

impl Error {
    /// Formats the failure and its reason without the advice, for callers that have better advice.
    pub fn without_advice(&self) -> String {
        match self {
            Self::Call { call, value, errno, .. } => {
                format!("{call}({value}): {}", meaning(*errno))
            }
            Self::NoProcess { pid } => format!("no process {pid}: it has ended, or never existed"),
            Self::File { path, reason, .. } => format!("{path}: {reason}"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let advice = match self {
            Self::Call { advice, .. } | Self::File { advice, .. } => *advice,
            Self::NoProcess { .. } => "`ps -e` lists the process IDs",
        };
        write!(f, "{}; {advice}", self.without_advice())
    }
}

impl std::error::Error for Error {}

/// Returns the description of an error number, such as `No such file or directory`.
pub fn meaning(errno: i32) -> String {
    without_numbers(&std::io::Error::from_raw_os_error(errno).to_string())
}

/// Removes the error numbers that the standard library appends to messages, such as ` (os error
/// 2)`. Users only need the message.
pub fn without_numbers(text: &str) -> String {
    const BEGIN: &str = " (os error ";
    let mut parts = text.split(BEGIN);
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        match part[digits..].strip_prefix(')') {
            Some(rest) if digits > 0 => kept += rest,
            _ => kept.extend([BEGIN, part]),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::{Error, meaning, without_numbers};

    #[test]
    fn an_error_number_is_its_meaning() {
        assert_eq!(meaning(libc::ENOENT), "No such file or directory");
        let twice = "a: No such file (os error 2); b: Denied (os error 13).";
        assert_eq!(without_numbers(twice), "a: No such file; b: Denied.");
        for kept in ["", "plain", "x (os error )", "x (os error 2", "x (os error two)"] {
            assert_eq!(without_numbers(kept), kept);
        }
    }

    #[test]
    fn says_call_value_reason_and_advice() {
        let error =
            Error::Call { call: "frob", value: "cpu 3".into(), errno: libc::EPERM, advice: "ask" };
        let text = error.to_string();
        assert!(text.starts_with("frob(cpu 3): Operation not permitted"), "{text}");
        assert!(text.ends_with("; ask"), "{text}");
    }
}
