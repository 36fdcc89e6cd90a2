// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of a `kernels` record: for each kernel, a table of routines by size with the bound on
//! top.
//!
//! The intervals of individual cells, and `of_bound` for routines other than the selected one, are
//! only in the record.

mod matrix;
mod verdict;

use crate::Style;
use crate::layout::{Grid, Paint, labelled, limited, stacked};
use crate::value::{ABSENT, clean, count, percent, quoted, tiers};
use linerate_plan::routines::{Block, Load, Section, Unit, blocks};
use linerate_record::kernels::{
    HugePages, Kernel, KernelsReport, PeerReport, Role, Row, VariantReport,
};
use linerate_record::stats::interval_name;
use linerate_record::units::three_digits;
use matrix::Page;
use std::collections::BTreeSet;

/// How to handle sizes that do not fit the width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Show all sizes, in several tables if necessary.
    All,
    /// Omit similar sizes and list them below the tables.
    Distinct,
}

/// Formats the report of `linerate kernels`.
pub fn kernels(report: &KernelsReport, sizes: Sizes, style: &Style) -> String {
    let (unit, blocks) = (Unit::from_rows(&report.rows), blocks(&report.rows));
    let mut page = Page { unit, sizes, style, left_out: Vec::new() };
    let mut parts = vec![head(report, style), wrong(report, style)];
    for kernel in Kernel::ALL {
        parts.extend(tables(kernel, &blocks, &mut page));
    }
    parts.push(notes(report, &blocks, &page));
    parts.push(not_timed(report, style));
    parts.push(verdict(report, &blocks, unit, style));
    stacked(&parts)
}

/// Formats one screen: which routine to call, and how close it is to the bound.
pub(crate) fn screen(report: &KernelsReport, style: &Style) -> String {
    let (unit, blocks) = (Unit::from_rows(&report.rows), blocks(&report.rows));
    let mut page = Page { unit, sizes: Sizes::Distinct, style, left_out: Vec::new() };
    let first = |kernel| blocks.iter().find(|block| block.kernel == kernel);
    let tables = Kernel::ALL.into_iter().filter_map(first).take(1);
    let table: String = tables.map(|block| matrix::table(block, &mut page)).collect();
    stacked(&[
        wrong(report, style),
        limited(&verdict(report, &blocks, unit, style), 20),
        limited(&table, 14),
    ])
}

/// Returns the record's answer: which routine to call, and how close the selected one is to the
/// bound.
pub(crate) fn answer(report: &KernelsReport) -> Vec<String> {
    let (unit, blocks) = (Unit::from_rows(&report.rows), blocks(&report.rows));
    verdict::answer(report, &blocks, unit)
}

fn line(label: &str, text: &str, style: &Style) -> String {
    labelled(label, Paint::Head, &clean(text), style)
}

fn head(report: &KernelsReport, style: &Style) -> String {
    let processor = report.processor.as_deref().unwrap_or("unknown");
    let mut lines = line("processor", &format!("{processor}; cpu {}", report.cpu), style);
    if let Some(selected) = report.selected() {
        lines += &line("selected", &selected, style);
    }
    lines += &line("clock", &clock(report), style);
    lines += &line("core", &core(report), style);
    lines += &line("pages", &pages(&report.huge_pages), style);
    if let Some(cold) = &report.cold {
        lines += &line("cold", &cold.eviction, style);
    }
    lines + &line("measured", &measured(report), style)
}

/// If the ratio of the smallest to the largest measured issue width is below this, the SMT sibling
/// must have been busy at times. With an idle sibling, the width varies by a few percent; a busy
/// sibling reduces it by 20 to 50 %.
const CORE_SHARED_BELOW: f64 = 0.85;

/// Formats the core clock and the cycles per tick from which it is computed.
fn clock(report: &KernelsReport) -> String {
    let ticks = format!("{} G ticks/s", three_digits(report.ticks_per_s / 1e9));
    match report.cycles_per_tick.as_number() {
        Some(cycles) => format!(
            "{} GHz: {ticks}, {} cycles per tick",
            three_digits(report.ticks_per_s * cycles / 1e9),
            quoted(&report.cycles_per_tick, |cycles| format!("{cycles:.4}"))
        ),
        None => {
            format!("{ticks}, cycles per tick {}", quoted(&report.cycles_per_tick, three_digits))
        }
    }
}

/// Formats the core's issue width, measured as independent additions per cycle.
fn core(report: &KernelsReport) -> String {
    let width = quoted(&report.additions_per_cycle, |width| format!("{width:.1}"));
    let Some([least, most]) = report.additions_per_cycle_range else {
        return format!("independent additions per cycle {width}");
    };
    let mut text = format!("{width} independent additions per cycle, {least:.1} to {most:.1}");
    if least < CORE_SHARED_BELOW * most {
        text += ": at times, an SMT sibling competed for the core's execution units, which \
                 affected the routines more than the measured bounds";
    }
    text
}

/// Describes the pages backing the buffers.
fn pages(pages: &HugePages) -> String {
    let advised = if pages.advised { "huge pages requested" } else { "no huge pages available" };
    let granted =
        pages.granted.map(|share| format!("{} % of the buffers are in huge pages", percent(share)));
    let parts = [Some(advised.to_owned()), granted, pages.reason.clone()];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn measured(report: &KernelsReport) -> String {
    let mut parts = vec![format!("median of {} rounds", rounds(report))];
    if report.windows.total > 0 {
        let windows = &report.windows;
        let (lost, total) = (count(windows.preempted), count(windows.total));
        parts.push(format!("{lost} of {total} windows discarded (preempted)"));
        if windows.dropped_as_slow > 0 {
            let slow = count(windows.dropped_as_slow);
            parts.push(format!("{slow} more dropped as outliers"));
        }
    }
    let tier = tiers([&report.cycles_per_tick]);
    if !tier.is_empty() {
        parts.push(format!("tier {tier}"));
    }
    parts.push(format!("seed {}", report.seed));
    if report.quick {
        parts.push("quick: fewer cases and rounds".to_owned());
    }
    if report.interrupted {
        parts.push("stopped early".to_owned());
    }
    parts.join(", ")
}

/// Formats the number of rounds behind each row: `41`, or `38 to 41`.
pub(crate) fn rounds(report: &KernelsReport) -> String {
    let rounds = || report.rows.iter().map(|row| row.n).filter(|n| *n > 0);
    match (rounds().min(), rounds().max()) {
        (Some(least), Some(most)) if least < most => format!("{least} to {most}"),
        (Some(n), _) => n.to_string(),
        (None, _) => "0".to_owned(),
    }
}

/// Describes how wide the confidence intervals in `blocks` are:
/// `95 % intervals: half are ±0.8 % or narrower; the widest is ±6 % (avx2 of copy, cold, at 20)`.
/// For a single block, names only the routine and the load. `None` if there are no intervals.
pub(crate) fn spread(blocks: &[Block], unit: Unit) -> Option<String> {
    let reach = |row: &Row| {
        let (low, high) = unit.interval(row)?;
        let time = unit.time(row)?;
        Some((high - time).max(time - low) / time)
    };
    let mut reaches = Vec::new();
    for block in blocks {
        for series in &block.series {
            let rows = series.rows.iter();
            reaches.extend(rows.filter_map(|(load, row)| Some((reach(row)?, block, series, load))));
        }
    }
    reaches.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (widest, block, series, load) = reaches.last()?;
    let percent = |share: f64| three_digits(share * 100.0);
    let (median, widest) = (percent(reaches[reaches.len() / 2].0), percent(*widest));
    let of = match blocks {
        [_] => String::new(),
        _ => format!(" of {}, {},", block.kernel, block.case_text()),
    };
    let (name, load) = (series.name, load.text());
    Some(format!(
        "{}s: half are ±{median} % or narrower; the widest is ±{widest} % ({name}{of} at {load})",
        interval_name()
    ))
}

fn wrong(report: &KernelsReport, style: &Style) -> String {
    let paragraph = |wrong: &linerate_record::kernels::WrongResult| {
        let (kernel, variant, difference) = (wrong.kernel, &wrong.variant, &wrong.difference);
        let text = format!(
            "{kernel} variant {variant} gives wrong results and was not timed: {difference}"
        );
        labelled("wrong:", Paint::Warning, &clean(&text), style)
    };
    report.wrong.iter().map(paragraph).collect()
}

/// Formats the tables of one kernel.
fn tables(kernel: Kernel, blocks: &[Block], page: &mut Page) -> Vec<String> {
    let of = |section| {
        blocks.iter().filter(move |block| block.kernel == kernel && block.section == section)
    };
    let mut tables = Vec::new();
    tables.extend(of(Section::Aligned).map(|block| matrix::table(block, page)));
    let displaced: Vec<&Block> = of(Section::Displaced).collect();
    tables.push(matrix::placements(&displaced, page));
    for section in [Section::Mixes, Section::Latency, Section::JustWritten, Section::Cold] {
        tables.extend(of(section).map(|block| matrix::table(block, page)));
    }
    tables
}

/// Formats the legend of the tables, and lists what was omitted.
fn notes(report: &KernelsReport, blocks: &[Block], page: &Page) -> String {
    let (unit, style) = (page.unit, page.style);
    if blocks.is_empty() {
        return line("", "nothing was timed", style);
    }
    let mut notes: String = marks(report).iter().map(|mark| line("", mark, style)).collect();
    if let Some(spread) = spread(blocks, unit) {
        notes += &line("", &spread, style);
    }
    let left_out: BTreeSet<Load> = page.left_out.iter().copied().collect();
    if !left_out.is_empty() {
        let sizes: Vec<String> = left_out.into_iter().map(Load::text).collect();
        let text = format!("omitted to fit the width: {}", sizes.join(", "));
        notes += &line("", &text, style);
    }
    let absent = report.rows.iter().filter(|row| unit.time(row).is_none());
    let reasons: BTreeSet<&str> =
        absent.map(|row| row.reason.as_deref().unwrap_or("no reason given")).collect();
    for reason in reasons {
        notes += &line("", &format!("{ABSENT} {reason}"), style);
    }
    notes
}

/// If the selected routine's speed relative to the bound is above this, the report explains how
/// that is possible. Relative speeds vary by about 2 % between runs.
const ABOVE_BOUND: f64 = 1.02;

/// Returns the legend for the marks in the tables.
fn marks(report: &KernelsReport) -> Vec<String> {
    let rows = |role| report.rows.iter().filter(move |row| row.role == role);
    let (fastest, has_selected) = (matrix::FASTEST, rows(Role::Selected).next().is_some());
    let mut marks = Vec::new();
    if has_selected || rows(Role::Variant).next().is_some() {
        let selected = if has_selected { "selected and " } else { "" };
        marks.push(format!(
            "{fastest} fastest of {selected}the variants timed, or within 1 % of the fastest"
        ));
    }
    let most = rows(Role::Selected).filter_map(|row| row.of_bound).reduce(f64::max);
    if most.is_some() {
        let text = "% of the bound: the bound's time divided by that of selected, in the same \
                    rounds";
        marks.push(text.to_owned());
    }
    if most.is_some_and(|most| most > ABOVE_BOUND) {
        let text = "above 100 %: the bound is a plain loop or the C library's routine; the \
                    selected routine avoids length-dependent branches, vector accesses that \
                    straddle cache lines, or store-forwarding stalls after masked writes";
        marks.push(text.to_owned());
    }
    marks
}

fn not_timed(report: &KernelsReport, style: &Style) -> String {
    let mut grid = Grid::new(&["not timed", "because"]);
    for variant in &report.variants {
        if let Some(why) = variant_reason(variant) {
            grid.row(vec![variant.name.clone(), why]);
        }
    }
    // All on one line, because most of these variants are for other architectures.
    let absent = report.variants.iter().filter(|variant| !variant.compiled);
    let absent: Vec<&str> = absent.map(|variant| variant.name.as_str()).collect();
    if !absent.is_empty() {
        let why = format!("this build does not contain {}", absent.join(", "));
        grid.row(vec!["variants".to_owned(), why]);
    }
    for peer in report.peers.iter().filter(|peer| !peer.available && is_wanted(peer, report)) {
        let why = peer.reason.as_deref().unwrap_or("no reason given");
        grid.row(vec![format!("{} ({})", peer.name, peer.source), why.to_owned()]);
    }
    for skipped in &report.skipped {
        grid.row(vec![skipped.what.clone(), skipped.reason.clone()]);
    }
    grid.render(style)
}

/// Returns whether the peer implements a requested kernel, as far as the record shows.
fn is_wanted(peer: &PeerReport, report: &KernelsReport) -> bool {
    let is_timed = |kernel: &Kernel| report.rows.iter().any(|row| row.kernel == *kernel);
    let tells = !peer.kernels.is_empty() && !report.rows.is_empty() && !report.interrupted;
    !tells || peer.kernels.iter().any(is_timed)
}

/// Returns why a compiled variant was not timed; `None` if this processor supports it, or if this
/// build does not contain it.
fn variant_reason(variant: &VariantReport) -> Option<String> {
    let is_missed = variant.compiled && !variant.supported;
    is_missed.then(|| format!("this processor does not support {}", variant.isa))
}

fn verdict(report: &KernelsReport, blocks: &[Block], unit: Unit, style: &Style) -> String {
    let sentences = |kernel| verdict::sentences(report, blocks, kernel, unit);
    let paragraphs = Kernel::ALL.into_iter().filter_map(sentences).enumerate();
    paragraphs
        .map(|(index, text)| line(if index == 0 { "in short" } else { "" }, &text, style))
        .collect()
}
