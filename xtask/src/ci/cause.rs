// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the cause of a step's failure in the output of its programs.

use crate::command::root;
use std::fs;
use std::path::Path;

/// Texts that mark lines with the cause of a failure.
const TELLTALES: &[&str] = &["FAILED", "error: ", "error[", "SUMMARY:", "*** [", "verdict=fail"];
/// Number of lines to show after each marked line.
const FOLLOWING: usize = 5;
/// Maximum number of lines to show from the log of a failed step as its probable cause.
const TELLING: usize = 80;
/// Number of lines at the end of the log that are always shown.
const LAST: usize = 15;

/// Returns the lines that probably show the cause: marked lines, and test programs' output about
/// failed tests.
fn telling<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let (mut follow, mut is_in_failures) = (0, false);
    let mut found = Vec::new();
    for line in lines {
        is_in_failures = *line == "failures:" || is_in_failures && !line.starts_with("test result");
        if TELLTALES.iter().any(|telltale| line.contains(telltale)) {
            follow = FOLLOWING + 1;
        }
        if is_in_failures || follow > 0 {
            found.push(*line);
        }
        follow = follow.saturating_sub(1);
    }
    found.truncate(TELLING);
    found
}

/// Returns the cause of a failure: what the step itself found, and what its log shows.
pub(super) fn cause(step: &str, found: &str, log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let (before, last) = lines.split_at(lines.len().saturating_sub(LAST));
    format!(
        "`{step}` failed (full log: {}):\n{found}\n{}\n...\n{}",
        log.strip_prefix(root()).unwrap_or(log).display(),
        telling(before).join("\n"),
        last.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::telling;

    #[test]
    fn finds_the_cause_in_a_log() {
        let log = "test a ... ok\ntest b ... FAILED\n1\n2\n3\n4\n5\n6\nsuccesses:\npanicked at x\n\
                   failures:\n---- b stdout ----\npanicked at y\ntest result: FAILED\n7";
        let lines: Vec<&str> = log.lines().collect();
        let expected = "test b ... FAILED\n1\n2\n3\n4\n5\nfailures:\n---- b stdout ----\n\
                        panicked at y\ntest result: FAILED\n7";
        assert_eq!(telling(&lines).join("\n"), expected);
        assert!(telling(&["test a ... ok", "panicked at x"]).is_empty());
    }
}
