// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares schemes for sharing and saving vector registers, on an emulated MPC7455.
//!
//! `lab/vector-context` has a small kernel, built once per scheme, and an emulator plugin that
//! counts the executed instructions. This module builds and runs the images, and checks their
//! output. The emulator's clock is its instruction count, at 1 ns per instruction: a run repeats to
//! the last byte on any host, and says nothing about caches and pipelines.

mod an2581;
mod document;
mod linux;
mod plan;
mod predicted;
mod run;

use super::{Obstacle, check_tools, note};
use crate::command::{log, log_to, output, program, root};
use plan::{BUSY, Row, SCHEMES, TRAFFIC};
use run::{Ran, Run, Settings, Symbols};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

/// Name of the task, as in `cargo xtask lab NAME`.
pub(super) const NAME: &str = "vector-context";

const TOOLS: [(&str, &str); 3] = [
    ("make", "make"),
    ("powerpc-linux-gnu-gcc", "gcc-powerpc-linux-gnu"),
    ("qemu-system-ppc", "qemu-system-ppc"),
];

/// Task switches per run in the full comparison: for schemes that must be correct, and for those in
/// which the test must find an error.
const MANY: (u32, u32) = (1_000_000, 100_000);
/// Like [`MANY`], for the brief check.
const FEW: (u32, u32) = (10_000, 20_000);
/// Number of identical runs per scheme.
const REPEATS: usize = 10;
/// Duration of each of the identical runs, in ms.
const SHORT_MS: u32 = 10;

type Results = BTreeMap<Run, Ran>;

/// Returns the result of a scheme's run with these settings, which must exist.
fn find<'a>(costs: &'a Results, scheme: &'static str, settings: Settings) -> &'a Ran {
    &costs[&Run { scheme, settings }]
}

/// Images of all schemes, and the directory they were built in.
struct Images {
    folder: PathBuf,
    symbols: BTreeMap<&'static str, Symbols>,
}

impl Images {
    fn build() -> Result<Self, Obstacle> {
        check_tools(&TOOLS)?;
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let folder = root().join(target).join("vector-context");
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut make = program("make", &["--no-print-directory", "-s", "-j2"]);
        make.args(["-C", "lab/vector-context"]).arg(format!("BUILD={}", folder.display()));
        output(make)?;
        let mut symbols = BTreeMap::new();
        for scheme in SCHEMES {
            let image = folder.join(scheme).with_extension("elf");
            symbols.insert(scheme, run::symbols(&image)?);
        }
        Ok(Self { folder, symbols })
    }

    /// Executes the runs, two at a time, and returns the results in run order.
    fn all(&self, runs: &[Run]) -> Result<Vec<Ran>, Obstacle> {
        let next = Mutex::new(runs.iter().enumerate());
        let worker = |number: usize| {
            let mut done = Vec::new();
            loop {
                let taken = next.lock().expect("no thread panics while it holds the lock").next();
                let Some((at, run)) = taken else { return Ok(done) };
                let files = self.folder.join(format!("run-{number}"));
                let symbols = &self.symbols[run.scheme];
                done.push((at, run::run(&self.folder, symbols, run, &files)?));
            }
        };
        let done: Vec<Result<Vec<(usize, Ran)>, Obstacle>> = std::thread::scope(|scope| {
            let workers = [0, 1].map(|number| {
                let log = log();
                scope.spawn(move || {
                    log_to(log);
                    worker(number)
                })
            });
            workers.map(|worker| worker.join().expect("a worker does not panic")).into()
        });
        let mut results = Vec::new();
        for part in done {
            results.extend(part?);
        }
        results.sort_by_key(|(at, _)| *at);
        Ok(results.into_iter().map(|(_, ran)| ran).collect())
    }

    fn results(&self, runs: &[Run]) -> Result<Results, Obstacle> {
        Ok(runs.iter().copied().zip(self.all(runs)?).collect())
    }
}

/// Executes all runs and prints the page's tables; then reports any unexpected result.
pub(super) fn print() -> Result<(), Obstacle> {
    let images = Images::build()?;
    let start = Instant::now();
    let checks = images.results(&plan::checks(MANY.0, MANY.1))?;
    let sweeps = [("traffic", plan::sweep(TRAFFIC)), ("busy", plan::sweep(BUSY))];
    let rows: Vec<Row> = sweeps.iter().flat_map(|(_, rows)| rows.clone()).collect();
    let costs = images.results(&plan::costs(&rows))?;
    let suspended = images.results(&[plan::unflagged()])?;
    let repeats = repeat(&images, REPEATS)?;
    let linux = linux::compare(&images)?;
    let seconds = start.elapsed().as_secs_f64();
    let text = document::document(&checks, &sweeps, &costs, &suspended);
    println!("{text}\n{}\n## Repeats\n\n{repeats}", linux::section(&linux));
    eprintln!("{NAME}: {} runs took {seconds:.0} s", checks.len() + costs.len());
    judge(&checks)?;
    linux::judge(&linux)?;
    document::goals_missed(&rows, &costs).map_or(Ok(()), |why| Err(Obstacle::Failed(why)))
}

/// Executes just enough runs to show that the images work and that the schemes that must be correct
/// are correct. Takes seconds.
pub(super) fn check() -> Result<(), Obstacle> {
    let images = Images::build()?;
    let checks = images.results(&plan::checks(FEW.0, FEW.1))?;
    judge(&checks)?;
    note(&repeat(&images, 2)?);
    let switches: u64 = checks.values().map(Ran::switched).sum();
    note(&format!(
        "{NAME}: {} runs with registers compared, {switches} switches and interrupts",
        checks.len()
    ));
    Ok(())
}

/// Checks that Linux traps and saves as often as the `lazy` image.
pub(super) fn check_linux() -> Result<(), Obstacle> {
    let compared = linux::compare(&Images::build()?)?;
    linux::judge(&compared)?;
    for case in &compared {
        note(&format!("{NAME}: {case}"));
    }
    Ok(())
}

/// Checks that no error was found in the schemes that must be correct, and that the errors of the
/// other schemes were found.
fn judge(checks: &Results) -> Result<(), Obstacle> {
    let faults: Vec<String> =
        checks.iter().filter_map(|(run, ran)| predicted::fault(run, ran)).collect();
    if faults.is_empty() { Ok(()) } else { Err(Obstacle::Failed(faults.join("; "))) }
}

/// Repeats a short run of every scheme; output and counts must be identical.
fn repeat(images: &Images, times: usize) -> Result<String, Obstacle> {
    let settings = Settings { duration_ms: SHORT_MS, ..BUSY };
    for scheme in SCHEMES {
        let ran = images.all(&vec![Run { scheme, settings }; times])?;
        if let Some(other) = ran.iter().find(|other| **other != ran[0]) {
            let why = format!("{scheme}: two runs differ: {:?} and {other:?}", ran[0]);
            return Err(Obstacle::Failed(why));
        }
    }
    Ok(format!(
        "{} schemes, {times} runs each of {SHORT_MS} ms: all runs of a scheme have the same output \
         and the same counts.",
        SCHEMES.len()
    ))
}
