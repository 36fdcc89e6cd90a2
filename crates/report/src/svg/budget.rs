// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots of the budget against frame size: instructions or cycles (figure 10-4 in the Netra
//! document), and the roofline (figures 10-3 and 10-5).

use super::Plot;
use super::canvas::{Caption, Look};
use super::lines::{Line, LineChart};
use linerate_record::budget::{BudgetReport, BudgetRow};
use linerate_record::units::{BitsPerSecond, Kpps, three_digits};

/// Plots the per-packet budget against frame size; `None` with fewer than two sizes.
pub fn budget(report: &BudgetReport) -> Option<Plot> {
    let rows = sizes(report)?;
    let [all, shared, alone] = match report.is_this_machine {
        true => ["core, cycles", "thread, shared", "thread, alone"],
        false => ["pipe, cycles", "strand, shared", "strand, alone"],
    };
    let lines = lines(
        &rows,
        &[
            (all, Look::Bound, |row| Some(row.cycles_per_packet)),
            (shared, Look::Variant(0), |row| row.instructions_per_packet),
            (alone, Look::Variant(1), |row| row.instructions_alone),
        ],
    );
    let title = format!(
        "Per-packet budget at {} on {}",
        BitsPerSecond(report.line_bits_per_s),
        report.processor
    );
    let described = rows.iter().map(|row| {
        let cost = row.instructions_per_packet.map_or_else(
            || format!("{} cycles", three_digits(row.cycles_per_packet)),
            |instructions| format!("{} instructions", three_digits(instructions)),
        );
        format!("{} bytes: {cost}", row.name)
    });
    let described = described.collect::<Vec<_>>().join("; ");
    let shown = Shown { name: "budget", title, described, y: "cycles or instructions per packet" };
    Some(shown.plot(report, &rows, lines))
}

/// Plots the roofline, that is, forwarding rate vs. frame size; `None` with fewer than two sizes,
/// or if only line rate is known.
pub fn roofline(report: &BudgetReport) -> Option<Plot> {
    let rows = sizes(report)?;
    let lines = lines(
        &rows,
        &[
            ("the line", Look::Bound, |row| Some(row.packets_per_s / 1e3)),
            ("interfaces", Look::Variant(0), |row| Some(row.ceilings.io_packets_per_s? / 1e3)),
            ("memory", Look::Variant(1), |row| Some(row.ceilings.memory_packets_per_s? / 1e3)),
            ("instructions", Look::Variant(2), |row| Some(row.ceilings.issue_packets_per_s? / 1e3)),
            ("measured", Look::Variant(3), |row| Some(row.ceilings.measured_packets_per_s? / 1e3)),
        ],
    );
    lines.get(1)?;
    let title = format!(
        "Forwarding roofline of {}, line rate {}",
        report.processor,
        BitsPerSecond(report.line_bits_per_s)
    );
    let described = rows.iter().map(|row| {
        let of = row.ceilings;
        let all = [of.io_packets_per_s, of.memory_packets_per_s, of.issue_packets_per_s];
        let least = all.into_iter().flatten().fold(row.packets_per_s, f64::min);
        format!("{} bytes: at most {}", row.name, Kpps(least / 1e3))
    });
    let described = described.collect::<Vec<_>>().join("; ");
    let shown = Shown { name: "roofline", title, described, y: "thousand packets per second" };
    Some(shown.plot(report, &rows, lines))
}

/// Returns the rows with a single frame size; `None` if there are fewer than two.
fn sizes(report: &BudgetReport) -> Option<Vec<&BudgetRow>> {
    let rows: Vec<&BudgetRow> = report.rows.iter().filter(|row| row.name != "IMIX").collect();
    (rows.len() > 1).then_some(rows)
}

type Named = (&'static str, Look, fn(&BudgetRow) -> Option<f64>);

/// Returns one line per figure, through the rows that have a value for it. Figures without any
/// value are left out.
fn lines(rows: &[&BudgetRow], named: &[Named]) -> Vec<Line> {
    let line = |(name, look, of): &Named| Line {
        name: (*name).to_owned(),
        look: *look,
        points: rows.iter().filter_map(|row| Some((row.frame_bytes, of(row)?))).collect(),
    };
    named.iter().map(line).filter(|line| !line.points.is_empty()).collect()
}

/// Name and description of a plot.
struct Shown {
    name: &'static str,
    title: String,
    described: String,
    y: &'static str,
}

impl Shown {
    fn plot(self, report: &BudgetReport, rows: &[&BudgetRow], lines: Vec<Line>) -> Plot {
        let quoted = rows[rows.len() / 2].frame_bytes;
        let caption = Caption {
            name: self.name.to_owned(),
            title: self.title.clone(),
            notes: vec![format!("Processor figures: {}.", report.source)],
            description: self.described,
        };
        let chart = LineChart {
            caption,
            x_label: "frame size in bytes, including FCS (both axes logarithmic)".to_owned(),
            y_label: self.y.to_owned(),
            quoted: (quoted, format!("{} bytes", three_digits(quoted))),
            lines,
        };
        Plot { name: self.name.to_owned(), title: self.title, svg: chart.svg() }
    }
}
