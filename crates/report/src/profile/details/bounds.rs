// SPDX-License-Identifier: MIT OR Apache-2.0
//! What bounds the program and its functions, which memory they wait for, and cache lines shared by
//! threads.

use crate::Style;
use crate::layout::{Grid, Paint, labelled, painted};
use crate::value::{ABSENT, cell, clean, count, interval, percent};
use linerate_record::profile::{BoundFinding, ProfileReport};
use linerate_record::stats::interval_name;
use linerate_record::units::three_digits;
use linerate_record::why::SharedLine;

/// Formats the findings on the program and its hottest functions, with evidence.
pub(super) fn bounds(report: &ProfileReport, style: &Style) -> String {
    report.bounds.iter().map(|one| bound(report, one, style)).collect()
}

fn bound(report: &ProfileReport, one: &BoundFinding, style: &Style) -> String {
    let function = one.function.and_then(|index| report.functions.get(index as usize));
    let of = function.map_or(report.sampled.name.as_str(), |function| &function.name);
    let line = |label: &str, text: &str| labelled(label, Paint::Head, &clean(text), style);
    let head = format!("{of}: {}. {}", one.bound_by.title(), one.sentence);
    let mut text = labelled("bound by", Paint::Head, &clean(&head), style);
    let shown = |value: f64, unit: &str| match unit {
        "ratio" => three_digits(value),
        _ => format!("{} {unit}", three_digits(value)),
    };
    let parts: Vec<String> = one
        .evidence
        .iter()
        .map(|part| format!("{} {} ({})", part.name, shown(part.value, &part.unit), part.source))
        .collect();
    if !parts.is_empty() {
        text += &line("evidence", &parts.join(", "));
    }
    if let Some(wrong) = &one.wrong_if {
        text += &line("wrong if", wrong);
    }
    text + &line("next", &one.next)
}

/// Formats the samples on instructions that access memory, by kind of memory.
pub(super) fn memory(report: &ProfileReport, style: &Style) -> String {
    let interval_head = interval_name() + " %";
    let mut grid = Grid::new(&["memory", ">samples", ">share %", &interval_head]);
    for one in &report.memory {
        grid.row(vec![
            one.kind.name().replace('_', " "),
            count(one.samples),
            cell(&one.share, percent),
            interval(&one.share, percent).unwrap_or_else(|| ABSENT.to_owned()),
        ]);
    }
    match grid.render(style) {
        empty if empty.is_empty() => empty,
        table => {
            let head = "Samples on instructions that access memory, by kind of memory";
            painted(Paint::Head, head, style) + "\n" + &table
        }
    }
}

/// Formats cache lines that threads are suspected of sharing, with the accesses of each thread.
pub(super) fn shared_lines(report: &ProfileReport, style: &Style) -> String {
    let one = |line: &SharedLine| {
        let users: Vec<String> = line
            .threads
            .iter()
            .map(|user| {
                let verb = if user.is_written { "writes" } else { "reads" };
                let (first, last) = (user.first_byte, user.last_byte);
                format!(
                    "thread {} {verb} bytes {first} to {last} in {} ({} % of its samples)",
                    user.tid,
                    user.function,
                    percent(user.share)
                )
            })
            .collect();
        let what = match line.has_common_bytes {
            true => "contended bytes suspected",
            false => "false sharing suspected",
        };
        let text = format!("{what} in the cache line at {}: {}", line.address, users.join("; "));
        labelled("shared line", Paint::Head, &clean(&text), style)
    };
    report.shared_lines.iter().map(one).collect()
}
