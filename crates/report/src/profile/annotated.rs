// SPDX-License-Identifier: MIT OR Apache-2.0
//! The instructions of a function with the samples at each, under their source lines.

use super::{line, sampled};
use crate::layout::{Grid, Paint, painted, stacked};
use crate::value::{ABSENT, clean, count, interval, percent};
use crate::{Detail, Style};
use linerate_record::profile::{AnnotatedFunction, InstructionCost, ProfileReport, SourceLine};
use linerate_record::stats::interval_name;

/// Number of rows on one screen.
const SCREEN_ROWS: usize = 28;
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
    stacked(&[facts, table(annotated, detail, style), line("note", note, style)])
}

/// Formats the instructions; on one screen, only the hottest and their neighbours.
fn table(annotated: &AnnotatedFunction, detail: Detail, style: &Style) -> String {
    let interval_head = interval_name() + " %";
    let mut grid = Grid::new(&[">share %", &interval_head, "address", "instruction"]);
    let shown = match detail {
        Detail::Screen => hottest(&annotated.instructions),
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
            let file = source.file.rsplit('/').next().unwrap_or_default();
            let place = clean(&format!("{file}:{}", source.line));
            grid.row(vec![String::new(), String::new(), String::new(), place]);
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

/// Returns which instructions to show on one screen: the hottest, each with its neighbours.
fn hottest(instructions: &[InstructionCost]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..instructions.len()).collect();
    order.sort_by_key(|&at| (std::cmp::Reverse(instructions[at].samples), at));
    let mut shown = vec![false; instructions.len()];
    let mut rows = 0;
    for at in order.into_iter().filter(|&at| instructions[at].samples > 0) {
        let around = at.saturating_sub(CONTEXT)..(at + CONTEXT + 1).min(instructions.len());
        let more = around.clone().filter(|&at| !shown[at]).count();
        // Reserve two rows: one for a gap mark and one for a source line.
        rows += more + 2;
        if rows > SCREEN_ROWS {
            break;
        }
        shown[around].fill(true);
    }
    shown
}
