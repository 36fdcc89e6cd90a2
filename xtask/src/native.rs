// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the C kernels with their own Makefile.
//!
//! The Makefile prints a line with `SKIP:` for each variant that this processor does not support
//! and for each missing tool. Each distinct line counts once per step.

use crate::command::{output, program, status_with_lines};
use crate::outcome::{Outcome, judge};

/// Returns whether a line reports a skipped part.
type IsSkip = fn(&str) -> bool;

/// Builds targets of `native/Makefile`, with warnings as errors.
pub(crate) fn make(targets: &[&str]) -> Outcome {
    make_with(targets, |line| line.contains("SKIP:"))
}

/// Checks the variants under Valgrind, which hides instruction set extensions that it does not
/// support.
pub(crate) fn valgrind() -> Outcome {
    make_with(&["check-valgrind"], |line| line.starts_with("SKIP:"))
}

fn make_with(targets: &[&str], is_skip: IsSkip) -> Outcome {
    if let Err(why) = output(program("make", &["--version"])) {
        return Outcome::Skipped(why);
    }
    // Builds in a separate directory, to leave a developer's build alone. When a file changes, all
    // its warnings are shown again.
    let args = ["--no-print-directory", "-C", "native", "BUILD=build/ci", "WERROR=-Werror"];
    let mut skips: Vec<String> = Vec::new();
    let status = status_with_lines(program("make", &[&args, targets].concat()), |line| {
        let line = line.trim();
        if is_skip(line) && !skips.iter().any(|known| known == line) {
            skips.push(line.to_owned());
        }
    });
    match judge(status) {
        Ok(()) => Outcome::Passed(skips),
        Err(why) => Outcome::Failed(why),
    }
}
