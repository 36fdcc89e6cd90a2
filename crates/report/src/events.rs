// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports hardware events per packet and stage, or why they were not counted.

use crate::Style;
use crate::layout::{Grid, Paint, labelled};
use crate::value::{ABSENT, clean, number, reason, tiers};
use linerate_record::run::{CountedEvent, RunReport};
use linerate_record::{Figure, Scalar};
use std::collections::BTreeSet;

/// Formats a table of counts per stage, followed by missing events and why they are missing.
pub(crate) fn of_run(report: &RunReport, style: &Style) -> String {
    let Some(counted) = &report.counted else { return String::new() };
    let columns: Vec<&str> = columns(&counted.events);
    let names = columns.iter().map(|name| format!(">{}", head(name)));
    let heads: Vec<String> =
        ["worker", "counted in"].map(str::to_owned).into_iter().chain(names).collect();
    let mut grid = Grid::new(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    for worker in &report.workers {
        for stage in &worker.stages {
            let Some(events) = &stage.events else { continue };
            let values = columns.iter().map(|&name| events.get(name).map_or(ABSENT.into(), number));
            let cells = [clean(&worker.name), clean(&stage.name)];
            grid.row(cells.into_iter().chain(values).collect());
        }
    }
    let table = if columns.is_empty() { String::new() } else { grid.render(style) };
    table + &rests_on(report, style) + &missing(report, style)
}

/// Returns the counted events, followed by cycles per instruction if both of its events were
/// counted.
fn columns(events: &[CountedEvent]) -> Vec<&str> {
    let counted = events.iter().filter(|event| event.reason.is_none());
    let mut columns: Vec<&str> = counted.map(|event| event.name.as_str()).collect();
    if columns.contains(&"instructions") && columns.contains(&"cycles") {
        columns.push("cpi");
    }
    columns
}

fn head(name: &str) -> String {
    match name {
        "cpi" => "cycles/\ninstruction".to_owned(),
        name => format!("{}/\npacket", clean(name).replace('_', " ")),
    }
}

fn figures(report: &RunReport) -> impl Iterator<Item = &Figure> {
    let stages = report.workers.iter().flat_map(|worker| &worker.stages);
    stages.filter_map(|stage| stage.events.as_ref()).flat_map(|events| events.values())
}

/// Describes how the events were counted; empty if none were.
fn rests_on(report: &RunReport, style: &Style) -> String {
    let Some(counted) = &report.counted else { return String::new() };
    let Some(reading) = &counted.reading else { return String::new() };
    let tier = tiers(figures(report));
    let tier = if tier.is_empty() { "hw".to_owned() } else { tier };
    let turns = counted.one_iteration_in;
    let text =
        format!("evidence tier {tier}: {reading} around each stage, in 1 of {turns} iterations");
    labelled("counters", Paint::Head, &clean(&text), style)
}

/// Lists the reasons for missing events, without duplicates.
fn missing(report: &RunReport, style: &Style) -> String {
    let Some(counted) = &report.counted else { return String::new() };
    let mut told = BTreeSet::new();
    let mut lines = String::new();
    for event in counted.events.iter().filter(|event| event.reason.is_some()) {
        let why = event.reason.as_deref().unwrap_or("");
        if told.insert(why) {
            let names = names_missing_for(&counted.events, why);
            let fix = event.fix.as_ref().map_or(String::new(), |fix| format!("; try: {fix}"));
            let text = clean(&format!("{ABSENT} for {names}: {why}{fix}"));
            lines += &labelled("counters", Paint::Head, &text, style);
        }
    }
    let absent = figures(report).filter(|figure| figure.value == Scalar::Absent);
    let reasons: BTreeSet<&str> = absent.map(reason).collect();
    let note = |reason: &str| clean(&format!("{ABSENT} in a stage: {reason}"));
    lines.extend(reasons.into_iter().map(|r| labelled("", Paint::Head, &note(r), style)));
    lines
}

fn names_missing_for(events: &[CountedEvent], reason: &str) -> String {
    let same = events.iter().filter(|event| event.reason.as_deref() == Some(reason));
    same.map(|event| event.name.as_str()).collect::<Vec<_>>().join(", ")
}
