// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports skipped and repaired packets in a run's input.

use crate::Style;
use crate::layout::{Grid, Paint, labelled};
use crate::value::{clean, count, percent};
use linerate_record::input::WARNED_SHARE;
use linerate_record::run::RunReport;
use linerate_record::units::memory_size;

/// Formats header lines about repaired packets, and about skipped ones if there are many.
pub(crate) fn lines(report: &RunReport, style: &Style) -> String {
    let Some(input) = &report.input else { return String::new() };
    let line = |label: &str, paint, text: &str| labelled(label, paint, &clean(text), style);
    let mut lines: String =
        input.repairs().iter().map(|repair| line("input", Paint::Head, repair)).collect();
    let share = input.left_out_share();
    if share > WARNED_SHARE {
        let total = input.left_out_total();
        let text = format!(
            "{} % of the input bytes ({} of {}), mostly due to {}",
            percent(share),
            memory_size(total.bytes as f64),
            memory_size((total.bytes + input.offered.bytes) as f64),
            input.main_cause().unwrap_or("no cause"),
        );
        lines += &line("left out", Paint::Warning, &text);
    }
    lines
}

/// Lists rejected packets by cause, with bytes where known.
pub(crate) fn rejected(report: &RunReport, style: &Style) -> String {
    let Some(input) = &report.input else {
        let mut grid = Grid::new(&["input rejected for", ">packets"]);
        for (cause, &packets) in &report.rejected {
            grid.row(vec![cause.clone(), count(packets)]);
        }
        return grid.render(style);
    };
    let mut grid = Grid::new(&["input rejected for", ">packets", ">bytes", ">% of bytes"]);
    for (cause, tally) in &input.left_out {
        let share = percent(input.share(tally.bytes));
        grid.row(vec![cause.clone(), count(tally.packets), count(tally.bytes), share]);
    }
    let unread = input.unread.map_or_else(String::new, |unread| {
        let text =
            format!("{} bytes, starting at file offset {}", count(unread.bytes), unread.offset);
        labelled("unread", Paint::Head, &text, style)
    });
    grid.render(style) + &unread
}
