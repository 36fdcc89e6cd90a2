// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tiers, what the system says of them, and what could not be told.

use super::{Page, confidence};
use crate::layout::{Grid, Paint, labelled};
use crate::value::{clean, number, ranged, ranged_binary};
use linerate_record::memory::{MemoryReport, MemoryTier, OsVerdict, OsView, Unresolved};
use linerate_record::units::{memory_size, three_digits};

/// The table with its notes. With `all`, every sentence on what the system says.
pub(super) fn table(page: &Page, all: bool) -> String {
    let report = page.report;
    if report.tiers.is_empty() {
        return page.line("tiers", "none found") + &unresolved(page) + &sentences(page, all);
    }
    let figures = report.tiers.iter().flat_map(|tier| [&tier.size_bytes, &tier.latency_ns]);
    let within = confidence(figures).map_or(String::new(), |c| format!(" ({c} % interval)"));
    let heads = [
        "tier".to_owned(),
        format!(">size{within}"),
        ">ns per load".to_owned(),
        ">cycles".to_owned(),
    ];
    let heads: Vec<&str> = heads.iter().map(String::as_str).chain(["system says"]).collect();
    let mut grid = Grid::new(&heads);
    for (index, tier) in report.tiers.iter().enumerate() {
        grid.row(vec![
            tier.name.clone(),
            size(tier, index + 1 == report.tiers.len()),
            ranged(&tier.latency_ns, three_digits),
            number(&tier.latency_cycles),
            stated(report, tier),
        ]);
    }
    let sized = report.tiers.split_last().map_or(&[][..], |(_, sized)| sized);
    let sizes = sized.iter().map(|tier| (format!("size of {}", tier.name), &tier.size_bytes));
    let times = report.tiers.iter().flat_map(|tier| {
        let name = |what: &str| format!("{what} of {}", tier.name);
        [(name("ns"), &tier.latency_ns), (name("cycles"), &tier.latency_cycles)]
    });
    page.title("tiers, by chains of loads")
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
        format!("tiers of which one is less than {ratio} times the other are not told apart");
    if all { page.note(&text) } else { String::new() }
}

/// The last tier is memory, which has no size.
fn size(tier: &MemoryTier, is_last: bool) -> String {
    match is_last && tier.size_bytes.as_number().is_none() {
        true => "beyond".to_owned(),
        false => ranged_binary(&tier.size_bytes),
    }
}

/// What the system says of the tier: `32 MiB: smaller`; nothing where it says nothing. The system
/// counts its levels, which need not be those found: views belong to tiers by what was found.
fn stated(report: &MemoryReport, tier: &MemoryTier) -> String {
    let size = tier.size_bytes.as_number();
    let is_of_tier = |view: &&OsView| size.is_some() && view.found_bytes.as_number() == size;
    let Some(view) = report.os_view.iter().find(is_of_tier) else { return String::new() };
    let verdict = verdict(view.verdict);
    match view.stated_bytes.map(|octets| memory_size(octets as f64)) {
        Some(octets) if view.name == tier.name => format!("{octets}: {verdict}"),
        Some(octets) => format!("{} of {octets}: {verdict}", view.name),
        None => verdict.to_owned(),
    }
}

fn verdict(verdict: OsVerdict) -> &'static str {
    match verdict {
        OsVerdict::Agrees => "agrees",
        OsVerdict::Smaller => "smaller",
        OsVerdict::Larger => "larger",
        OsVerdict::Unseen => "unseen",
        OsVerdict::NotStated => "not stated",
        OsVerdict::CannotTell => "cannot tell",
    }
}

fn notes(page: &Page) -> String {
    let note = |tier: &MemoryTier| {
        let moved = (!tier.settled).then_some("its time was not the same in all passes");
        let texts: Vec<&str> = moved.into_iter().chain(tier.note.as_deref()).collect();
        (!texts.is_empty()).then(|| page.note(&format!("{}: {}", tier.name, texts.join("; "))))
    };
    page.report.tiers.iter().filter_map(note).collect()
}

/// What the system says and was not found so; with `all`, what it says at all.
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
