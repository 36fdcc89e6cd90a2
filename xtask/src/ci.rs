// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything CI checks, as a table of steps.
//!
//! A step whose tool is missing is skipped, printed with the reason and counted. A test that cannot
//! do its work here prints a line starting with `SKIP`; those are collected and counted as well.

use crate::command::{cargo, cargo_of, output, program, root, status, status_with_lines};
use crate::{examples, native, schema};
use std::process::{Command, ExitCode};
use std::time::Instant;

/// How much to check.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Every step.
    Full,
    /// Without the steps that take minutes.
    Fast,
}

/// What came of a step.
pub(crate) enum Outcome {
    /// It held; with what single tests inside it could not do here.
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

struct Step {
    name: &'static str,
    /// Left out of a fast run.
    slow: bool,
    run: fn() -> Outcome,
}

const fn quick(name: &'static str, run: fn() -> Outcome) -> Step {
    Step { name, slow: false, run }
}

const fn slow(name: &'static str, run: fn() -> Outcome) -> Step {
    Step { name, slow: true, run }
}

const STEPS: &[Step] = &[
    quick("format", || expect_success(cargo(&["fmt", "--all", "--check"]))),
    quick("lints", lints),
    quick("tests", tests),
    quick("documentation", documentation),
    quick("schema files", || schema::check().into()),
    quick("kernels in C, briefly", || {
        native::make(&["headers", "symbols", "builds", "check-quick"])
    }),
    slow("README commands", || examples::check().into()),
    // Each bench does one short round: does it run, are its results right.
    slow("benches run", || {
        expect_success(cargo(&["bench", "--workspace", "--benches", "--locked", "--", "--test"]))
    }),
    slow("kernels in C", || native::make(&["check", "check-huge", "check-levels"])),
    slow("kernels in C under sanitizers", || native::make(&["check-asan"])),
    slow("kernels in C under Valgrind", native::valgrind),
    slow("kernels in C with clang", || native::make(&["check-clang"])),
    slow("kernels in C, old processors", native::old_processors),
    slow("oldest compiler, workspace", || {
        oldest_compiler(env!("CARGO_PKG_RUST_VERSION"), &["--workspace"])
    }),
    // What a small program inside guests with an older distribution's compiler needs.
    slow("oldest compiler, base crates", || {
        let packages = ["-p", "linerate-record", "-p", "linerate-linux", "-p", "linerate-machine"];
        oldest_compiler("1.85", &packages)
    }),
    slow("ring under Miri", ring_under_miri),
    slow("ring under ThreadSanitizer", ring_under_thread_sanitizer),
];

/// Runs the steps and returns failure if any of them failed.
pub(crate) fn run(extent: Extent) -> ExitCode {
    let mut lines = Vec::new();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for step in STEPS {
        println!("\n== {}", step.name);
        let start = Instant::now();
        let outcome = if step.slow && extent == Extent::Fast {
            Outcome::Skipped("left out by --fast".to_owned())
        } else {
            (step.run)()
        };
        let seconds = start.elapsed().as_secs_f64();
        let verdict =
            |word: &str, why: &str| format!("{word} {:<30} {seconds:6.1} s{why}", step.name);
        let first = lines.len();
        match outcome {
            Outcome::Passed(skips) => {
                passed += 1;
                skipped += skips.len();
                lines.push(verdict("pass", ""));
                lines.extend(skips.iter().map(|skip| format!("     {skip}")));
            }
            Outcome::Failed(why) => {
                failed += 1;
                lines.push(verdict("FAIL", &format!("  {why}")));
            }
            Outcome::Skipped(why) => {
                skipped += 1;
                lines.push(verdict("SKIP", &format!("  {why}")));
            }
        }
        lines[first..].iter().for_each(|line| println!("{line}"));
    }
    println!("\n{}", lines.join("\n"));
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn expect_success(command: Command) -> Outcome {
    judge(status(command)).into()
}

pub(crate) fn judge(status: Result<i32, String>) -> Result<(), String> {
    match status? {
        0 => Ok(()),
        code => Err(format!("exit status {code}")),
    }
}

fn lints() -> Outcome {
    let args = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    expect_success(cargo(&args))
}

/// Runs the tests, the output of passing ones shown: they say there what they had to skip.
fn tests() -> Outcome {
    let mut skips = Vec::new();
    let args = ["test", "--workspace", "--locked", "--no-fail-fast", "--", "--show-output"];
    let status = status_with_lines(cargo(&args), |line| {
        if line.trim_start().starts_with("SKIP") {
            skips.push(line.trim().to_owned());
        }
    });
    match judge(status) {
        Ok(()) => Outcome::Passed(skips),
        Err(why) => Outcome::Failed(why),
    }
}

fn documentation() -> Outcome {
    let mut command = cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    expect_success(command)
}

/// The installed toolchain that `name` starts, if rustup has one; it is never downloaded here.
fn toolchain(name: &str) -> Result<String, String> {
    let list = output(program("rustup", &["toolchain", "list"]))?;
    let list = String::from_utf8_lossy(&list);
    list.lines()
        .filter_map(|line| line.split_whitespace().next())
        .find(|installed| installed.starts_with(name))
        .map(str::to_owned)
        .ok_or_else(|| format!("rustup has no {name} toolchain: rustup toolchain install {name}"))
}

fn oldest_compiler(version: &str, packages: &[&str]) -> Outcome {
    match toolchain(version) {
        Ok(toolchain) => {
            // The base crates are held to an older compiler than the manifest asks for.
            let args = [&["check", "--locked", "--ignore-rust-version"], packages].concat();
            expect_success(cargo_of(&toolchain, &args))
        }
        Err(why) => Outcome::Skipped(why),
    }
}

/// The tests of the one structure that two threads share without locks.
const RING_TESTS: &[&str] = &["-p", "linerate-dataplane", "--lib", "ring::"];

/// Runs them; none at all is a failure, for the filter may have lost its module.
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

fn ring_under_miri() -> Outcome {
    let toolchain = match toolchain("nightly") {
        Ok(toolchain) => toolchain,
        Err(why) => return Outcome::Skipped(why),
    };
    if let Err(why) = output(cargo_of(&toolchain, &["miri", "--version"])) {
        return Outcome::Skipped(format!("{why}: rustup component add miri --toolchain nightly"));
    }
    expect_success(cargo_of(&toolchain, &[&["miri", "test"], RING_TESTS].concat()))
}

fn ring_under_thread_sanitizer() -> Outcome {
    let toolchain = match toolchain("nightly") {
        Ok(toolchain) => toolchain,
        Err(why) => return Outcome::Skipped(why),
    };
    // `--target` keeps build scripts and procedural macros out of the sanitizer. The standard
    // library comes without it; the atomics of the ring are inlined and therefore covered.
    let args = [&["test", "--target", "host-tuple"], RING_TESTS].concat();
    let mut command = cargo_of(&toolchain, &args);
    command.env("RUSTFLAGS", "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer");
    let suppressions = root().join("xtask/thread-sanitizer.supp");
    command.env("TSAN_OPTIONS", format!("suppressions={}", suppressions.display()));
    run_ring_tests(command)
}
