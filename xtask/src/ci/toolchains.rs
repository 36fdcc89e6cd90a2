// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps that use a compiler other than the current one.

use super::expect_success;
use crate::command::{cargo_of, output, program, root, status_with_lines};
use crate::lab;
use crate::outcome::{Outcome, judge};
use std::process::Command;

/// Returns the installed toolchain that rustup resolves `name` to; never downloads one. The error
/// names the command that installs it.
fn toolchain(name: &str) -> Result<String, String> {
    let list = output(program("rustup", &["toolchain", "list"]))?;
    let list = String::from_utf8_lossy(&list);
    list.lines()
        .filter_map(|line| line.split_whitespace().next())
        .find(|installed| installed.starts_with(name))
        .map(str::to_owned)
        .ok_or_else(|| {
            format!("rustup has no {name} toolchain; try: rustup toolchain install {name}")
        })
}

pub(super) fn oldest_compiler(version: &str, packages: &[&str]) -> Outcome {
    match toolchain(version) {
        Ok(toolchain) => {
            // The base crates must build with an older compiler than the manifest requires.
            let args = [&["check", "--locked", "--ignore-rust-version"], packages].concat();
            expect_success(cargo_of(&toolchain, &args))
        }
        Err(why) => Outcome::Skipped(why),
    }
}

/// Builds the crates needed by guest programs with the compiler that builds those programs.
pub(super) fn oldest_compiler_of_base_crates() -> Outcome {
    let packages = [
        ["-p", "linerate-record"],
        ["-p", "linerate-linux"],
        ["-p", "linerate-machine"],
        ["-p", "linerate-trial"],
        ["-p", "linerate-counters"],
        ["-p", "linerate-doctor"],
        ["-p", "linerate-stat"],
        ["-p", "linerate-regions"],
        ["-p", "linerate-hierarchy"],
        ["-p", "linerate-memory"],
        ["-p", "linerate-caches"],
    ];
    match lab::compiler::installed() {
        Some(compiler) => {
            let args = [&["check", "--locked"], packages.as_flattened()].concat();
            expect_success(lab::compiler::cargo_with(&compiler, &args))
        }
        None => oldest_compiler("1.85", packages.as_flattened()),
    }
}

/// Selects the tests of the ring, the only structure that two threads share without locks.
const RING_TESTS: &[&str] = &["-p", "linerate-dataplane", "--lib", "ring::"];

/// Runs the ring tests. Running none is a failure, because the filter may no longer match the
/// module.
fn run_ring_tests(command: Command) -> Outcome {
    let mut ran = 0;
    let status = status_with_lines(command, |line| {
        ran += usize::from(line.starts_with("test ring::") && line.ends_with(" ok"));
    });
    match judge(status) {
        Ok(()) if ran == 0 => Outcome::Failed("no test of the ring was run".to_owned()),
        result => result.into(),
    }
}

pub(super) fn ring_under_miri() -> Outcome {
    let toolchain = match toolchain("nightly") {
        Ok(toolchain) => toolchain,
        Err(why) => return Outcome::Skipped(why),
    };
    if let Err(why) = output(cargo_of(&toolchain, &["miri", "--version"])) {
        let install = "rustup component add miri --toolchain nightly";
        return Outcome::Skipped(format!("{why}; try: {install}"));
    }
    expect_success(cargo_of(&toolchain, &[&["miri", "test"], RING_TESTS].concat()))
}

pub(super) fn ring_under_thread_sanitizer() -> Outcome {
    let toolchain = match toolchain("nightly") {
        Ok(toolchain) => toolchain,
        Err(why) => return Outcome::Skipped(why),
    };
    // `--target` keeps build scripts and procedural macros out of the sanitizer. The standard
    // library is not instrumented; the ring's atomics are inlined and therefore covered.
    let args = [&["test", "--target", "host-tuple"], RING_TESTS].concat();
    let mut command = cargo_of(&toolchain, &args);
    command.env("RUSTFLAGS", "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer");
    let suppressions = root().join("xtask/thread-sanitizer.supp");
    command.env("TSAN_OPTIONS", format!("suppressions={}", suppressions.display()));
    run_ring_tests(command)
}
