// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts by function: the functions with the highest counts of the requested event, and their
//! source lines.

use super::columns::{self, Column};
use crate::Style;
use crate::layout::{Paint, labelled};
use crate::value::{ABSENT, clean, count, cut, percent};
use linerate_record::stat::{HotFunction, HotSpots, StatReport};
use linerate_record::units::counted;

/// Maximum number of functions.
pub(super) const MOST: usize = 20;
/// Maximum number of functions on one screen.
pub(super) const ON_SCREEN: usize = 12;
/// Event shown next to the requested event. If instructions are requested, `MISSES` is shown
/// instead.
const INSTRUCTIONS: &str = "instructions";
const MISSES: &str = "l1d_misses";
/// Minimum width of a function name.
const LEAST_COLUMNS: usize = 24;

/// Formats at most `most` functions; empty if counts by function were not requested.
pub(super) fn table(report: &StatReport, most: usize, style: &Style) -> String {
    let Some(hot) = &report.hot else { return String::new() };
    let own = |function: &HotFunction| hot.count(&hot.by, &function.counts);
    let shown: Vec<&HotFunction> =
        hot.functions.iter().filter(|function| own(function) > 0).take(most).collect();
    let total = hot.count(&hot.by, &hot.totals);
    if shown.is_empty() {
        return labelled("hot spots", Paint::Head, &format!("no {}", clean(&hot.by)), style);
    }
    let mut table = vec![share(hot, &shown), counts(hot, &hot.by, &shown)];
    let other = if hot.by == INSTRUCTIONS { MISSES } else { INSTRUCTIONS };
    if hot.events.iter().any(|event| event == other) {
        table.push(counts(hot, other, &shown));
    }
    let lines = hottest_lines(hot, &shown);
    let taken = columns::width(&[&table[..], &lines[..]].concat());
    let room = style.width.saturating_sub(taken + 4).max(LEAST_COLUMNS);
    table.push(Column {
        head: "function (module)".to_owned(),
        cells: shown.iter().map(|function| cut(&name(function), room)).collect(),
    });
    table.extend(lines);
    let text = columns::render(&table, style);
    let rest = total - shown.iter().map(|function| own(function)).sum::<u64>().min(total);
    text + &more(hot, shown.len(), rest) + &unread(hot, &shown, style)
}

/// Returns `count` as a fraction of `total`, the count of the whole command.
fn share_of(count: u64, total: u64) -> f64 {
    count as f64 / total.max(1) as f64
}

fn share(hot: &HotSpots, shown: &[&HotFunction]) -> Column {
    let total = hot.count(&hot.by, &hot.totals);
    let cell =
        |function: &&HotFunction| percent(share_of(hot.count(&hot.by, &function.counts), total));
    Column { head: ">share\n%".to_owned(), cells: shown.iter().map(cell).collect() }
}

fn counts(hot: &HotSpots, event: &str, shown: &[&HotFunction]) -> Column {
    let cell = |function: &&HotFunction| count(hot.count(event, &function.counts));
    Column { head: format!(">{}", clean(event)), cells: shown.iter().map(cell).collect() }
}

fn name(function: &HotFunction) -> String {
    let HotFunction { name, module, .. } = function;
    // A function without a name is named after its module: `libc.so.6+0x26e40`.
    match name.starts_with(module.as_str()) {
        true => clean(name),
        false => clean(&format!("{name} ({module})")),
    }
}

/// Returns a column with each function's hottest line and the line's share of the function's count.
/// Returns no column if no function has lines.
fn hottest_lines(hot: &HotSpots, shown: &[&HotFunction]) -> Vec<Column> {
    if shown.iter().all(|function| function.lines.is_empty()) {
        return Vec::new();
    }
    let cell = |function: &&HotFunction| {
        let Some(hottest) = function.lines.first() else { return ABSENT.to_owned() };
        let [own, all] = [&hottest.counts, &function.counts].map(|one| hot.count(&hot.by, one));
        let file = hottest.file.rsplit('/').next().unwrap_or_default();
        format!("{}:{} ({} %)", clean(file), hottest.line, percent(share_of(own, all)))
    };
    let head = "hottest line".to_owned();
    vec![Column { head, cells: shown.iter().map(cell).collect() }]
}

/// States how many functions are not shown, and their share of the total count.
fn more(hot: &HotSpots, shown: usize, rest: u64) -> String {
    let counted_ones = hot.functions.iter().filter(|one| hot.count(&hot.by, &one.counts) > 0);
    let others = counted_ones.count() - shown;
    if others == 0 {
        return String::new();
    }
    let share = percent(share_of(rest, hot.count(&hot.by, &hot.totals)));
    let functions = counted(others as u64, "more function");
    format!("{functions} with {share} % of {} (--json lists all)\n", clean(&hot.by))
}

/// States why names are missing and, if the hottest function has no lines, why lines are missing.
fn unread(hot: &HotSpots, shown: &[&HotFunction], style: &Style) -> String {
    let has_lines = shown.first().is_some_and(|function| !function.lines.is_empty());
    let module = shown.first().map_or("", |function| &function.module);
    let is_wanted = |what: &str, reason: &str| match what {
        "lines" => !has_lines && reason.contains(&format!(" {module}: ")),
        _ => true,
    };
    let unread = hot.unread.iter().filter(|one| is_wanted(&one.what, &one.reason));
    unread.map(|one| labelled("unknown", Paint::Head, &clean(&one.reason), style)).collect()
}
