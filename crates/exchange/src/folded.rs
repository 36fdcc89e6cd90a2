// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes folded stacks, the input format of flame graph tools: one line `outer;inner COUNT` for
//! each call path, or for each part of another breakdown of time.
//!
//! The counts depend on the record, and are rounded:
//!
//! - run, tune: busy ticks of each stage, and starved, blocked and preempted ticks of each worker,
//!   computed from their shares of the measurement time
//! - regions: ticks in the region itself, excluding nested regions
//! - VPP: ticks of each node
//! - profile: samples by call path
//! - a simulated command: counts of the requested event, by module and function
//!
//! Entries that were never timed or counted are omitted.

use crate::CannotWrite;
use linerate_record::profile::ProfileReport;
use linerate_record::run::RunReport;
use linerate_record::stat::HotSpots;
use linerate_record::{Body, Record};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Returns a record's folded stacks.
///
/// # Errors
/// Returns an error if the record has no breakdown of time and no counts by function.
pub fn stacks(record: &Record) -> Result<String, CannotWrite> {
    let mut text = String::new();
    match &record.body {
        Body::Run(run) => of_run(run, &mut text),
        Body::Tune(tune) => of_run(&tune.tuned, &mut text),
        Body::Regions(report) => {
            for region in &report.regions {
                let path = region.name.split('/').map(frame).collect::<Vec<_>>().join(";");
                let stack = format!("thread {};{path}", region.tid);
                append_stack(&mut text, &stack, region.own_ticks.as_number());
            }
        }
        Body::Strands(report) => {
            for worker in &report.strands {
                for node in &worker.nodes {
                    let stack = format!("{};{}", frame(&worker.label()), frame(&node.name));
                    let each = node.ticks_per_packet.as_number();
                    append_stack(&mut text, &stack, each.map(|each| each * node.packets as f64));
                }
            }
        }
        Body::Profile(report) => of_profile(report, &mut text),
        Body::Stat(report) => report.hot.iter().for_each(|hot| of_hot_spots(hot, &mut text)),
        _ => {}
    }
    if text.is_empty() {
        return Err(CannotWrite(
            "the record has no time breakdown: folded stacks can be made only from a run, tune, \
             profile, regions or stat --hot record, or from an import from VPP"
                .to_owned(),
        ));
    }
    Ok(text)
}

fn of_run(run: &RunReport, text: &mut String) {
    let all = run.elapsed_s * run.ticks_per_s;
    for worker in &run.workers {
        let name = frame(&format!("worker {}", worker.name));
        for stage in &worker.stages {
            // Based on the stage's share of the measurement phase, because the packets of the whole
            // run would overstate the ticks.
            let ticks = stage.busy.map(|share| share * all);
            append_stack(text, &format!("{name};{}", frame(&stage.name)), ticks);
        }
        if let Some(time) = worker.time {
            let waits = [("starved", time.starved), ("blocked", time.blocked), ("lost", time.lost)];
            for (wait, share) in waits {
                append_stack(text, &format!("{name};[{wait}]"), Some(share * all));
            }
        }
    }
}

/// Adds a profile's stacks, merging threads with the same name.
fn of_profile(report: &ProfileReport, text: &mut String) {
    let mut stacks = BTreeMap::<String, u64>::new();
    for (at, node) in report.calls.iter().enumerate().filter(|(_, node)| node.samples > 0) {
        let thread = report.thread_of(node).map_or("", |thread| &thread.name);
        let names = report.path(at).into_iter().map(|one| frame(&one.name));
        let stack: Vec<String> = std::iter::once(frame(thread)).chain(names).collect();
        *stacks.entry(stack.join(";")).or_default() += node.samples;
    }
    for (stack, samples) in stacks {
        append_stack(text, &stack, Some(samples as f64));
    }
}

/// Adds the functions' counts without rounding, so that they add up to the total.
fn of_hot_spots(hot: &HotSpots, text: &mut String) {
    for function in &hot.functions {
        let count = hot.count(&hot.by, &function.counts);
        if count > 0 {
            let (module, name) = (frame(&function.module), frame(&function.name));
            let _ = writeln!(text, "{module};{name} {count}");
        }
    }
}

fn append_stack(text: &mut String, stack: &str, ticks: Option<f64>) {
    if let Some(ticks) = ticks.filter(|ticks| *ticks >= 0.5) {
        let _ = writeln!(text, "{stack} {ticks:.0}");
    }
}

/// Returns the name of a stack frame without characters that separate frames or end a line.
fn frame(name: &str) -> String {
    name.chars().map(|c| if c == ';' || c.is_control() { '_' } else { c }).collect()
}
