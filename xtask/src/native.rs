// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C kernels, checked by their own Makefile.
//!
//! A variant that this processor cannot run, and a missing tool, print a line with `SKIP:`; each
//! such line is counted once per step.

use crate::command::{output, program, status_with_lines};
use crate::outcome::{Outcome, judge};

/// Returns whether a line reports a skipped part.
type IsSkip = fn(&str) -> bool;

/// Makes targets of `native/Makefile`, with warnings as errors.
pub(crate) fn make(targets: &[&str]) -> Outcome {
    make_with(targets, |line| line.contains("SKIP:"))
}

/// Checks the variants under Valgrind, which hides the instruction set extensions that it does not
/// know.
pub(crate) fn valgrind() -> Outcome {
    make_with(&["check-valgrind"], |line| line.starts_with("SKIP:"))
}

fn make_with(targets: &[&str], is_skip: IsSkip) -> Outcome {
    if let Err(why) = output(program("make", &["--version"])) {
        return Outcome::Skipped(why);
    }
    // Separate from a developer's build; every warning is shown again when a file changes.
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
