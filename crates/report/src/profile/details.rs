// SPDX-License-Identifier: MIT OR Apache-2.0
//! Details of a profile: kinds of work, bounds, memory accesses, shared cache lines, threads, call
//! paths, and what could not be sampled.

mod bounds;

use crate::Style;
use crate::layout::{Grid, Paint, labelled, painted, stacked};
use crate::value::{ABSENT, cell, clean, count, interval, percent};
use linerate_record::Figure;
use linerate_record::profile::ProfileReport;
use linerate_record::stats::interval_name;
use linerate_record::units::three_digits;

/// Maximum number of call paths.
const MOST_PATHS: usize = 20;

pub(super) fn details(report: &ProfileReport, style: &Style) -> String {
    stacked(&[
        classes(report, style),
        bounds::bounds(report, style),
        bounds::memory(report, style),
        bounds::shared_lines(report, style),
        threads(report, style),
        paths(report, style),
        unread(report, style),
    ])
}

fn headed(head: &str, grid: &Grid, style: &Style) -> String {
    match grid.render(style) {
        empty if empty.is_empty() => empty,
        table => painted(Paint::Head, head, style) + "\n" + &table,
    }
}

fn classes(report: &ProfileReport, style: &Style) -> String {
    let interval_head = interval_name() + " %";
    let mut grid = Grid::new(&["work", ">samples", ">share %", &interval_head, ">ns/packet"]);
    for class in &report.classes {
        grid.row(vec![
            class.class.title(),
            count(class.samples),
            cell(&class.share, percent),
            interval(&class.share, percent).unwrap_or_else(|| ABSENT.to_owned()),
            cell(&class.ns_per_packet, three_digits),
        ]);
    }
    headed("Kinds of work", &grid, style)
}

fn threads(report: &ProfileReport, style: &Style) -> String {
    let mut grid = Grid::new(&[
        "thread",
        ">pid",
        ">tid",
        ">samples",
        ">share %",
        ">busy %",
        ">ns/packet",
        ">capacity kpps",
    ]);
    for thread in &report.threads {
        grid.row(vec![
            clean(&thread.name),
            thread.pid.to_string(),
            thread.tid.to_string(),
            count(thread.samples),
            percent(thread.samples as f64 / report.samples.max(1) as f64),
            cell(&thread.busy, percent),
            cell(&thread.ns_per_packet, three_digits),
            kpps(&thread.capacity),
        ]);
    }
    headed("Threads", &grid, style)
}

fn kpps(rate: &Figure) -> String {
    cell(rate, |rate| three_digits(rate / 1e3))
}

/// Formats the call paths with the most samples, innermost function last.
fn paths(report: &ProfileReport, style: &Style) -> String {
    let mut nodes: Vec<usize> = (0..report.calls.len()).collect();
    nodes.retain(|&at| report.calls[at].samples > 0);
    nodes.sort_by_key(|&at| (std::cmp::Reverse(report.calls[at].samples), at));
    let mut grid = Grid::new(&[">share %", "thread", "call path"]);
    for &at in nodes.iter().take(MOST_PATHS) {
        let path: Vec<&str> = report.path(at).iter().map(|one| one.name.as_str()).collect();
        let node = &report.calls[at];
        let thread = report.thread_of(node);
        grid.row(vec![
            percent(node.samples as f64 / report.samples.max(1) as f64),
            clean(thread.map_or(ABSENT, |thread| &thread.name)),
            clean(&path.join(" > ")),
        ]);
    }
    headed("Call paths", &grid, style)
}

fn unread(report: &ProfileReport, style: &Style) -> String {
    let one = |unread: &linerate_record::why::Unread| {
        let fix = unread.fix.as_ref().map_or_else(String::new, |fix| format!("; {fix}"));
        let text = clean(&format!("{}: {}{fix}", unread.what, unread.reason));
        labelled("not read", Paint::Warning, &text, style)
    };
    report.unread.iter().map(one).collect()
}
