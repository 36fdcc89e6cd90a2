// SPDX-License-Identifier: MIT OR Apache-2.0
//! TLB levels, page sizes, and the cost of a load by where its data and its translation are found.

use super::{Page, page_kind};
use crate::layout::{Grid, Paint, labelled};
use crate::value::{ABSENT, cell, clean, number, percent, ranged, whole};
use linerate_record::memory::{Cost, PageKind, Pages, PagesVerdict, TlbLevel, TlbState};
use linerate_record::units::{memory_size, three_digits};

/// Formats the TLB levels and the effect of huge pages.
pub(super) fn buffers(page: &Page) -> String {
    let report = page.report;
    let mut grid = Grid::new(&[
        "dTLB",
        "pages",
        ">entries",
        ">reach",
        ">rises\nfrom",
        ">half\nat",
        ">a miss adds\nns",
        ">cycles",
    ]);
    for level in &report.tlb {
        grid.row(vec![
            level.name.clone(),
            page_kind(level.pages).to_owned(),
            ranged(&level.entries, whole),
            reach(level, &report.pages).map_or(ABSENT.to_owned(), memory_size),
            cell(&level.onset, whole),
            cell(&level.half, whole),
            ranged(&level.cost_ns, three_digits),
            number(&level.cost_cycles),
        ]);
    }
    let table = grid.render(page.style);
    let title = page.title("TLB reach and miss cost");
    let absent = report.tlb.iter().flat_map(|level| {
        let name = |what: &str| format!("{what} of {} ({})", level.name, page_kind(level.pages));
        // A note, if present, describes how latency rises. Otherwise, print why there is no number
        // of entries.
        let entries = level.note.is_none().then(|| (name("entries"), &level.entries));
        entries.into_iter().chain([(name("ns"), &level.cost_ns)])
    });
    let notes = report.tlb.iter().filter_map(|level| {
        let note = level.note.as_ref()?;
        Some(page.note(&format!("{} ({}): {note}", level.name, page_kind(level.pages))))
    });
    let table = if table.is_empty() { table } else { title + &table };
    table + &page.reasons(absent) + &notes.collect::<String>() + &pages(page)
}

/// Returns the reach of a TLB level in bytes: the page size times the number of entries or, if that
/// number is unknown, times the number of pages at which latency starts to rise.
pub(crate) fn reach(level: &TlbLevel, pages: &Pages) -> Option<f64> {
    let entries = level.entries.as_number().or(level.onset.as_number())?;
    let bytes = match level.pages {
        PageKind::Base => pages.base_bytes,
        PageKind::Huge => pages.huge_bytes?,
    };
    Some(entries * bytes as f64).filter(|bytes| *bytes > 0.0)
}

fn pages(page: &Page) -> String {
    let pages = &page.report.pages;
    let (label, paint) = match pages.verdict {
        PagesVerdict::Work | PagesVerdict::NotOffered | PagesVerdict::Unknown => {
            ("pages", Paint::Head)
        }
        PagesVerdict::Splintered | PagesVerdict::NotGranted => ("pages", Paint::Warning),
    };
    let mut facts = vec![format!("{} pages of {}", page_kind(pages.used), used(pages))];
    if let Some(share) = pages.granted.as_number() {
        facts.push(format!("{} % of the requested memory is backed by huge pages", percent(share)));
    }
    if pages.time_ratio.as_number().is_some() {
        let ratio = ranged(&pages.time_ratio, three_digits);
        facts.push(format!("a load takes {ratio} times as long as with small pages"));
    }
    let text = format!("{}; used here: {}", pages.sentence, facts.join("; "));
    labelled(label, paint, &clean(&text), page.style)
}

fn used(pages: &Pages) -> String {
    let bytes = match pages.used {
        PageKind::Base => Some(pages.base_bytes),
        PageKind::Huge => pages.huge_bytes,
    };
    bytes.map_or("unknown size".to_owned(), |bytes| memory_size(bytes as f64))
}

const STATES: [(TlbState, &str); 3] =
    [(TlbState::Hit, "TLB hit"), (TlbState::MissL1, "L1 dTLB miss"), (TlbState::Walk, "page walk")];

/// Formats load costs, one line per level or, with `all`, per level and TLB state.
pub(super) fn costs(page: &Page, all: bool) -> String {
    let costs = &page.report.costs;
    let grid = if all { each(costs) } else { matrix(costs) };
    let table = grid.render(page.style);
    if table.is_empty() {
        return table;
    }
    let absent = costs.iter().flat_map(|cost| {
        let name = |what: &str| format!("{what} in {}", cost.level);
        let figures =
            [("ns", &cost.ns), ("cycles", &cost.cycles), ("overlapped", &cost.overlapped_ns)];
        figures.map(|(what, figure)| (name(what), figure))
    });
    let pages = page_kind(page.report.pages.used);
    page.title(&format!(
        "load latency on {pages} pages, by the levels where data and translation hit"
    )) + &table
        + &page.reasons(absent)
        + &page.note(NOTE)
}

const NOTE: &str = "ns and cycles: measured with dependent loads, an upper bound if loads overlap; \
                    overlapped: measured with as many loads in flight as the core supports, a \
                    lower bound";

fn each(costs: &[Cost]) -> Grid {
    let mut grid = Grid::new(&["data in", "translation", ">ns", ">cycles", ">overlapped\nns"]);
    for cost in costs {
        let state = STATES.iter().find(|(state, _)| *state == cost.tlb);
        grid.row(vec![
            cost.level.clone(),
            state.map_or(ABSENT, |(_, name)| name).to_owned(),
            ranged(&cost.ns, three_digits),
            number(&cost.cycles),
            ranged(&cost.overlapped_ns, three_digits),
        ]);
    }
    grid
}

fn matrix(costs: &[Cost]) -> Grid {
    let states: Vec<_> =
        STATES.iter().filter(|(state, _)| costs.iter().any(|cost| cost.tlb == *state)).collect();
    let mut heads = vec!["data in".to_owned()];
    for (_, name) in &states {
        heads.extend([format!(">{name}\nns"), ">cycles".to_owned()]);
    }
    heads.push(">overlapped\nns".to_owned());
    let mut grid = Grid::new(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    let mut levels: Vec<&str> = Vec::new();
    for cost in costs {
        if !levels.contains(&cost.level.as_str()) {
            levels.push(&cost.level);
        }
    }
    for level in levels {
        let find = |state| costs.iter().find(|cost| cost.level == level && cost.tlb == state);
        let cells = states.iter().flat_map(|(state, _)| match find(*state) {
            Some(cost) => [number(&cost.ns), number(&cost.cycles)],
            None => [String::new(), String::new()],
        });
        let overlapped = find(TlbState::Hit).map(|cost| number(&cost.overlapped_ns));
        let row = std::iter::once(level.to_owned()).chain(cells);
        grid.row(row.chain([overlapped.unwrap_or_default()]).collect());
    }
    grid
}
