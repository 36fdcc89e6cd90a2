// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything CI checks, as a table of steps.
//!
//! A step whose tool is missing is skipped, printed with the reason and counted. A test that cannot
//! do its work here prints a line starting with `SKIP`; those are collected and counted as well.
//!
//! What the programs of a step write goes to a file per step under `target/ci`. Of a step that
//! failed, what looks like the cause is printed, once more at the very end.

use crate::command::{cargo, cargo_of, log_to, output, program, root, status, status_with_lines};
use crate::{counts, examples, isa, lab, lwip, native, pmu, ports, protocol, schema, tutorials};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
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
    // Before the tests, which use it.
    quick("lwIP for the TCP benchmark", lwip::check),
    quick("tests", tests),
    quick("documentation", documentation),
    quick("schema files", || schema::check().into()),
    quick("kernels in C, briefly", || {
        native::make(&["headers", "symbols", "builds", "check-quick", "check-pmu"])
    }),
    quick("registers of counters", pmu::check),
    slow("README commands", || examples::check().into()),
    slow("tutorials", tutorials::check),
    // Each bench does one short round: does it run, are its results right.
    slow("benches run", || {
        expect_success(cargo(&["bench", "--workspace", "--benches", "--locked", "--", "--test"]))
    }),
    slow("tests of time and seeds, optimised", tests_of_time),
    slow("kernels in C", || native::make(&["check", "check-huge", "check-levels"])),
    slow("kernels in C under sanitizers", || native::make(&["check-asan"])),
    slow("kernels in C under Valgrind", native::valgrind),
    slow("kernels in C with clang", || native::make(&["check-clang"])),
    slow("kernels in C, every architecture", isa::check),
    slow("kernels in C, instructions", counts::check),
    slow("copies that survive faults", || {
        native::make(&["check-fault", "examples", "check-fault-qemu"])
    }),
    slow("sharing of vector registers", || native::make(&["check-vector", "check-vector-qemu"])),
    slow("ports into lwIP and DPDK", ports::check),
    slow("parsers fuzzed for a minute", || protocol::fuzz_briefly().into()),
    slow("oldest compiler, workspace", || {
        oldest_compiler(env!("CARGO_PKG_RUST_VERSION"), &["--workspace"])
    }),
    slow("probe", probe),
    slow("schemes for vector registers", lab::check_vector_context),
    // Fetches the compiler that the step after it uses.
    slow("guests", lab::check_all),
    slow("counters without perf", lab::check_pmu),
    slow("oldest compiler, base crates", oldest_compiler_of_base_crates),
    slow("ring under Miri", ring_under_miri),
    slow("ring under ThreadSanitizer", ring_under_thread_sanitizer),
];

/// Runs the steps and returns failure if any of them failed.
pub(crate) fn run(extent: Extent) -> ExitCode {
    let (mut lines, mut causes) = (Vec::new(), Vec::new());
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for step in STEPS {
        println!("== {}", step.name);
        let log = log_of(step);
        log_to(log.as_deref().and_then(|log| File::create(log).ok()));
        let start = Instant::now();
        let outcome = if step.slow && extent == Extent::Fast {
            Outcome::Skipped("left out by --fast".to_owned())
        } else {
            (step.run)()
        };
        log_to(None);
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
                causes.extend(log.map(|log| cause(step.name, &log)));
                println!("{}", causes.last().map_or("", String::as_str));
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
    causes.iter().for_each(|cause| println!("\n{cause}"));
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The file for what a step's programs write; `None` where it cannot be made.
fn log_of(step: &Step) -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let folder = root().join(target).join("ci");
    fs::create_dir_all(&folder).ok()?;
    Some(folder.join(step.name.replace([' ', ','], "_")).with_extension("log"))
}

/// Texts of lines that tell why something failed; what follows them belongs to it.
const TELLTALES: &[&str] = &["FAILED", "error: ", "error[", "SUMMARY:", "*** ["];
const FOLLOWING: usize = 5;
/// As many as a person reads.
const TELLING: usize = 80;
const LAST: usize = 15;

/// The lines that look like the cause: telltales, and what test programs say about failed tests.
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

/// What a step's log says about its failure.
fn cause(step: &str, log: &Path) -> String {
    let octets = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&octets);
    let lines: Vec<&str> = text.lines().collect();
    let (before, last) = lines.split_at(lines.len().saturating_sub(LAST));
    format!(
        "why `{step}` failed (all of it: {}):\n{}\n...\n{}",
        log.strip_prefix(root()).unwrap_or(log).display(),
        telling(before).join("\n"),
        last.join("\n")
    )
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
    tests_of(&["--workspace", "--no-fail-fast"])
}

/// What compares the time of a loop with that of its parts says nothing where loops are not
/// optimised; and the segments of a seed must be those of the other profile. In the profile that
/// has just been built for the benches.
fn tests_of_time() -> Outcome {
    tests_of(&[
        "--profile=bench",
        "-p=linerate-dataplane",
        "--test=kernels",
        "--test=time",
        "-p=linerate-tcpbench",
        "--test=deterministic",
    ])
}

fn tests_of(selection: &[&str]) -> Outcome {
    let mut skips = Vec::new();
    let args = [&["test", "--locked"], selection, &["--", "--show-output"]].concat();
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

/// The programs of the guests, whose workspace is one of its own, on this machine.
fn probe() -> Outcome {
    let manifest = ["--manifest-path", "probe/Cargo.toml"];
    let programs = ["-p", "linerate-probe", "-p", "known"];
    let lints = ["--all-targets", "--locked", "--", "-D", "warnings"];
    let commands = [
        [&["fmt"], &manifest[..], &programs, &["--check"]].concat(),
        [&["clippy"], &manifest[..], &programs, &lints].concat(),
        [&["test", "--locked"], &manifest[..], &programs].concat(),
    ];
    let failed = commands.iter().find_map(|arguments| judge(status(cargo(arguments))).err());
    failed.map_or(Ok(()), Err).into()
}

/// What programs inside guests are made of, with the compiler that builds those programs.
fn oldest_compiler_of_base_crates() -> Outcome {
    let packages = [
        ["-p", "linerate-record"],
        ["-p", "linerate-linux"],
        ["-p", "linerate-machine"],
        ["-p", "linerate-counters"],
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

#[cfg(test)]
mod tests {
    use super::telling;

    #[test]
    fn what_is_telling_is_found_in_a_log() {
        let log = "test a ... ok\ntest b ... FAILED\n1\n2\n3\n4\n5\n6\nsuccesses:\npanicked at x\n\
                   failures:\n---- b stdout ----\npanicked at y\ntest result: FAILED\n7";
        let lines: Vec<&str> = log.lines().collect();
        let expected = "test b ... FAILED\n1\n2\n3\n4\n5\nfailures:\n---- b stdout ----\n\
                        panicked at y\ntest result: FAILED\n7";
        assert_eq!(telling(&lines).join("\n"), expected);
        assert!(telling(&["test a ... ok", "panicked at x"]).is_empty());
    }
}
