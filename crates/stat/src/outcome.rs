// SPDX-License-Identifier: MIT OR Apache-2.0
//! All runs of a request, and what comes of them.

use crate::assemble::Runs;
use crate::baseline;
use crate::run::{Run, Runner};
use crate::simulated::Simulator;
use crate::{Outcome, Progress, StatError, What, refused, usage};
use linerate_counters::catalog::Catalog;
use linerate_record::stat::{Environment, ExitStatus, SimulatedCaches, StatReport, StatTarget};
use linerate_record::{Derive, Tier, Warning};
use std::ffi::OsString;
use std::io;

/// The own statuses of env(1).
const FAILED: i32 = 125;
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;

/// Counts with the kernel.
pub(crate) fn count(runner: &Runner<'_>, catalog: &Catalog) -> Result<Outcome, StatError> {
    let mut from_usage = Vec::new();
    let (runs, cut_short) = repeat(runner, |number| {
        let mut run = runner.run(number)?;
        from_usage = usage::fill(&mut run, &runner.asked.events);
        Ok(run)
    })?;
    let ground = Ground {
        table: catalog.table(),
        is_known_processor: catalog.is_known_processor(),
        caches: None,
    };
    let runs = Runs {
        request: runner.request,
        asked: runner.asked,
        runs: &runs,
        cut_short: cut_short.as_ref(),
        from_usage: &from_usage,
    };
    Ok(outcome(&runs, ground, Vec::new()))
}

/// Counts in the simulator.
pub(crate) fn simulate(runner: &Runner<'_>) -> Result<Outcome, StatError> {
    let simulator = Simulator::of(runner.request.caches.as_ref(), runner.around)?;
    let asked = simulator.asked(runner.asked);
    let runner = Runner { asked: &asked, ..*runner };
    if runner.request.strict {
        if let Some(reason) = refused(&asked.events, &simulator.refusals(&asked)) {
            return Err(StatError::Refused { reason });
        }
    }
    let mut warnings = Vec::new();
    let (runs, cut_short) = repeat(&runner, |_| {
        let (run, remarks) = simulator.run(&runner)?;
        warnings = remarks;
        Ok(run)
    })?;
    let caches = Some(simulator.geometry.caches().clone());
    let ground = Ground { table: "callgrind", is_known_processor: true, caches };
    let runs = Runs {
        request: runner.request,
        asked: &asked,
        runs: &runs,
        cut_short: cut_short.as_ref(),
        from_usage: &[],
    };
    Ok(outcome(&runs, ground, warnings))
}

/// Runs as often as asked for, until a signal comes or the command cannot be started. What a signal
/// cut short stands apart if others were not: it is no run like them.
fn repeat(
    runner: &Runner<'_>,
    mut one: impl FnMut(u32) -> Result<Run, StatError>,
) -> Result<(Vec<Run>, Option<Run>), StatError> {
    let of = runner.request.repeat;
    let mut runs = Vec::new();
    for number in 0..of {
        let run = one(number)?;
        let is_last = run.is_interrupted || matches!(run.command, Some(Err(_)));
        runs.push(run);
        if is_last {
            break;
        }
        (runner.watch.tell)(Progress::Run { done: number + 1, of });
    }
    let is_cut = runs.len() > 1 && runs.last().is_some_and(|run| run.is_interrupted);
    let cut_short = if is_cut { runs.pop() } else { None };
    Ok((runs, cut_short))
}

/// What names the events, and what they rest on.
struct Ground {
    table: &'static str,
    is_known_processor: bool,
    caches: Option<SimulatedCaches>,
}

fn outcome(runs: &Runs<'_>, ground: Ground, remarks: Vec<Warning>) -> Outcome {
    let mut report = StatReport { remarks, ..report(runs, ground) };
    let request = runs.request;
    if let Some(before) = &request.baseline {
        report.baseline = baseline::compare(&report, &report.figures(), before, request.threshold);
        report.baseline_of = baseline::baseline_of(before);
    }
    let (status, failure) = status(runs, &report);
    Outcome { report, status, failure }
}

fn report(runs: &Runs<'_>, ground: Ground) -> StatReport {
    let (request, last) = (runs.request, runs.last());
    let ended = runs.ended();
    let events = runs.events();
    StatReport {
        target: target(&request.what),
        tier: last.tier.or(request.tier).unwrap_or(Tier::Sw),
        tier_asked: request.tier.is_some(),
        event_table: ground.table.to_owned(),
        is_known_processor: ground.is_known_processor,
        caches: ground.caches,
        elapsed_s: runs.elapsed_s(),
        ended: ended.map(|ended| ExitStatus { status: ended.status, signal: ended.signal }),
        is_interrupted: last.is_interrupted || runs.cut_short.is_some(),
        is_time_up: runs.runs.iter().any(|run| run.is_time_up),
        environment: environment(&request.what),
        repetitions: runs.runs.len() as u64,
        unit_of_work: runs.unit_of_work(&events),
        rotation: runs.rotation(),
        metrics: runs.metrics(),
        intervals: last.intervals.clone(),
        threads: last.threads.clone(),
        baseline: Vec::new(),
        baseline_of: None,
        times: runs.times(),
        remarks: Vec::new(),
        events,
    }
}

/// What a command finds in its environment, which is this program's.
fn environment(what: &What) -> Option<Environment> {
    if !matches!(what, What::Command { .. }) {
        return None;
    }
    let octets = |(name, value): (OsString, OsString)| (name.len() + value.len() + 2) as u64;
    let variables: Vec<u64> = std::env::vars_os().map(octets).collect();
    Some(Environment { variables: variables.len() as u64, octets: variables.iter().sum() })
}

fn target(what: &What) -> StatTarget {
    match what {
        What::Command { argv } => {
            let argv = argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            StatTarget::Command { argv }
        }
        What::Process(pid) => StatTarget::Process { pid: *pid },
        What::Cpus(cpus) => StatTarget::Cpus { cpus: cpus.clone() },
    }
}

/// What to exit with, and what went wrong.
fn status(runs: &Runs<'_>, report: &StatReport) -> (i32, Option<String>) {
    let last = runs.last();
    if let Some(Err(error)) = last.command {
        return cannot_start(&runs.request.what, error.errno);
    }
    let own = runs.ended().map_or(0, |ended| match ended.signal {
        Some(signal) => 128 + signal,
        None => ended.status.unwrap_or(0),
    });
    if runs.request.strict {
        if let Some(reason) = refused(&runs.asked.events, &last.refusals) {
            return (if own == 0 { FAILED } else { own }, Some(reason));
        }
    }
    let is_compared = runs.request.baseline.is_some();
    if let Some(reason) = baseline::failure(&report.baseline).filter(|_| is_compared) {
        return (if own == 0 { FAILED } else { own }, Some(reason));
    }
    let is_worse = report.baseline.iter().any(|change| change.is_regression);
    (if own == 0 && is_worse { 1 } else { own }, None)
}

fn cannot_start(what: &What, errno: i32) -> (i32, Option<String>) {
    const ENOENT: i32 = 2;
    let command = match what {
        What::Command { argv } => argv[0].to_string_lossy().into_owned(),
        What::Process(_) | What::Cpus(_) => String::new(),
    };
    let status = if errno == ENOENT { NOT_FOUND } else { NOT_EXECUTABLE };
    let error = io::Error::from_raw_os_error(errno);
    (status, Some(format!("cannot run `{command}`: {error}")))
}
