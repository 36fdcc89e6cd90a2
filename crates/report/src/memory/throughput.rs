// SPDX-License-Identifier: MIT OR Apache-2.0
//! Outstanding loads, bandwidth, and latency under load.

use super::Page;
use crate::layout::Grid;
use crate::value::{ABSENT, in_sentence, number, percent, ranged};
use linerate_record::Figure;
use linerate_record::memory::{Bandwidth, LoadedLatency, MemoryReport, Operation};
use linerate_record::units::{ranges, three_digits};
use std::collections::BTreeSet;

const OPERATIONS: [(Operation, &str); 3] =
    [(Operation::Read, "read"), (Operation::Write, "write"), (Operation::Copy, "copy")];

/// Formats a table with one line per level: outstanding loads, and bandwidth by operation and
/// thread count. The last line is the upper bound on the bandwidth.
pub(super) fn table(page: &Page) -> String {
    let report = page.report;
    let cases = cases(&report.bandwidth);
    let mut grid = Grid::new(&heads(&cases).iter().map(String::as_str).collect::<Vec<_>>());
    let mut figures: Vec<(String, &Figure)> = Vec::new();
    let mut is_any_open = false;
    for level in levels(report) {
        let parallelism = report.parallelism.iter().find(|row| row.level == level);
        let gb_per_s = cases.iter().map(|case| {
            let mut rows = report.bandwidth.iter().filter(|row| case.is_of(row));
            rows.find(|row| row.level == level).map(|row| &row.gb_per_s)
        });
        let outstanding = parallelism.map(|row| &row.outstanding);
        let cells: Vec<Option<&Figure>> = std::iter::once(outstanding).chain(gb_per_s).collect();
        let of = |what: &str, figure| (format!("{what} of {level}"), figure);
        figures.extend(outstanding.map(|figure| of("outstanding loads", figure)));
        figures.extend(cells.iter().skip(1).flatten().map(|figure| of("GB/s", *figure)));
        is_any_open |= outstanding.is_some_and(is_open);
        let cell = |figure: &Figure| number(figure) + if is_open(figure) { "+" } else { "" };
        let shown = cells.into_iter().map(|figure| figure.map_or_else(String::new, cell));
        grid.row(std::iter::once(level.to_owned()).chain(shown).collect());
    }
    let bounds: Vec<Option<f64>> = cases.iter().map(|case| case.bound(&report.bandwidth)).collect();
    if bounds.iter().any(Option::is_some) {
        let shown = bounds.iter().map(|bound| bound.map_or(ABSENT.to_owned(), three_digits));
        grid.row(["bound".to_owned(), String::new()].into_iter().chain(shown).collect());
    }
    let table = grid.render(page.style);
    if table.is_empty() {
        return table;
    }
    let cpus = ranges(&report.conditions.cpus, ", ");
    let on = if cpus.is_empty() { String::new() } else { format!(" on cpu {cpus}") };
    let title = match cases.is_empty() {
        true => "outstanding loads".to_owned(),
        false => format!("outstanding loads; GB/s (10^9 bytes per second){on}"),
    };
    let open = if is_any_open { page.note(OPEN) } else { String::new() };
    let bound = if bounds.iter().any(Option::is_some) { page.note(BOUND) } else { String::new() };
    page.title(&title) + &table + &page.reasons(figures) + &open + &bound
}

/// Returns whether a value is only a lower bound.
fn is_open(figure: &Figure) -> bool {
    figure.as_number().is_some() && figure.low.is_some() && figure.high.is_none()
}

const OPEN: &str =
    "+: lower bound; throughput still rose at the largest number of parallel chains tried";

const BOUND: &str =
    "bound: the rate of the same loop over a few lines in L1 or, if higher, the best rate measured";

/// Heading of a bandwidth column.
struct Case {
    threads: u32,
    operation: Operation,
    name: &'static str,
}

impl Case {
    fn is_of(&self, row: &Bandwidth) -> bool {
        (row.threads, row.operation) == (self.threads, self.operation)
    }

    /// Returns the upper bound: the rate of the same loop with all lines in L1 or, if higher, the
    /// highest rate at any level.
    fn bound(&self, rows: &[Bandwidth]) -> Option<f64> {
        let rows = rows.iter().filter(|row| self.is_of(row));
        rows.filter_map(|row| row.bound.as_number()).reduce(f64::max)
    }
}

fn cases(rows: &[Bandwidth]) -> Vec<Case> {
    let threads: BTreeSet<u32> = rows.iter().map(|row| row.threads).collect();
    let of = |threads| OPERATIONS.map(|(operation, name)| Case { threads, operation, name });
    let cases = threads.into_iter().flat_map(of);
    cases.filter(|case| rows.iter().any(|row| case.is_of(row))).collect()
}

fn heads(cases: &[Case]) -> Vec<String> {
    let mut heads = vec!["level".to_owned(), ">loads\nat once".to_owned()];
    let mut last = None;
    for Case { threads, name, .. } in cases {
        heads.push(match last == Some(threads) {
            true => format!(">{name}"),
            false => {
                format!(">{threads} {}\n{name}", if *threads == 1 { "thread" } else { "threads" })
            }
        });
        last = Some(threads);
    }
    heads
}

/// Returns the levels for which outstanding loads or bandwidth are known, in hierarchy order.
fn levels(report: &MemoryReport) -> Vec<&str> {
    let mut levels: Vec<&str> = Vec::new();
    let parallelism = report.parallelism.iter().map(|row| row.level.as_str());
    for level in parallelism.chain(report.bandwidth.iter().map(|row| row.level.as_str())) {
        if !levels.contains(&level) {
            levels.push(level);
        }
    }
    // In hierarchy order, with levels outside the hierarchy last.
    let place = |level: &&str| report.levels.iter().position(|known| known.name == **level);
    levels.sort_by_key(|level| place(level).unwrap_or(usize::MAX));
    levels
}

/// Formats ns per load by number of parallel chains.
pub(super) fn chains(page: &Page) -> String {
    let rows = &page.report.parallelism;
    let numbers: BTreeSet<u32> =
        rows.iter().flat_map(|row| &row.points).map(|point| point.chains).collect();
    if numbers.is_empty() {
        return String::new();
    }
    let heads: Vec<String> = std::iter::once("chains".to_owned())
        .chain(numbers.iter().map(|chains| format!(">{chains}")))
        .collect();
    let mut grid = Grid::new(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    for row in rows {
        let cell = |chains: &u32| {
            let point = row.points.iter().find(|point| point.chains == *chains);
            point.map_or_else(String::new, |point| number(&point.ns_per_load))
        };
        grid.row(std::iter::once(row.level.clone()).chain(numbers.iter().map(cell)).collect());
    }
    page.title("ns per load by number of parallel chains") + &grid.render(page.style)
}

/// Formats memory latency under load, either for the slowest case or for all.
pub(super) fn loaded(page: &Page, all: bool) -> String {
    let points = &page.report.loaded;
    if points.is_empty() {
        return String::new();
    }
    if !all {
        return page.line("loaded", &slowest(points));
    }
    let mut grid = Grid::new(&[">threads", ">reading\n%", ">GB/s", ">ns per load"]);
    for point in points {
        grid.row(vec![
            point.threads.to_string(),
            percent(point.duty),
            number(&point.gb_per_s),
            ranged(&point.latency_ns, three_digits),
        ]);
    }
    let absent =
        points.iter().map(|point| (format!("{} threads", point.threads), &point.latency_ns));
    page.title("loaded latency: one load from memory while other threads read from memory")
        + &grid.render(page.style)
        + &page.reasons(absent)
}

fn slowest(points: &[LoadedLatency]) -> String {
    let ns = |point: &LoadedLatency| point.latency_ns.as_number();
    let show = |figure| in_sentence(figure, "ns", three_digits);
    let slowest = points.iter().filter(|p| p.threads > 0 && ns(p).is_some());
    let slowest = slowest.max_by(|a, b| ns(a).unwrap_or(0.0).total_cmp(&ns(b).unwrap_or(0.0)));
    let alone = points.iter().find(|point| point.threads == 0 || point.duty == 0.0);
    let mut text = "a load from memory takes ".to_owned();
    if let Some(alone) = alone {
        text += &format!("{} alone", show(&alone.latency_ns));
    }
    match slowest {
        Some(point) => {
            let others = if point.threads == 1 { "thread reads" } else { "threads read" };
            let gb = in_sentence(&point.gb_per_s, "GB/s", three_digits);
            let comma = if alone.is_some() { ", " } else { "" };
            let (ns, threads) = (show(&point.latency_ns), point.threads);
            text + &format!("{comma}{ns} while {threads} other {others} {gb}")
        }
        None => {
            let why = points.iter().find_map(|point| point.latency_ns.reason.as_deref());
            text + &format!("; under load {ABSENT} ({})", why.unwrap_or("not measured"))
        }
    }
}
