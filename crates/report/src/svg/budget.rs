// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plot of a budget: instructions, or cycles, over the size of frames (figure 10-4 of the Netra
//! document).

use super::Plot;
use super::canvas::{Caption, Look};
use super::lines::{Line, LineChart};
use linerate_record::budget::{BudgetReport, BudgetRow};
use linerate_record::units::{BitsPerSecond, three_digits};

/// What a packet may cost over the size of frames; `None` with fewer than two sizes.
pub fn budget(report: &BudgetReport) -> Option<Plot> {
    // The mix is no size.
    let rows: Vec<&BudgetRow> = report.rows.iter().filter(|row| row.name != "IMIX").collect();
    rows.get(1)?;
    let quoted = rows[rows.len() / 2].frame_octets;
    let line = |name: &str, look, of: &dyn Fn(&BudgetRow) -> Option<f64>| Line {
        name: name.to_owned(),
        look,
        points: rows.iter().filter_map(|row| Some((row.frame_octets, of(row)?))).collect(),
    };
    let mut lines = vec![
        line("cycles of a pipe", Look::Bound, &|row| Some(row.cycles_per_packet)),
        line("instructions, shared", Look::Variant(0), &|row| row.instructions_per_packet),
        line("instructions, alone", Look::Variant(1), &|row| row.instructions_alone),
    ];
    lines.retain(|line| !line.points.is_empty());
    let title = format!(
        "What a packet may cost at {} on {}",
        BitsPerSecond(report.line_bits_per_s),
        report.processor
    );
    let described = rows.iter().map(|row| {
        let cost = row.instructions_per_packet.map_or_else(
            || format!("{} cycles", three_digits(row.cycles_per_packet)),
            |instructions| format!("{} instructions", three_digits(instructions)),
        );
        format!("{} octets: {cost}", row.name)
    });
    let caption = Caption {
        name: "budget".to_owned(),
        title: title.clone(),
        notes: vec![format!("Figures of the processor: {}.", report.source)],
        description: described.collect::<Vec<_>>().join("; "),
    };
    let chart = LineChart {
        caption,
        x_label: "octets of a frame, FCS included (both axes logarithmic)".to_owned(),
        y_label: "cycles or instructions per packet".to_owned(),
        quoted: (quoted, format!("{} octets", three_digits(quoted))),
        lines,
    };
    Some(Plot { name: "budget".to_owned(), title, svg: chart.svg() })
}
