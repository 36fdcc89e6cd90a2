// SPDX-License-Identifier: MIT OR Apache-2.0
//! The levels, what the OS reports about them, and unresolved sizes.

use super::{Page, confidence};
use crate::layout::{Grid, Paint, labelled};
use crate::value::{clean, number, ranged, ranged_binary};
use linerate_record::memory::{MemoryLevel, MemoryReport, OsVerdict, OsView, Unresolved};
use linerate_record::units::{memory_size, three_digits};

/// Formats the table and its notes. With `all`, includes everything reported by the OS.
pub(super) fn table(page: &Page, all: bool) -> String {
    let report = page.report;
    if report.levels.is_empty() {
        return page.line("levels", "none found") + &unresolved(page) + &sentences(page, all);
    }
    let figures = report.levels.iter().flat_map(|level| [&level.size_bytes, &level.latency_ns]);
    let within = confidence(figures).map_or(String::new(), |c| format!(" ({c} % interval)"));
    let heads = [
        "level".to_owned(),
        format!(">size{within}"),
        ">ns per load".to_owned(),
        ">cycles".to_owned(),
    ];
    let heads: Vec<&str> = heads.iter().map(String::as_str).chain(["system says"]).collect();
    let mut grid = Grid::new(&heads);
    for (index, level) in report.levels.iter().enumerate() {
        grid.row(vec![
            level.name.clone(),
            size(level, index + 1 == report.levels.len()),
            ranged(&level.latency_ns, three_digits),
            number(&level.latency_cycles),
            stated(report, level),
        ]);
    }
    let sized = report.levels.split_last().map_or(&[][..], |(_, sized)| sized);
    let sizes = sized.iter().map(|level| (format!("size of {}", level.name), &level.size_bytes));
    let times = report.levels.iter().flat_map(|level| {
        let name = |what: &str| format!("{what} of {}", level.name);
        [(name("ns"), &level.latency_ns), (name("cycles"), &level.latency_cycles)]
    });
    page.title("levels, measured with chains of dependent loads")
        + &grid.render(page.style)
        + &page.reasons(sizes.chain(times))
        + &notes(page)
        + &sentences(page, all)
        + &resolution(page, all)
        + &unresolved(page)
}

fn resolution(page: &Page, all: bool) -> String {
    let ratio = three_digits(page.report.resolution);
    let text =
        format!("levels whose sizes differ by less than a factor of {ratio} are not distinguished");
    if all { page.note(&text) } else { String::new() }
}

/// Formats a level's size. The last level is memory, which has no size.
fn size(level: &MemoryLevel, is_last: bool) -> String {
    match is_last && level.size_bytes.as_number().is_none() {
        true => "beyond".to_owned(),
        false => ranged_binary(&level.size_bytes),
    }
}

/// Returns the OS-reported size of a level and the verdict on it, such as `32 MiB: found less`;
/// empty if the OS reports none. The OS may number the levels differently from the measurement, so
/// they are matched by size.
fn stated(report: &MemoryReport, level: &MemoryLevel) -> String {
    let size = level.size_bytes.as_number();
    let is_of_level = |view: &&OsView| size.is_some() && view.found_bytes.as_number() == size;
    let Some(view) = report.os_view.iter().find(is_of_level) else { return String::new() };
    let verdict = verdict(view.verdict);
    match view.stated_bytes.map(|bytes| memory_size(bytes as f64)) {
        Some(bytes) if view.name == level.name => format!("{bytes}: {verdict}"),
        Some(bytes) => format!("{} of {bytes}: {verdict}", view.name),
        None => verdict.to_owned(),
    }
}

fn verdict(verdict: OsVerdict) -> &'static str {
    match verdict {
        OsVerdict::Agrees => "agrees",
        OsVerdict::Smaller => "found less",
        OsVerdict::Larger => "found more",
        OsVerdict::Unseen => "unseen",
        OsVerdict::NotStated => "not stated",
        OsVerdict::CannotTell => "cannot tell",
    }
}

fn notes(page: &Page) -> String {
    let note = |level: &MemoryLevel| {
        // If a level's latency varied and it has a note, the note already states this.
        let varied = (!level.settled).then_some("its latency varied between passes");
        let text = level.note.as_deref().or(varied)?;
        Some(page.note(&format!("{}: {text}", level.name)))
    };
    page.report.levels.iter().filter_map(note).collect()
}

/// Lists OS-reported sizes that the measurement did not confirm or, with `all`, every OS-reported
/// size.
fn sentences(page: &Page, all: bool) -> String {
    let is_told = |view: &&OsView| all || view.verdict != OsVerdict::Agrees;
    let note = |view: &OsView| page.note(&format!("{}: {}", view.name, view.sentence));
    page.report.os_view.iter().filter(is_told).map(note).collect()
}

fn unresolved(page: &Page) -> String {
    let paragraph = |what: &Unresolved| {
        let (from, to) = (memory_size(what.from_bytes as f64), memory_size(what.to_bytes as f64));
        let text = format!("{from} to {to}: {}", what.sentence);
        labelled("cannot tell", Paint::Warning, &clean(&text), page.style)
    };
    page.report.unresolved.iter().map(paragraph).collect()
}
