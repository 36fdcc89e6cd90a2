// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times by chain size, and events compared with the known number of loads.

use super::{Page, curve_name};
use crate::layout::{Grid, Paint, labelled};
use crate::value::{ABSENT, clean, count, number, tiers as evidence};
use linerate_record::memory::{Curve, CurvePoint, EventOfChase, EventsOfSize};
use linerate_record::units::{memory_size, three_digits};
use std::collections::{BTreeMap, BTreeSet};

/// Formats loads, time and cycles for every size, compared with other load orders.
pub(super) fn times(page: &Page) -> String {
    let report = page.report;
    let Some(curve) = report.main_curve().or(report.curves.first()) else { return String::new() };
    let others = report.curves.iter().filter(|other| !std::ptr::eq(*other, curve));
    let others: Vec<&Curve> = others.collect();
    let heads = [">size", ">lines", ">loads", ">time\nms", ">mean\nns", ">least\nns", ">CPI"];
    let beside = others.iter().map(|other| format!(">{}\nns", curve_name(other, report)));
    let heads: Vec<String> = heads.into_iter().map(str::to_owned).chain(beside).collect();
    let mut grid = Grid::new(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    let (own, beside) = (by_size(curve), others.iter().map(|other| by_size(other)));
    let beside: Vec<BTreeMap<u64, &CurvePoint>> = beside.collect();
    let sizes: BTreeSet<&u64> = own.keys().chain(beside.iter().flat_map(BTreeMap::keys)).collect();
    for bytes in sizes {
        let own = own.get(bytes).map_or_else(Default::default, |point| cells(point));
        let beside = beside.iter().map(|points| {
            points.get(bytes).map_or_else(String::new, |point| number(&point.latency_ns))
        });
        let size = memory_size(*bytes as f64);
        grid.row(std::iter::once(size).chain(own).chain(beside).collect());
    }
    let title = format!("time vs. size, {}", curve_name(curve, report));
    page.title(&title) + &grid.render(page.style) + &page.note(NOTE)
}

fn by_size(curve: &Curve) -> BTreeMap<u64, &CurvePoint> {
    curve.points.iter().map(|point| (point.bytes, point)).collect()
}

const NOTE: &str = "loads: lines times iterations, summed over all valid windows; time and mean: \
                    measured over these loads; least: ns per load in the fastest, least disturbed \
                    window; CPI: core cycles per load in that window, which are roughly cycles \
                    per instruction, since the chase executes little else";

fn cells(point: &CurvePoint) -> [String; 6] {
    let mean = point.elapsed_s * 1e9 / point.loads as f64;
    [
        count(point.lines),
        count(point.loads),
        three_digits(point.elapsed_s * 1e3),
        if mean.is_finite() { three_digits(mean) } else { ABSENT.to_owned() },
        number(&point.latency_ns),
        number(&point.cycles),
    ]
}

/// Marks an implausible count.
const DOUBTED: &str = "!";

/// Formats events per load for every size or, if none were counted, the reason.
pub(super) fn events(page: &Page) -> String {
    let sizes = &page.report.events;
    if sizes.is_empty() {
        let why = page.report.events_reason.as_deref().unwrap_or("no reason given");
        return page.line("events", &format!("{ABSENT} {why}"));
    }
    let mut names: Vec<&str> = Vec::new();
    for event in sizes.iter().flat_map(|size| &size.events) {
        if !names.contains(&event.event.as_str()) {
            names.push(&event.event);
        }
    }
    // Break headings at underscores, so that many columns fit.
    let heads = names.iter().map(|name| format!(">{}", name.replace('_', "_\n")));
    let heads: Vec<String> =
        [">size", ">loads"].into_iter().map(str::to_owned).chain(heads).collect();
    let mut grid = Grid::new(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    for size in sizes {
        let cell = |name: &&str| {
            let event = size.events.iter().find(|event| event.event == **name);
            event.map_or_else(String::new, per_load)
        };
        let first = [memory_size(size.bytes as f64), count(size.loads)];
        grid.row(first.into_iter().chain(names.iter().map(cell)).collect());
    }
    let figures = sizes.iter().flat_map(|size| &size.events);
    let absent = figures.map(|event| (event.event.clone(), &event.per_load));
    let counted = evidence(sizes.iter().flat_map(|size| &size.events).map(|event| &event.per_load));
    let level = if counted.is_empty() { String::new() } else { format!(", tier {counted}") };
    page.title(&format!("events per load{level}"))
        + &grid.render(page.style)
        + &page.reasons(absent)
        + &doubts(page)
}

fn per_load(event: &EventOfChase) -> String {
    let mark = if event.plausible == Some(false) { DOUBTED } else { "" };
    format!("{}{mark}", number(&event.per_load))
}

/// Lists counts that are implausible given the number of loads.
pub(super) fn doubts(page: &Page) -> String {
    let doubted = |size: &EventsOfSize| {
        let is_doubted = |event: &&EventOfChase| event.plausible == Some(false);
        let text = |event: &EventOfChase| {
            let why = event.doubt.as_deref().unwrap_or("no reason given");
            let (event, bytes) = (&event.event, memory_size(size.bytes as f64));
            let text = clean(&format!("{event} at {bytes} is implausible: {why}"));
            labelled("events", Paint::Warning, &text, page.style)
        };
        size.events.iter().filter(is_doubted).map(text).collect::<String>()
    };
    page.report.events.iter().map(doubted).collect()
}
