// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything CI checks, as a table of steps.
//!
//! A step whose tool is missing is skipped, printed with the reason and counted. A test that cannot
//! do its work here prints a line starting with `SKIP`; those are collected and counted as well.
//!
//! The output of a step's programs goes to a file per step under `target/ci`. The probable cause of
//! a failed step is printed, and again at the end.
//!
//! Steps that measure, or whose programs take all processors, run alone; then the others, side by
//! side.

mod cause;

use crate::command::{cargo, cargo_of, log_to, output, program, root, status, status_with_lines};
use crate::outcome::{Outcome, judge};
use crate::{accuracy, attack, counts, isa, lab, lwip, native, pmu, ports, splice, why};
use cause::cause;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// What to check.
pub(crate) struct Choice {
    steps: Vec<&'static Step>,
    /// Without the steps that take minutes.
    is_fast: bool,
    /// Only lists the names.
    is_list: bool,
}

/// The steps of these words: all, or those whose names have one of the words in them.
pub(crate) fn choose(words: &[&str]) -> Result<Choice, String> {
    let (options, names): (Vec<&str>, Vec<&str>) =
        words.iter().partition(|word| ["--fast", "--list"].contains(word));
    let named = |name: &&str| STEPS.iter().any(|step| step.name.contains(name));
    if let Some(name) = names.iter().find(|name| !named(name)) {
        let all: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        return Err(format!("no step's name has `{name}` in it; they are\n  {}", all.join("\n  ")));
    }
    let wanted =
        |step: &&Step| names.is_empty() || names.iter().any(|name| step.name.contains(name));
    Ok(Choice {
        steps: STEPS.iter().filter(wanted).collect(),
        is_fast: options.contains(&"--fast"),
        is_list: options.contains(&"--list"),
    })
}

struct Step {
    name: &'static str,
    /// Left out of a fast run.
    slow: bool,
    /// Exclusive resources of a step, if another step may run at the same time at all.
    uses: Option<&'static str>,
    run: fn() -> Outcome,
}

const fn quick(name: &'static str, run: fn() -> Outcome) -> Step {
    Step { name, slow: false, uses: None, run }
}

const fn slow(name: &'static str, run: fn() -> Outcome) -> Step {
    Step { name, slow: true, uses: None, run }
}

/// A slow step that neither measures nor uses both processors: another may run at the same time.
const fn beside(uses: &'static str, name: &'static str, run: fn() -> Outcome) -> Step {
    Step { name, slow: true, uses: Some(uses), run }
}

/// Outputs of native/Makefile for CI.
const NATIVE: &str = "native/build/ci";
/// Downloads of the lab, and the images it builds.
const LAB: &str = "lab/cache";
const COUNTS: &str = "native/build/counts";
const ISA: &str = "native/build/isa";
const PORTS: &str = "native/build/ci-ports";
/// Cargo's folder, and those it has for other compilers.
const TARGET: &str = "target";
const TARGET_OLDEST: &str = "target of the oldest compiler";
const TARGET_NIGHTLY: &str = "target of the nightly compiler";

/// Those that run alone come first.
const STEPS: &[Step] = &[
    quick("format", || expect_success(cargo(&["fmt", "--all", "--check"]))),
    quick("lints", lints),
    // Before the tests, which use it.
    quick("lwIP for the TCP benchmark", lwip::check),
    quick("tests", tests),
    quick("hostile calls, briefly", attack::check),
    quick("documentation", documentation),
    quick("kernels in C, briefly", || {
        native::make(&["headers", "symbols", "builds", "check-quick", "check-pmu"])
    }),
    quick("registers of counters", pmu::check),
    // Each bench does one short round: does it run, are its results right.
    slow("benches run", || {
        expect_success(cargo(&["bench", "--workspace", "--benches", "--locked", "--", "--test"]))
    }),
    slow("accuracy", accuracy::check),
    slow("tests of kernels and seeds, optimised", optimised_tests),
    slow("command pages", splice::check_commands),
    slow("why, on known bottlenecks", why::check),
    slow("tutorials and pages of results", splice::check),
    beside(NATIVE, "kernels in C", || native::make(&["check", "check-huge", "check-levels"])),
    beside(LAB, "schemes for vector registers", lab::check_vector_context),
    beside(NATIVE, "kernels in C under sanitizers", || native::make(&["check-asan"])),
    beside(NATIVE, "kernels in C under Valgrind", native::valgrind),
    beside(NATIVE, "kernels in C with clang", || native::make(&["check-clang"])),
    beside(NATIVE, "copies that survive faults", || {
        native::make(&["check-fault", "examples", "check-fault-qemu"])
    }),
    beside(NATIVE, "sharing of vector registers", || {
        native::make(&["check-vector", "check-vector-qemu"])
    }),
    // Fetches the compiler that the base crates are built with.
    beside(LAB, "guests", lab::check_all),
    beside(LAB, "counters without perf", lab::check_pmu),
    beside(LAB, "oldest compiler, base crates", oldest_compiler_of_base_crates),
    beside(COUNTS, "kernels in C, instructions", counts::check),
    beside(ISA, "kernels in C, every architecture", isa::check),
    beside(TARGET, "parsers fuzzed for a minute", fuzz_briefly),
    beside(TARGET, "probe", probe),
    beside(PORTS, "ports into lwIP and DPDK", ports::check),
    beside(TARGET_OLDEST, "oldest compiler, workspace", || {
        oldest_compiler(env!("CARGO_PKG_RUST_VERSION"), &["--workspace"])
    }),
    beside(TARGET_NIGHTLY, "ring under Miri", ring_under_miri),
    beside(TARGET_NIGHTLY, "ring under ThreadSanitizer", ring_under_thread_sanitizer),
];

/// Number of parallel steps. Steps use one processor each; as many as CI has.
const LANES: usize = 2;

/// Summary of a finished step.
struct Report {
    is_failed: bool,
    is_passed: bool,
    skipped: usize,
    lines: Vec<String>,
    /// Cause of a failure, if its log shows it.
    cause: Option<String>,
}

/// Runs the steps; the error says how many of them failed.
pub(crate) fn run(choice: Choice) -> Result<(), String> {
    let Choice { steps, is_fast, is_list } = choice;
    if is_list {
        steps.iter().for_each(|step| println!("{}", step.name));
        return Ok(());
    }
    let (beside, alone): (Vec<_>, Vec<_>) = steps.into_iter().partition(|s| s.uses.is_some());
    let mut reports: Vec<Report> = alone.into_iter().map(|step| report(step, is_fast)).collect();
    reports.extend(side_by_side(beside, |step| report(step, is_fast)));
    println!();
    reports.iter().flat_map(|report| &report.lines).for_each(|line| println!("{line}"));
    let failed = reports.iter().filter(|report| report.is_failed).count();
    let passed = reports.iter().filter(|report| report.is_passed).count();
    let skipped: usize = reports.iter().map(|report| report.skipped).sum();
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    reports.iter().filter_map(|report| report.cause.as_ref()).for_each(|why| println!("\n{why}"));
    if failed == 0 { Ok(()) } else { Err(format!("{failed} steps failed")) }
}

/// Steps that wait to be run, and what is in use.
struct Waiting {
    steps: Vec<&'static Step>,
    used: Vec<&'static str>,
}

impl Waiting {
    /// The first step that uses nothing that is in use.
    fn take(&mut self) -> Option<&'static Step> {
        let is_free = |step: &&Step| step.uses.is_none_or(|what| !self.used.contains(&what));
        let at = self.steps.iter().position(is_free)?;
        let step = self.steps.remove(at);
        self.used.extend(step.uses);
        Some(step)
    }
}

/// Runs steps in [`LANES`] threads, those with shared resources one after the other; returns the
/// results in order.
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

/// Runs a step and reports the result.
fn report(step: &'static Step, is_fast: bool) -> Report {
    println!("== {}", step.name);
    let log = log_of(step);
    log_to(log.as_deref().and_then(|log| File::create(log).ok()));
    let start = Instant::now();
    let outcome = if step.slow && is_fast {
        Outcome::Skipped("left out by --fast".to_owned())
    } else {
        std::panic::catch_unwind(step.run)
            .unwrap_or_else(|_| Outcome::Failed("it panicked".to_owned()))
    };
    log_to(None);
    let seconds = start.elapsed().as_secs_f64();
    let verdict = |word: &str, why: &str| format!("{word} {:<34} {seconds:6.1} s{why}", step.name);
    let mut report =
        Report { is_failed: false, is_passed: false, skipped: 0, lines: Vec::new(), cause: None };
    match outcome {
        Outcome::Passed(skips) => {
            report.is_passed = true;
            report.skipped = skips.len();
            report.lines.push(verdict("pass", ""));
            report.lines.extend(skips.iter().map(|skip| format!("     {skip}")));
        }
        Outcome::Failed(why) => {
            report.is_failed = true;
            report.lines.push(verdict("FAIL", &format!("  {why}")));
            report.cause = log.map(|log| cause(step.name, &log));
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

/// The file for what a step's programs write; `None` where it cannot be made.
fn log_of(step: &Step) -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let folder = root().join(target).join("ci");
    fs::create_dir_all(&folder).ok()?;
    Some(folder.join(step.name.replace([' ', ','], "_")).with_extension("log"))
}

fn expect_success(command: Command) -> Outcome {
    judge(status(command)).into()
}

fn lints() -> Outcome {
    let args = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    expect_success(cargo(&args))
}

/// Runs the tests, the output of passing ones shown: they say there what they had to skip.
fn tests() -> Outcome {
    tests_of(&["--workspace", "--no-fail-fast"])
}

/// Kernels as they are used, and the segments of a seed, which must be those of the other profile.
/// In the profile, and with the features, that have just been built for the benches; other tests
/// of these names come along.
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

/// A minute of fuzzing, from what earlier ones found.
fn fuzz_briefly() -> Outcome {
    // For the whole workspace, as built by CI: with only this package's features it would be
    // rebuilt.
    let bench = ["bench", "--quiet", "--locked", "--workspace", "--bench", "fuzz", "--", "60s"];
    expect_success(cargo(&bench))
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

/// The programs of the guests, which are a separate workspace, on this machine.
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

/// The crates of programs for guests, with the compiler that builds those programs.
fn oldest_compiler_of_base_crates() -> Outcome {
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
    use super::{LANES, STEPS, Step, beside, choose, side_by_side};
    use std::sync::{Barrier, Mutex};

    #[test]
    fn steps_with_shared_resources_run_sequentially_and_others_in_parallel() {
        const fn step(name: &'static str, uses: &'static str) -> Step {
            beside(uses, name, || unreachable!())
        }
        static MADE_UP: [Step; 5] =
            [step("a", "x"), step("b", "x"), step("c", "y"), step("d", "x"), step("e", "z")];
        // a and c wait for each other; whatever else may begin before both have ended.
        let both = Barrier::new(2);
        let running = Mutex::new(Vec::new());
        let results = side_by_side(MADE_UP.iter().collect(), |step| {
            let others: Vec<&str> = {
                let mut running = running.lock().expect("no step panics");
                running.push(step.uses);
                running.iter().flatten().copied().collect()
            };
            if ["a", "c"].contains(&step.name) {
                both.wait();
            }
            running.lock().expect("no step panics").retain(|uses| *uses != step.uses);
            (step.name, others)
        });
        assert_eq!(results.iter().map(|(name, _)| *name).collect::<String>(), "abcde");
        for (name, others) in results {
            assert!(others.len() <= LANES, "{name} with {others:?}");
            let once = |what: &&str| others.iter().filter(|other| other == &what).count() == 1;
            assert!(others.iter().all(once), "{name} with {others:?}");
        }
    }

    #[test]
    fn steps_are_chosen_by_a_part_of_their_names() {
        let names = |words: &[&str]| -> Vec<&str> {
            choose(words)
                .map_or_else(|why| panic!("{why}"), |c| c.steps)
                .iter()
                .map(|s| s.name)
                .collect()
        };
        assert_eq!(names(&["guests"]), ["guests"]);
        assert_eq!(names(&["Miri", "--fast", "format"]), ["format", "ring under Miri"]);
        assert_eq!(names(&[]).len(), STEPS.len());
        let why = choose(&["format", "nothing"]).err().unwrap_or_default();
        assert!(why.contains("`nothing`") && why.contains("\n  ring under Miri"), "{why}");
    }

    /// The page's order is the table's, and those side by side come last.
    #[test]
    fn steps_that_run_alone_stand_first_and_names_are_unique() {
        assert!(STEPS.is_sorted_by_key(|step| step.uses.is_some()));
        for step in STEPS {
            assert_eq!(STEPS.iter().filter(|other| other.name == step.name).count(), 1);
        }
    }
}
