// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts over time and counts per thread, with one column per event, in as many tables as needed
//! to fit the width.

use super::columns::{self, Column};
use super::events::with_error;
use crate::Style;
use crate::layout::{Paint, labelled};
use crate::value::{ABSENT, clean, reason, whole};
use linerate_record::Figure;
use linerate_record::stat::{IntervalCounts, StatReport};
use std::collections::BTreeSet;

/// Formats the counts of each interval.
pub(super) fn intervals(report: &StatReport, style: &Style) -> String {
    let rows: Vec<&[Figure]> = report.intervals.iter().map(|i| &i.counts[..]).collect();
    let time = |pick: fn(&IntervalCounts) -> f64| {
        report.intervals.iter().map(|interval| format!("{:.3}", pick(interval))).collect()
    };
    let first = [
        Column { head: ">from s".to_owned(), cells: time(|interval| interval.from_s) },
        Column { head: ">to s".to_owned(), cells: time(|interval| interval.to_s) },
    ];
    tables(&first, &rows, report, style)
}

/// Formats the counts of each thread.
pub(super) fn threads(report: &StatReport, style: &Style) -> String {
    let rows: Vec<&[Figure]> = report.threads.iter().map(|thread| &thread.counts[..]).collect();
    let tids = report.threads.iter().map(|thread| thread.tid.to_string());
    let names = report.threads.iter().map(|thread| clean(&thread.name));
    let first = [
        Column { head: ">thread".to_owned(), cells: tids.collect() },
        Column { head: "name".to_owned(), cells: names.collect() },
    ];
    tables(&first, &rows, report, style)
}

/// Formats the rows, dropping events that no row has a count for.
fn tables(first: &[Column], rows: &[&[Figure]], report: &StatReport, style: &Style) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let is_there = |figure: &Figure| figure.as_number().is_some();
    let counted = |index: usize| rows.iter().any(|row| row.get(index).is_some_and(is_there));
    let cell = |row: &[Figure], index: usize| {
        row.get(index).map_or_else(|| ABSENT.to_owned(), |figure| with_error(figure, whole))
    };
    let mut columns = Vec::new();
    let mut reasons = BTreeSet::new();
    for (index, event) in report.events.iter().enumerate().filter(|(index, _)| counted(*index)) {
        let cells = rows.iter().map(|row| cell(row, index)).collect();
        columns.push(Column { head: format!(">{}", event.name), cells });
        let absent = rows.iter().filter_map(|row| row.get(index)).filter(|f| !is_there(f));
        reasons.extend(absent.map(|figure| format!("{ABSENT}: {}", clean(reason(figure)))));
    }
    let reasons = reasons.iter().map(|reason| labelled("", Paint::Head, reason, style));
    columns::spread(first, &columns, style) + &reasons.collect::<String>()
}

/// Formats an interval that has just ended: its end time and the available counts.
pub fn interval_line(names: &[String], interval: &IntervalCounts, style: &Style) -> String {
    let counts = names.iter().zip(&interval.counts);
    let known = counts.filter(|(_, figure)| figure.as_number().is_some());
    let words: Vec<String> = known
        .map(|(name, figure)| clean(&format!("{name} {}", with_error(figure, whole))))
        .collect();
    labelled(&format!("{:.3} s", interval.to_s), Paint::Head, &words.join("; "), style)
}
