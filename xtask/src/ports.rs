// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the ports to lwIP and DPDK, the network stacks that run on this machine. The lab covers
//! the Linux port.
//!
//! A port that lacks a requirement is skipped; an example that prints no result counts as failed.

use crate::command::{output, program, status_with_lines};
use crate::fetch;
use crate::outcome::{Outcome, judge};

const PORTS: [&str; 2] = ["lwip", "dpdk"];

/// Builds the examples and runs them.
pub(crate) fn check() -> Outcome {
    if let Err(why) = output(program("make", &["--version"])) {
        return Outcome::Skipped(why);
    }
    let mut skips = Vec::new();
    if let Err(why) = fetch::lwip_if_absent() {
        skips.push(format!("SKIP: lwIP could not be fetched: {why}"));
    }
    for port in PORTS {
        match check_one(port) {
            // The skip line for lwIP already says, in more detail, why it is missing.
            Ok(Some(_)) if port == "lwip" && !skips.is_empty() => {}
            Ok(skip) => skips.extend(skip),
            Err(why) => return Outcome::Failed(why),
        }
    }
    Outcome::Passed(skips)
}

/// Runs one example. If it could not run, returns the line that says why.
fn check_one(port: &str) -> Result<Option<String>, String> {
    let arguments = ["--no-print-directory", "-C", "native/ports", port];
    // Builds in a separate directory, so that a developer's build is left alone, and with warnings
    // as errors.
    let settings = ["BUILD=../build/ci-ports", "WERROR=-Werror"];
    let mut lines = Vec::new();
    let make = program("make", &[&arguments[..], &settings].concat());
    judge(status_with_lines(make, |line| lines.push(line.to_owned())))
        .map_err(|why| format!("{port}: {why}"))?;
    verdict(port, &lines)
}

/// Evaluates an example's result lines. Returns the reason if the example did not run; `None` if it
/// passed.
fn verdict(port: &str, lines: &[String]) -> Result<Option<String>, String> {
    let passed = format!("RESULT PASS {port}:");
    if lines.iter().any(|line| line.starts_with(&passed)) {
        return Ok(None);
    }
    let skip = lines.iter().find(|line| line.starts_with("SKIP:"));
    skip.cloned().map(Some).ok_or_else(|| format!("{port}: no line begins with `{passed}`"))
}

#[cfg(test)]
mod tests {
    use super::verdict;

    #[test]
    fn silence_is_a_failure() {
        let verdict = |lines: &[&str]| {
            let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            verdict("dpdk", &lines)
        };
        assert_eq!(verdict(&["cc", "RESULT PASS dpdk: 7 of 7 agree"]), Ok(None));
        assert_eq!(verdict(&["SKIP: no DPDK"]), Ok(Some("SKIP: no DPDK".to_owned())));
        let lines: [&[&str]; 3] =
            [&[], &["RESULT FAIL dpdk: 6 of 7 agree"], &["RESULT PASS lwip:"]];
        for lines in lines {
            assert!(verdict(lines).is_err(), "{lines:?}");
        }
    }
}
