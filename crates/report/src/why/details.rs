// SPDX-License-Identifier: MIT OR Apache-2.0
//! Details of an observation: CPUs, functions, sockets, events, and what could not be read.

use super::sockets::sockets;
use super::{line, put};
use crate::Style;
use crate::layout::{Grid, Paint, labelled, painted, stacked};
use crate::value::{clean, count, percent, significant};
use linerate_record::Figure;
use linerate_record::answers::Evidence;
use linerate_record::why::{Observation, WhyReport};

/// Formats all details.
pub(super) fn details(report: &WhyReport, style: &Style) -> String {
    let observation = &report.observation;
    stacked(&[
        report
            .findings
            .iter()
            .map(|finding| evidence(finding.cause.title(), &finding.evidence, style))
            .collect(),
        report
            .remarks
            .iter()
            .map(|remark| {
                evidence(remark.id.title(), &remark.evidence, style)
                    + &line("wrong if", &remark.wrong_if, style)
            })
            .collect(),
        waits(observation, style),
        functions(observation, style),
        cpus(observation, style),
        sockets(&observation.sockets, style),
        events(observation, style),
        event_costs(observation, style),
        unread(observation, style),
    ])
}

fn headed(head: &str, grid: &Grid, style: &Style) -> String {
    match grid.render(style) {
        empty if empty.is_empty() => empty,
        table => painted(Paint::Head, head, style) + "\n" + &table,
    }
}

/// Formats the evidence for a finding or remark. `head` is its keyword.
fn evidence(head: &str, evidence: &[Evidence], style: &Style) -> String {
    let mut grid = Grid::new(&["evidence", ">value", "unit", "source"]);
    for one in evidence {
        let value = within(one);
        put(&mut grid, vec![one.name.clone(), value, one.unit.clone(), one.source.clone()]);
    }
    headed(head, &grid, style)
}

/// Formats a value with its interval, if that has two ends: `0.26 (0.22 to 0.3)`. All evidence
/// consists of quantities that are never negative; an interval that is symmetrical may be.
fn within(evidence: &Evidence) -> String {
    let value = significant(evidence.value);
    match evidence.low.zip(evidence.high) {
        Some((low, high)) => {
            format!("{value} ({} to {})", significant(low.max(0.0)), significant(high))
        }
        None => value,
    }
}

/// Lists the threads that ran on a CPU while an observed thread waited for it.
fn waits(observation: &Observation, style: &Style) -> String {
    let mut grid =
        Grid::new(&["waiting thread", "ran instead", ">tid", ">ms", ">times", ">longest ms"]);
    for thread in &observation.threads {
        for one in &thread.ran_instead {
            put(
                &mut grid,
                vec![
                    format!("{} {}", thread.name, thread.tid),
                    one.name.clone(),
                    one.tid.map_or_else(|| "several".to_owned(), |tid| tid.to_string()),
                    significant(one.seconds * 1e3),
                    count(one.times),
                    significant(one.longest_s * 1e3),
                ],
            );
        }
    }
    grid.render(style)
}

fn functions(observation: &Observation, style: &Style) -> String {
    let mut grid = Grid::new(&["thread", "function", "file", ">samples %", "polling"]);
    for thread in &observation.threads {
        for function in &thread.functions {
            put(
                &mut grid,
                vec![
                    format!("{} {}", thread.name, thread.tid),
                    function.name.clone(),
                    function.file.clone(),
                    percent(function.share),
                    match function.is_polling {
                        Some(true) => "yes",
                        Some(false) => "no",
                        None => "-",
                    }
                    .to_owned(),
                ],
            );
        }
    }
    grid.render(style)
}

fn cpus(observation: &Observation, style: &Style) -> String {
    let mut grid = Grid::new(&[
        ">cpu",
        ">user\n%",
        ">kernel\n%",
        ">irq\n%",
        ">stolen\n%",
        ">idle\n%",
        ">backlog",
        ">dropped",
        ">squeezed",
        ">NET_RX",
        ">interrupts",
    ]);
    for cpu in &observation.cpus {
        let shares = [cpu.user, cpu.system, cpu.interrupts, cpu.stolen, cpu.idle];
        let interrupts: u64 = cpu.hardware_interrupts.values().sum();
        let counts =
            [cpu.backlog_processed, cpu.backlog_dropped, cpu.time_squeezed, cpu.net_rx, interrupts];
        let cells = [cpu.cpu.to_string()].into_iter().chain(shares.map(percent));
        put(&mut grid, cells.chain(counts.map(count)).collect());
    }
    grid.render(style)
}

fn events(observation: &Observation, style: &Style) -> String {
    let mut grid = Grid::new(&["kernel event", "only", ">count"]);
    for event in &observation.events {
        let only = event.filter.clone().unwrap_or_default();
        put(&mut grid, vec![event.event.clone(), only, count(event.count)]);
    }
    let mut protocols = Grid::new(&["protocol counter", ">count"]);
    for (name, value) in &observation.protocols {
        put(&mut protocols, vec![name.clone(), count(*value)]);
    }
    stacked(&[grid.render(style), protocols.render(style)])
}

/// Formats the cost per kernel event on this machine, from which the total cost of the counted
/// events is estimated.
fn event_costs(observation: &Observation, style: &Style) -> String {
    let Some(costs) = &observation.event_costs else { return String::new() };
    let all = [
        ("a system call", Some(&costs.system_call)),
        ("a page fault", Some(&costs.page_fault)),
        ("mapping and unmapping a page", Some(&costs.page_mapping)),
        ("a sample", costs.sample.as_ref()),
    ];
    let one = |(name, cost): (&str, Option<&Figure>)| {
        Some(format!("{} us for {name}", significant(cost?.as_number()? / 1e3)))
    };
    let known: Vec<String> = all.into_iter().filter_map(one).collect();
    match known.is_empty() {
        true => String::new(),
        false => line("event cost", &format!("at least {} (measured)", known.join(", ")), style),
    }
}

/// Lists what could not be read, why, and the command that fixes it.
fn unread(observation: &Observation, style: &Style) -> String {
    let one = |unread: &linerate_record::why::Unread| {
        let fix = unread.fix.as_ref().map_or_else(String::new, |fix| line("  try", fix, style));
        let text = format!("{}: {}", unread.what, unread.reason);
        labelled("not read", Paint::Warning, &clean(&text), style) + &fix
    };
    observation.unread.iter().map(one).collect()
}
