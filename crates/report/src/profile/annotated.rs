// SPDX-License-Identifier: MIT OR Apache-2.0
//! A function broken down by source line, and each line's instructions with their samples.

use super::{line, sampled};
use crate::layout::{Grid, Paint, painted, stacked};
use crate::value::{ABSENT, cell, clean, count, interval, percent};
use crate::{Detail, Style};
use linerate_record::profile::{AnnotatedFunction, InstructionCost, ProfileReport, SourceLine};
use linerate_record::stats::interval_name;

/// Number of rows on one screen.
const SCREEN_ROWS: usize = 28;
/// Maximum number of source lines on one screen.
const MOST_LINES: usize = 6;
/// Rows of the table of source lines in addition to the lines themselves: title, headings, the
/// number of omitted lines, and an empty row.
const LINES_ROWS: usize = 4;
/// Number of instructions shown before and after a hot one.
const CONTEXT: usize = 2;

/// Formats the instructions of the recorded function, or the reason why they cannot be shown.
pub(crate) fn annotated(report: &ProfileReport, detail: Detail, style: &Style) -> String {
    let Some(annotated) = &report.annotated else {
        let unread = report.unread.iter().find(|one| one.what == "instructions");
        let reason = unread.map_or(
            "the record has no instructions: record it with `linerate profile --annotate`",
            |unread| &unread.reason,
        );
        return line("cannot tell", reason, style);
    };
    let function = report.functions.get(annotated.function as usize);
    let name = function.map_or_else(
        || ABSENT.to_owned(),
        |one| format!("{} ({}), {} samples", one.name, one.module, count(annotated.samples)),
    );
    let mut facts = line("sampled", &sampled(report), style) + &line("function", &name, style);
    if let Some(reason) = &annotated.no_lines {
        facts += &line("no lines", reason, style);
    }
    let note = "samples land on the instruction after the one that stalled";
    let by_line = lines(annotated, detail, style);
    stacked(&[facts, by_line, table(annotated, detail, style), line("note", note, style)])
}

/// Formats the source lines with samples, most samples first.
fn lines(annotated: &AnnotatedFunction, detail: Detail, style: &Style) -> String {
    let most = if detail == Detail::Screen { MOST_LINES } else { usize::MAX };
    let interval_head = interval_name() + " %";
    let mut grid = Grid::new(&[">share %", &interval_head, "source line"]);
    for one in annotated.lines.iter().take(most) {
        grid.row(vec![
            cell(&one.share, percent),
            interval(&one.share, percent).unwrap_or_default(),
            place(&one.line),
        ]);
    }
    let more = match annotated.lines.len().saturating_sub(most) {
        0 => String::new(),
        more => format!("{more} more lines with fewer samples (--details)\n"),
    };
    match grid.render(style) {
        empty if empty.is_empty() => empty,
        table => painted(Paint::Head, "Source lines by share", style) + "\n" + &table + &more,
    }
}

/// Returns a source line as `file:line`, without the folder.
fn place(source: &SourceLine) -> String {
    let file = source.file.rsplit('/').next().unwrap_or_default();
    clean(&format!("{file}:{}", source.line))
}

/// Formats the instructions; on one screen, only the hottest and their neighbours.
fn table(annotated: &AnnotatedFunction, detail: Detail, style: &Style) -> String {
    let interval_head = interval_name() + " %";
    let mut grid = Grid::new(&[">share %", &interval_head, "address", "instruction"]);
    let of_lines = match annotated.lines.len() {
        0 => 0,
        lines => lines.min(MOST_LINES) + LINES_ROWS,
    };
    let shown = match detail {
        Detail::Screen => hottest(&annotated.instructions, SCREEN_ROWS - of_lines),
        Detail::Brief | Detail::Full => vec![true; annotated.instructions.len()],
    };
    let mut last: Option<&SourceLine> = None;
    let mut has_gap = false;
    for (at, one) in annotated.instructions.iter().enumerate() {
        has_gap |= one.is_after_gap;
        if !shown[at] {
            has_gap = true;
            continue;
        }
        if std::mem::take(&mut has_gap) && at > 0 {
            grid.row(vec![String::new(), String::new(), "...".to_owned(), String::new()]);
            last = None;
        }
        if let Some(source) = one.line.as_ref().filter(|source| last != Some(source)) {
            grid.row(vec![String::new(), String::new(), String::new(), place(source)]);
            last = Some(source);
        }
        let share = one.share.as_ref();
        grid.row(vec![
            share.and_then(linerate_record::Figure::as_number).map_or_else(String::new, percent),
            share.and_then(|share| interval(share, percent)).unwrap_or_default(),
            one.address.clone(),
            format!("  {}", clean(&one.text)),
        ]);
    }
    match grid.render(style) {
        empty if empty.is_empty() => empty,
        table => painted(Paint::Head, "Instructions by address", style) + "\n" + &table,
    }
}

/// Returns which instructions to show in this number of rows: the hottest, each with its
/// neighbours.
fn hottest(instructions: &[InstructionCost], most_rows: usize) -> Vec<bool> {
    let mut order: Vec<usize> = (0..instructions.len()).collect();
    order.sort_by_key(|&at| (std::cmp::Reverse(instructions[at].samples), at));
    let mut shown = vec![false; instructions.len()];
    let mut rows = 0;
    for at in order.into_iter().filter(|&at| instructions[at].samples > 0) {
        let around = at.saturating_sub(CONTEXT)..(at + CONTEXT + 1).min(instructions.len());
        let more = around.clone().filter(|&at| !shown[at]).count();
        // Reserve two rows: one for a gap mark and one for a source line.
        rows += more + 2;
        if rows > most_rows {
            break;
        }
        shown[around].fill(true);
    }
    shown
}
