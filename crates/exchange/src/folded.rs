// SPDX-License-Identifier: MIT OR Apache-2.0
//! Folded stacks: one line per place in a program, `outer;inner COUNT`, the input of programs that
//! draw flame graphs.
//!
//! Counts are rounded ticks: for a run, the working ticks of each stage and the waiting ticks of
//! its worker, by their shares of the measured time; for regions, the ticks in the region itself;
//! for VPP, the ticks of each node; for a profile, samples by call path. Places that were never
//! timed are omitted.

use crate::CannotWrite;
use linerate_record::profile::ProfileReport;
use linerate_record::run::RunReport;
use linerate_record::{Body, Record};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Returns the stacks of a record.
///
/// # Errors
/// The record has no breakdown of time.
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
        _ => {}
    }
    if text.is_empty() {
        return Err(CannotWrite(
            "the record has no time breakdown: folded stacks need a run, tune, profile or regions \
             record, or an import from VPP"
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
            // The stage's share of the measured part; the packets of the whole run would overstate
            // it.
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

/// Threads with the same name are merged.
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

fn append_stack(text: &mut String, stack: &str, ticks: Option<f64>) {
    if let Some(ticks) = ticks.filter(|ticks| *ticks >= 0.5) {
        let _ = writeln!(text, "{stack} {ticks:.0}");
    }
}

/// Frame name without the characters that separate frames or end a line.
fn frame(name: &str) -> String {
    name.chars().map(|c| if c == ';' || c.is_control() { '_' } else { c }).collect()
}
