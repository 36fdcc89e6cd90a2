// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of a `strands` record: each strand's rates, counts and CPI stack.

use crate::Style;
use crate::layout::{Grid, Paint, labelled, stacked};
use crate::value::{
    ABSENT, cell, clean, count, percent, ranged, reason, significant, tiers, whole,
};
use linerate_record::Figure;
use linerate_record::strands::{CpiByCause, StrandCounts, StrandsReport};

/// Formats per-strand measurements from another program.
pub fn strands(report: &StrandsReport, style: &Style) -> String {
    stacked(&[
        head(report, style),
        rates(report, style),
        events(report, style),
        nodes(report, style),
        causes(report, style),
        faults(report, style),
    ])
}

fn line(label: &str, text: &str, style: &Style) -> String {
    labelled(label, Paint::Head, &clean(text), style)
}

fn head(report: &StrandsReport, style: &Style) -> String {
    let version = report.format_version.as_ref().map_or(String::new(), |v| format!(" ver {v}"));
    let input = format!("{}{version}, {} lines", report.format, count(report.lines));
    let machine = match &report.machine {
        Some(machine) => {
            let ghz = significant(machine.clock_ghz);
            format!("{}, {ghz} GHz ({})", machine.name, machine.source)
        }
        None => {
            "unknown clock; set it with --clock, or select the processor with --machine".to_owned()
        }
    };
    let figures = report.strands.iter().flat_map(|s| [&s.kpps, &s.ticks_per_packet, &s.cpi]);
    let tiers = match tiers(figures).as_str() {
        "" => String::new(),
        tiers => line("tier", tiers, style),
    };
    line("input", &input, style) + &line("machine", &machine, style) + &tiers
}

/// Selects a figure of a strand.
type Pick = fn(&StrandCounts) -> &Figure;

/// Formats each strand's figures, followed by the reasons for absent ones, without duplicates.
fn rates(report: &StrandsReport, style: &Style) -> String {
    const COLUMNS: [(&str, Pick); 5] = [
        (">kpps", |strand| &strand.kpps),
        (">ticks/\npacket", |strand| &strand.ticks_per_packet),
        (">instructions/\npacket", |strand| &strand.instructions_per_packet),
        (">cycles/\ninstruction", |strand| &strand.cpi),
        (">instructions/\ncycle", |strand| &strand.ipc),
    ];
    let heads = ["strand", ">packets"].into_iter().chain(COLUMNS.map(|(head, _)| head));
    let mut grid = Grid::new(&heads.collect::<Vec<_>>());
    for strand in &report.strands {
        let packets = strand.packets.map_or_else(|| ABSENT.to_owned(), count);
        let figures = COLUMNS.map(|(_, of)| ranged(of(strand), significant));
        grid.row([strand.label(), packets].into_iter().chain(figures).collect());
    }
    let mut why: Vec<&str> = Vec::new();
    for figure in report.strands.iter().flat_map(|s| COLUMNS.map(|(_, of)| of(s))) {
        if figure.as_number().is_none() && !why.contains(&reason(figure)) {
            why.push(reason(figure));
        }
    }
    let why: String = why.into_iter().map(|why| line("-", why, style)).collect();
    grid.render(style) + &why
}

fn events(report: &StrandsReport, style: &Style) -> String {
    let mut grid = Grid::new(&[
        "strand",
        "event",
        "native name",
        ">counted",
        ">per packet",
        ">per 1000\ninstructions",
    ]);
    for strand in &report.strands {
        for event in &strand.events {
            grid.row(vec![
                strand.label(),
                event.name.clone(),
                event.native.clone(),
                cell(&event.count, whole),
                cell(&event.per_packet, significant),
                cell(&event.pti, significant),
            ]);
        }
    }
    grid.render(style)
}

/// Formats the nodes that were called.
fn nodes(report: &StrandsReport, style: &Style) -> String {
    let mut grid = Grid::new(&[
        "strand",
        "node",
        "state",
        ">calls",
        ">packets",
        ">ticks/\npacket",
        ">packets/\ncall",
    ]);
    for strand in &report.strands {
        for node in strand.nodes.iter().filter(|node| node.calls > 0) {
            grid.row(vec![
                strand.label(),
                node.name.clone(),
                node.state.clone(),
                count(node.calls),
                count(node.packets),
                ranged(&node.ticks_per_packet, significant),
                ranged(&node.packets_per_call, significant),
            ]);
        }
    }
    grid.render(style)
}

fn causes(report: &StrandsReport, style: &Style) -> String {
    let found: Vec<(String, &CpiByCause, f64)> = report
        .strands
        .iter()
        .filter_map(|s| Some((s.label(), s.cpi_by_cause.as_ref()?, s.cpi.as_number()?)))
        .collect();
    let Some((_, first, _)) = found.first() else { return String::new() };
    let title = format!(
        "CPI stack: upper bounds, assuming no overlap (evidence tier: model; {})",
        first.source
    );
    let mut grid = Grid::new(&[
        "strand",
        "cause",
        ">per 1000\ninstructions",
        ">cycles\neach",
        ">cycles/\ninstruction",
        ">% of\nall",
    ]);
    for (label, by_cause, cpi) in &found {
        for cause in &by_cause.causes {
            grid.row(vec![
                label.clone(),
                cause.event.clone(),
                cell(&cause.pti, significant),
                cause.cycles_each.map_or_else(|| ABSENT.to_owned(), significant),
                cell(&cause.cycles, significant),
                cell(&cause.share, percent),
            ]);
        }
        let rest = by_cause.unexplained.as_number();
        let share = rest.map_or_else(|| ABSENT.to_owned(), |rest| percent(rest / cpi));
        let rest = rest.map_or_else(|| ABSENT.to_owned(), significant);
        let blank = String::new;
        grid.row(vec![label.clone(), "unexplained".to_owned(), blank(), blank(), rest, share]);
    }
    let verdicts: String =
        found.iter().map(|(label, found, _)| verdict(label, found, style)).collect();
    line("causes", &title, style) + &grid.render(style) + &verdicts
}

fn verdict(label: &str, found: &CpiByCause, style: &Style) -> String {
    line("verdict", &format!("{label}: {}", found.sentence), style)
}

/// Maximum number of faults shown, so that a badly damaged dump does not drown out the rest of the
/// report.
const FAULTS_MAX: usize = 8;

fn faults(report: &StrandsReport, style: &Style) -> String {
    let warn = |text: &str| labelled("fault", Paint::Warning, &clean(text), style);
    let shown = report.faults.iter().take(FAULTS_MAX).map(|fault| warn(&fault.to_string()));
    let more = match report.faults.len().saturating_sub(FAULTS_MAX) {
        0 => String::new(),
        n => warn(&format!("and {} more (--json lists all)", count(n as u64))),
    };
    shown.collect::<String>() + &more
}
