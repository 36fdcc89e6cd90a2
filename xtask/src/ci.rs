// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs everything that CI checks, as a table of steps.
//!
//! A step whose tool is missing is skipped, counted and reported with the reason. A test that
//! cannot run on this machine prints a line starting with `SKIP`; these lines are collected and
//! counted as well.
//!
//! A step's output goes to a file under `target/ci`. If a step fails, the likely cause is printed,
//! and repeated at the very end.
//!
//! Steps that measure, or whose programs use all processors, run alone; then the others run in
//! parallel. A parallel step that lists its inputs is rerun only if one of them has changed since
//! it last passed.

mod cause;
mod toolchains;
mod unchanged;

use crate::command::{cargo, log_to, root, status, status_with_lines};
use crate::outcome::{Outcome, judge};
use crate::{
    accuracy, attack, book, bound, counts, dist, isa, lab, lwip, native, own_stages, pmu, ports,
    splice, why,
};
use cause::cause;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;
use toolchains::{
    oldest_compiler, oldest_compiler_of_base_crates, ring_under_miri, ring_under_thread_sanitizer,
};

/// Steps to run, and how.
pub(crate) struct Choice {
    steps: Vec<&'static Step>,
    /// Whether to skip the steps that take minutes.
    is_fast: bool,
    /// Whether to list the names instead of running checks.
    is_list: bool,
    /// Whether to rerun steps that have passed, even if their inputs have not changed.
    is_again: bool,
}

/// Selects the steps for these arguments: all, or those whose names contain one of the words.
pub(crate) fn choose(words: &[&str]) -> Result<Choice, String> {
    let (options, names): (Vec<&str>, Vec<&str>) =
        words.iter().partition(|word| ["--fast", "--list", "--again"].contains(word));
    let named = |name: &&str| STEPS.iter().any(|step| step.name.contains(name));
    if let Some(name) = names.iter().find(|name| !named(name)) {
        let all: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        return Err(format!("no step name contains `{name}`; steps:\n  {}", all.join("\n  ")));
    }
    let wanted =
        |step: &&Step| names.is_empty() || names.iter().any(|name| step.name.contains(name));
    Ok(Choice {
        steps: STEPS.iter().filter(wanted).collect(),
        is_fast: options.contains(&"--fast"),
        is_list: options.contains(&"--list"),
        is_again: options.contains(&"--again"),
    })
}

struct Step {
    name: &'static str,
    /// Whether the step is left out of a fast run.
    slow: bool,
    /// Exclusive resource; `None` if the step must run alone.
    uses: Option<&'static str>,
    /// Files and directories, relative to the root, that determine the step's result; empty if it
    /// always runs.
    inputs: &'static [&'static str],
    run: fn() -> Outcome,
}

const fn quick(name: &'static str, run: fn() -> Outcome) -> Step {
    Step { name, slow: false, uses: None, inputs: &[], run }
}

const fn slow(name: &'static str, run: fn() -> Outcome) -> Step {
    Step { name, slow: true, uses: None, inputs: &[], run }
}

/// Creates a slow step that may run in parallel with others, because it neither measures nor uses
/// several CPUs.
const fn parallel(uses: &'static str, name: &'static str, run: fn() -> Outcome) -> Step {
    Step { name, slow: true, uses: Some(uses), inputs: &[], run }
}

/// Like [`parallel`], but not rerun while `inputs` are unchanged since it passed.
const fn cached(
    uses: &'static str,
    name: &'static str,
    inputs: &'static [&'static str],
    run: fn() -> Outcome,
) -> Step {
    Step { name, slow: true, uses: Some(uses), inputs, run }
}

const NATIVE_SOURCES: &[&str] = &["native", "xtask/src/native.rs"];
const GUEST_SOURCES: &[&str] = &[
    "lab",
    "kmod",
    "native",
    "probe",
    "crates/record",
    "crates/linux",
    "crates/machine",
    "crates/trial",
    "crates/counters",
    "crates/doctor",
    "crates/stat",
    "crates/regions",
    "crates/hierarchy",
    "crates/memory",
    "xtask/src/lab",
    "xtask/src/lab.rs",
    "xtask/src/fetch.rs",
];

/// Output directory of native/Makefile for CI.
const NATIVE: &str = "native/build/ci";
/// The lab's download cache and images.
const LAB: &str = "lab/cache";
const COUNTS: &str = "native/build/counts";
const ISA: &str = "native/build/isa";
const PORTS: &str = "native/build/ci-ports";
/// Cargo's target directory, and those for other compilers.
const TARGET: &str = "target";
const TARGET_OWN: &str = "target directory of a user's crate";
const TARGET_OLDEST: &str = "target directory of the oldest compiler";
const TARGET_NIGHTLY: &str = "target directory of the nightly compiler";

/// All steps. Those that run alone come first.
const STEPS: &[Step] = &[
    quick("format", || expect_success(cargo(&["fmt", "--all", "--check"]))),
    quick("lints", lints),
    // This step precedes the tests because they use lwIP.
    quick("lwIP for the TCP benchmark", lwip::check),
    quick("tests", tests),
    quick("hostile calls, short run", attack::check),
    quick("documentation", documentation),
    quick("links in the book", book::check),
    quick("kernels in C, short run", || {
        native::make(&["headers", "symbols", "builds", "check-quick", "check-pmu", "check-install"])
    }),
    quick("counter registers", pmu::check),
    // Each benchmark does one short round, which checks that it runs and that its results are
    // correct.
    slow("benches run", || {
        expect_success(cargo(&["bench", "--workspace", "--benches", "--locked", "--", "--test"]))
    }),
    slow("accuracy", accuracy::check),
    slow("kernel and seed tests, optimised", optimised_tests),
    slow("command pages", splice::check_commands),
    slow("why, on known bottlenecks", why::check),
    slow("profile, on kernels with known bottlenecks", bound::check),
    slow("tutorials and pages of results", splice::check),
    cached(NATIVE, "kernels in C", NATIVE_SOURCES, || {
        native::make(&["check", "check-huge", "check-levels"])
    }),
    cached(LAB, "schemes for vector registers", GUEST_SOURCES, lab::check_vector_context),
    cached(NATIVE, "kernels in C under sanitizers", NATIVE_SOURCES, || {
        native::make(&["check-asan"])
    }),
    cached(NATIVE, "kernels in C under Valgrind", NATIVE_SOURCES, native::valgrind),
    cached(NATIVE, "kernels in C with clang", NATIVE_SOURCES, || native::make(&["check-clang"])),
    cached(NATIVE, "copies that survive faults", NATIVE_SOURCES, || {
        native::make(&["check-fault", "examples", "check-fault-qemu"])
    }),
    cached(NATIVE, "sharing of vector registers", NATIVE_SOURCES, || {
        native::make(&["check-vector", "check-vector-qemu"])
    }),
    // This step also fetches the compiler that the step for the base crates uses.
    cached(LAB, "guests", GUEST_SOURCES, lab::check_all),
    cached(LAB, "counters without perf", GUEST_SOURCES, lab::check_pmu),
    parallel(LAB, "oldest compiler, base crates", oldest_compiler_of_base_crates),
    cached(
        COUNTS,
        "kernels in C, instructions",
        &[
            "native",
            "lab/icount",
            "crates/cachesim/plugin",
            "xtask/src/counts.rs",
            "xtask/src/counts",
        ],
        counts::check,
    ),
    cached(ISA, "kernels in C, every architecture", &["native", "xtask/src/isa.rs"], isa::check),
    parallel(TARGET, "parsers fuzzed for a minute", fuzz_briefly),
    parallel(TARGET, "probe", probe),
    parallel(TARGET, "packages", dist::check),
    parallel(TARGET_OWN, "a user's own stage", own_stages::check),
    cached(
        PORTS,
        "ports to lwIP and DPDK",
        &["native", "xtask/src/ports.rs", "xtask/src/lwip.rs"],
        ports::check,
    ),
    parallel(TARGET_OLDEST, "oldest compiler, workspace", || {
        oldest_compiler(env!("CARGO_PKG_RUST_VERSION"), &["--workspace"])
    }),
    parallel(TARGET_NIGHTLY, "ring under Miri", ring_under_miri),
    parallel(TARGET_NIGHTLY, "ring under ThreadSanitizer", ring_under_thread_sanitizer),
];

/// Number of steps to run in parallel: the number of CPUs of the CI machine, since each step uses
/// one.
const LANES: usize = 2;

/// A finished step's result, for the summary.
struct Report {
    is_failed: bool,
    is_passed: bool,
    /// Whether the step passed in an earlier run and none of its inputs has changed since.
    is_earlier: bool,
    skipped: usize,
    lines: Vec<String>,
    /// Message about a failure, with lines of the log; `None` if the step passed or has no log.
    cause: Option<String>,
}

/// Runs the steps. The error states how many failed.
pub(crate) fn run(choice: Choice) -> Result<(), String> {
    let steps = &choice.steps;
    if choice.is_list {
        steps.iter().for_each(|step| println!("{}", step.name));
        return Ok(());
    }
    let (parallel, alone): (Vec<_>, Vec<_>) = steps.iter().partition(|s| s.uses.is_some());
    let mut reports: Vec<Report> = alone.into_iter().map(|step| report(step, &choice)).collect();
    reports.extend(side_by_side(parallel, |step| report(step, &choice)));
    println!();
    reports.iter().flat_map(|report| &report.lines).for_each(|line| println!("{line}"));
    let failed = reports.iter().filter(|report| report.is_failed).count();
    let passed = reports.iter().filter(|report| report.is_passed).count();
    let skipped: usize = reports.iter().map(|report| report.skipped).sum();
    let earlier = reports.iter().filter(|report| report.is_earlier).count();
    println!("{passed} passed ({earlier} in an earlier run), {failed} failed, {skipped} skipped");
    reports.iter().filter_map(|report| report.cause.as_ref()).for_each(|why| println!("\n{why}"));
    if failed == 0 { Ok(()) } else { Err(format!("{failed} steps failed")) }
}

/// Steps still to run, and resources in use.
struct Waiting {
    steps: Vec<&'static Step>,
    used: Vec<&'static str>,
}

impl Waiting {
    /// Takes the first step whose resource is not in use.
    fn take(&mut self) -> Option<&'static Step> {
        let is_free = |step: &&Step| step.uses.is_none_or(|what| !self.used.contains(&what));
        let at = self.steps.iter().position(is_free)?;
        let step = self.steps.remove(at);
        self.used.extend(step.uses);
        Some(step)
    }
}

/// Runs steps in [`LANES`] threads; steps with the same resource run one after the other. Returns
/// their results in step order.
fn side_by_side<T: Send>(
    steps: Vec<&'static Step>,
    run: impl Fn(&'static Step) -> T + Sync,
) -> Vec<T> {
    let order: Vec<_> = steps.iter().map(|step| step.name).collect();
    let (waiting, ended) = (Mutex::new(Waiting { steps, used: Vec::new() }), Condvar::new());
    let lock = || waiting.lock().unwrap_or_else(PoisonError::into_inner);
    let lane = || {
        let mut done = Vec::new();
        loop {
            let mut waiting = lock();
            let step = loop {
                match waiting.take() {
                    Some(step) => break step,
                    None if waiting.steps.is_empty() => return done,
                    None => waiting = ended.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(waiting);
            done.push((step.name, run(step)));
            lock().used.retain(|what| step.uses != Some(*what));
            ended.notify_all();
        }
    };
    let mut done: Vec<(&str, T)> = thread::scope(|scope| {
        let lanes = [(); LANES].map(|()| scope.spawn(lane));
        lanes.into_iter().flat_map(|lane| lane.join().expect("a step does not panic")).collect()
    });
    done.sort_by_key(|(name, _)| order.iter().position(|step| step == name));
    done.into_iter().map(|(_, result)| result).collect()
}

/// Runs a step and reports its result.
fn report(step: &'static Step, choice: &Choice) -> Report {
    println!("== {}", step.name);
    let start = Instant::now();
    let is_left_out = step.slow && choice.is_fast;
    let is_run = is_left_out || choice.is_again;
    let earlier = if is_run { None } else { unchanged::earlier_pass(step) };
    let is_earlier = earlier.is_some();
    let log = log_of(step);
    let outcome = match earlier {
        Some(outcome) => outcome,
        None if is_left_out => Outcome::Skipped("left out by --fast".to_owned()),
        None => run_logged(step, log.as_deref()),
    };
    let seconds = start.elapsed().as_secs_f64();
    let verdict = |word: &str, why: &str| format!("{word} {:<34} {seconds:6.1} s{why}", step.name);
    let mut report = Report {
        is_failed: false,
        is_passed: false,
        is_earlier,
        skipped: 0,
        lines: Vec::new(),
        cause: None,
    };
    match outcome {
        Outcome::Passed(skips) => {
            report.is_passed = true;
            report.skipped = skips.len();
            let unchanged = "  passed in an earlier run; inputs unchanged";
            report.lines.push(verdict("pass", if is_earlier { unchanged } else { "" }));
            report.lines.extend(skips.iter().map(|skip| format!("     {skip}")));
        }
        Outcome::Failed(why) => {
            report.is_failed = true;
            report.lines.push(verdict("FAIL", &format!("  {why}")));
            report.cause = log.map(|log| cause(step.name, &why, &log));
            println!("{}", report.cause.as_deref().unwrap_or(""));
        }
        Outcome::Skipped(why) => {
            report.skipped = 1;
            report.lines.push(verdict("SKIP", &format!("  {why}")));
        }
    }
    println!("{}", report.lines.join("\n"));
    report
}

/// Runs a step with its programs' output in a log file, and stores the result if it passed.
fn run_logged(step: &Step, log: Option<&Path>) -> Outcome {
    log_to(log.and_then(|log| File::create(log).ok()));
    let outcome = std::panic::catch_unwind(step.run)
        .unwrap_or_else(|_| Outcome::Failed("the step panicked".to_owned()));
    log_to(None);
    unchanged::keep(step, &outcome);
    outcome
}

/// Returns the directory for logs and stored results.
fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root().join(target).join("ci")
}

fn file_name(step: &Step) -> String {
    step.name.replace([' ', ','], "_")
}

/// Returns the file for the output of a step's programs; `None` if it cannot be created.
fn log_of(step: &Step) -> Option<PathBuf> {
    fs::create_dir_all(folder()).ok()?;
    Some(folder().join(file_name(step)).with_extension("log"))
}

fn expect_success(command: Command) -> Outcome {
    judge(status(command)).into()
}

fn lints() -> Outcome {
    let args = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    expect_success(cargo(&args))
}

/// Runs the tests. The output of passing tests is shown too, because it lists what they skipped.
fn tests() -> Outcome {
    tests_of(&["--workspace", "--no-fail-fast"])
}

/// Runs two sets of tests in an optimised build: the kernels' tests, and those which check that a
/// seed always gives the same segments. Uses the profile and features of the preceding benchmark
/// build. Other tests with matching names run too.
fn optimised_tests() -> Outcome {
    let tests = ["--test=kernels", "--test=deterministic"];
    tests_of(&[&["--profile=bench", "--workspace"], &tests[..]].concat())
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

/// Fuzzes for a minute, starting from the corpus of earlier runs.
fn fuzz_briefly() -> Outcome {
    // Builds the whole workspace, as earlier steps do, so that cargo reuses their builds. With only
    // this package's features, cargo would build everything again.
    let bench = ["bench", "--quiet", "--locked", "--workspace", "--bench", "fuzz", "--", "60s"];
    expect_success(cargo(&bench))
}

fn documentation() -> Outcome {
    let mut command = cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    expect_success(command)
}

/// Checks the guest programs, which have a separate workspace, on this machine.
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

#[cfg(test)]
mod tests;
