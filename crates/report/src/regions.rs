// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of a `regions` record: a table of costs per unit of work, notes, and the reasons for
//! missing values.
//!
//! Totals over visits, and intervals, are only in the record.

use crate::Style;
use crate::layout::{Grid, Paint, labelled, stacked};
use crate::value::{ABSENT, clean, count, quoted, reason, significant, tiers};
use linerate_record::Figure;
use linerate_record::regions::{RegionEvent, RegionReport, RegionTotal, RegionsReport};
use std::collections::BTreeMap;

/// Formats the report of a program's regions.
pub fn regions(report: &RegionsReport, style: &Style) -> String {
    stacked(&[
        head(report, style),
        totals(report, style),
        of_threads(report, style),
        verdicts(report, style),
        missing(report, style),
    ])
}

fn line(label: &str, text: &str, style: &Style) -> String {
    labelled(label, Paint::Head, &clean(text), style)
}

fn head(report: &RegionsReport, style: &Style) -> String {
    let figures = report.regions.iter().flat_map(|region| {
        let counts = region.events.iter().map(|event| &event.count);
        counts.chain([&region.ticks, &region.own_ticks])
    });
    let tiers = tiers(figures);
    let tier = if tiers.is_empty() { String::new() } else { format!("; tier {tiers}") };
    let own = quoted(&report.own_ticks, significant);
    line("read by", &format!("{}{tier}", report.reading), style)
        + &line("cost", &format!("empty region: {own} ticks, subtracted below"), style)
}

/// Returns the events of all regions, in order of first appearance.
fn events(report: &RegionsReport) -> Vec<&str> {
    let mut names = Vec::new();
    for event in report.regions.iter().flat_map(|region| &region.events) {
        if !names.contains(&event.name.as_str()) {
            names.push(&event.name);
        }
    }
    names
}

fn has_threads(report: &RegionsReport) -> bool {
    report.regions.windows(2).any(|pair| pair[0].tid != pair[1].tid)
}

/// A table row: a region in one thread, or its total over all threads.
struct Row<'a> {
    name: &'a str,
    /// Thread ID or, in a row of totals, the number of threads; `None` if the program has only one.
    thread: Option<String>,
    visits: u64,
    units: u64,
    ticks: &'a Figure,
    own_ticks: &'a Figure,
    events: &'a [RegionEvent],
}

impl<'a> Row<'a> {
    fn of_thread(region: &'a RegionReport, has_threads: bool) -> Self {
        let RegionReport { name, tid, visits, units, ticks, own_ticks, events, .. } = region;
        let thread = has_threads.then(|| tid.to_string());
        Self { name, thread, visits: *visits, units: *units, ticks, own_ticks, events }
    }

    fn of_all(total: &'a RegionTotal<'a>) -> Self {
        let RegionTotal { name, threads, visits, units, ticks, own_ticks, events } = total;
        let thread = Some(count(*threads as u64));
        Self { name, thread, visits: *visits, units: *units, ticks, own_ticks, events }
    }
}

/// Formats the totals over all threads, if there are several.
fn totals(report: &RegionsReport, style: &Style) -> String {
    if !has_threads(report) {
        return String::new();
    }
    let totals = report.totals();
    let rows: Vec<Row<'_>> = totals.iter().map(Row::of_all).collect();
    table(&rows, Some(">threads"), &events(report), style)
}

/// Formats the regions of each thread.
fn of_threads(report: &RegionsReport, style: &Style) -> String {
    if report.regions.is_empty() {
        return line("", "no region was entered", style);
    }
    let has_threads = has_threads(report);
    let rows = report.regions.iter().map(|region| Row::of_thread(region, has_threads));
    let rows: Vec<Row<'_>> = rows.collect();
    table(&rows, has_threads.then_some(">thread"), &events(report), style)
}

fn table(rows: &[Row<'_>], thread: Option<&str>, events: &[&str], style: &Style) -> String {
    let heads = ["region"].into_iter().chain(thread);
    let heads = heads.chain([">visits", ">units", "per", ">ticks", ">own\nticks"]);
    let heads =
        heads.map(str::to_owned).chain(events.iter().map(|name| format!(">{}", clean(name))));
    let heads: Vec<String> = heads.collect();
    let mut grid = Grid::new(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    for region in rows {
        let (word, divisor) = match region.units {
            0 => ("visit", region.visits),
            units => ("unit", units),
        };
        let of = |figure: Option<&Figure>| match figure.and_then(Figure::as_number) {
            Some(value) if divisor > 0 => significant(value / divisor as f64),
            _ => ABSENT.to_owned(),
        };
        let units = if region.units == 0 { ABSENT.to_owned() } else { count(region.units) };
        let mut row = vec![clean(region.name)];
        row.extend(region.thread.clone());
        row.extend([count(region.visits), units, word.to_owned()]);
        row.extend([of(Some(region.ticks)), of(Some(region.own_ticks))]);
        row.extend(events.iter().map(|name| of(figure_of(region.events, name))));
        grid.row(row);
    }
    grid.render(style)
}

fn figure_of<'a>(events: &'a [RegionEvent], event: &str) -> Option<&'a Figure> {
    events.iter().find(|found| found.name == event).map(|found| &found.count)
}

/// Formats the notes, one paragraph per region and thread.
fn verdicts(report: &RegionsReport, style: &Style) -> String {
    let threads = has_threads(report);
    let paragraph = |region: &RegionReport| {
        let thread = if threads { format!(" of thread {}", region.tid) } else { String::new() };
        line("", &format!("{}{thread}: {}", region.name, region.verdict), style)
    };
    report.regions.iter().map(paragraph).collect()
}

/// Lists why numbers are missing, with the figures affected.
fn missing(report: &RegionsReport, style: &Style) -> String {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut note = |figure, what| {
        let named = reasons.entry(reason(figure)).or_default();
        if !named.contains(&what) {
            named.push(what);
        }
    };
    for region in &report.regions {
        if region.ticks.as_number().is_none() {
            note(&region.ticks, &region.name);
        }
        for event in region.events.iter().filter(|event| event.count.as_number().is_none()) {
            note(&event.count, &event.name);
        }
    }
    let paragraph = |(reason, what): (&str, Vec<&str>)| {
        let text = clean(&format!("{}: {reason}", what.join(", ")));
        labelled("missing:", Paint::Warning, &text, style)
    };
    reasons.into_iter().map(paragraph).collect()
}
