// SPDX-License-Identifier: MIT OR Apache-2.0
//! An icicle graph: call paths from the top down, each function as wide as its share including
//! callees.
//!
//! Each column represents an equal share of the samples. A function starts in the column of its
//! first sample, so that callees are below their callers. Functions whose width rounds to zero
//! columns are left out.

use super::{line, sampled};
use crate::call_tree::Frame;
use crate::layout::{fenced, stacked};
use crate::value::{clean, percent};
use crate::{Detail, Glyphs, Style};
use linerate_record::profile::{CostClass, ProfileReport};
use std::collections::BTreeMap;

/// Maximum number of rows on one screen.
const SCREEN_ROWS: usize = 30;
/// Maximum number of rows in the full report.
const MOST_ROWS: usize = 128;
/// Width in columns above which a function also shows its share.
const SHARE_COLUMNS: usize = 14;

/// Formats the icicle of a profile.
pub(crate) fn icicle(
    report: &ProfileReport,
    detail: Detail,
    glyphs: Glyphs,
    style: &Style,
) -> String {
    let whole = Frame::whole(report, MOST_ROWS);
    let mut drawing = Drawing {
        rows: Vec::new(),
        per_column: whole.samples.max(1) as f64 / style.width as f64,
        edge: if glyphs == Glyphs::Braille { '\u{258f}' } else { '|' },
        all: whole.samples,
        columns: style.width,
        folds: detail == Detail::Screen,
    };
    let program = BTreeMap::from([(report.sampled.name.clone(), whole)]);
    drawing.draw(&program, 0, 0);
    let most = if detail == Detail::Screen { SCREEN_ROWS } else { MOST_ROWS };
    let deeper = drawing.rows.len().saturating_sub(most);
    drawing.rows.truncate(most);
    let rows: String = drawing.rows.iter().map(|row| row.text(style)).collect();
    let mut notes = line("sampled", &sampled(report), style);
    if deeper > 0 {
        notes += &line("deeper", &format!("{deeper} more rows (--details)"), style);
    }
    notes += &line("width", &width_note(report, style), style);
    if style.color {
        notes += &legend(report);
    }
    stacked(&[fenced(&rows, style), notes])
}

fn width_note(report: &ProfileReport, style: &Style) -> String {
    let column = percent(1.0 / style.width as f64);
    format!(
        "a column is {column} % of {} samples; callers are above; functions that round to zero \
         columns are left out",
        report.samples
    )
}

/// Formats the kinds of work, each in its colour.
fn legend(report: &ProfileReport) -> String {
    let one = |class: CostClass| format!("\x1b[{}m {} \x1b[0m", color(class), class.title());
    let shown = report.classes.iter().take(8).map(|class| one(class.class));
    shown.collect::<Vec<_>>().join(" ") + "\n"
}

/// Returns the foreground and background colours of a kind of work, as SGR codes (ECMA-48).
fn color(class: CostClass) -> &'static str {
    match class {
        CostClass::Program => "30;42",
        CostClass::Copy | CostClass::Checksum => "30;41",
        CostClass::Allocation | CostClass::Lock => "30;45",
        CostClass::Driver | CostClass::Segmentation | CostClass::Filter => "30;46",
        CostClass::Crypto | CostClass::Compression => "30;44",
        CostClass::Polling | CostClass::Idle => "30;47",
        _ => "30;43",
    }
}

/// A row under construction: functions side by side.
#[derive(Default)]
struct Row {
    /// First column, text and kind of work of each function.
    cells: Vec<(usize, String, Option<CostClass>)>,
}

impl Row {
    fn text(&self, style: &Style) -> String {
        let mut text = String::new();
        let mut columns = 0;
        for (first, cell, class) in &self.cells {
            text += &" ".repeat(first.saturating_sub(columns));
            columns = first + cell.chars().count();
            match class.filter(|_| style.color) {
                Some(class) => text += &format!("\x1b[{}m{cell}\x1b[0m", color(class)),
                None => text += cell,
            }
        }
        text.trim_end().to_owned() + "\n"
    }
}

struct Drawing {
    rows: Vec<Row>,
    /// Samples per column.
    per_column: f64,
    edge: char,
    all: u64,
    columns: usize,
    /// Whether callers with a single callee of the same width share a row with it.
    folds: bool,
}

impl Drawing {
    /// Draws functions side by side in a row, starting at sample `begins`, with their callees
    /// below.
    fn draw(&mut self, frames: &BTreeMap<String, Frame>, row: usize, mut begins: u64) {
        for (name, frame) in frames {
            let first = self.column(begins);
            let behind = self.column(begins + frame.samples).min(self.columns);
            if behind > first {
                let (callers, name, frame) = self.folded(name, frame, begins);
                let cell = self.cell(&callers, name, frame.samples, behind - first);
                if self.rows.len() <= row {
                    self.rows.push(Row::default());
                }
                self.rows[row].cells.push((first, cell, frame.class));
                self.draw(&frame.callees, row + 1, begins);
            }
            begins += frame.samples;
        }
    }

    /// Follows the calls from a function as long as each caller has a single callee of the same
    /// width. Returns the names of the callers, and the last callee.
    fn folded<'f>(
        &self,
        name: &'f str,
        frame: &'f Frame,
        begins: u64,
    ) -> (Vec<&'f str>, &'f str, &'f Frame) {
        let width = |samples: u64| self.column(begins + samples) - self.column(begins);
        let (mut callers, mut last) = (Vec::new(), (name, frame));
        if !self.folds {
            return (callers, last.0, last.1);
        }
        loop {
            let mut callees = last.1.callees.iter();
            match (callees.next(), callees.next()) {
                (Some((name, only)), None) if width(only.samples) == width(last.1.samples) => {
                    callers.push(last.0);
                    last = (name, only);
                }
                _ => break,
            }
        }
        (callers, last.0, last.1)
    }

    fn column(&self, samples: u64) -> usize {
        (samples as f64 / self.per_column).round() as usize
    }

    /// Formats a function's name in `width` columns, with its share if there is room, after its
    /// callers in the same row: as many of the nearest as fit.
    fn cell(&self, callers: &[&str], name: &str, samples: u64, width: usize) -> String {
        const MORE: &str = "... > ";
        let share = percent(samples as f64 / self.all.max(1) as f64) + " %";
        let mut name = clean(name);
        let room = width.saturating_sub(4 + share.chars().count());
        for (at, caller) in callers.iter().enumerate().rev() {
            let longer = format!("{} > {name}", clean(caller));
            let reserve = if at > 0 { MORE.len() } else { 0 };
            if longer.chars().count() + reserve > room {
                let cut = format!("{MORE}{name}");
                name = if cut.chars().count() <= room { cut } else { name };
                break;
            }
            name = longer;
        }
        let text = match width > SHARE_COLUMNS {
            true => {
                let room = width - 3 - share.chars().count();
                format!("{:<room$} {share} ", name.chars().take(room).collect::<String>())
            }
            false => name.chars().take(width - 1).collect(),
        };
        let room = width - 1;
        format!("{}{text:<room$}", self.edge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::fixtures;
    use linerate_record::profile::CallNode;

    /// Returns a profile of a function with two callees, which take three quarters and one quarter
    /// of the time, and of a function without samples.
    fn report() -> ProfileReport {
        let mut report = fixtures::profile();
        let node = |caller, function, samples| CallNode { caller, thread: 0, function, samples };
        report.calls =
            vec![node(None, 0, 0), node(Some(0), 1, 75), node(Some(0), 2, 25), node(Some(1), 3, 0)];
        report
    }

    #[test]
    fn callees_are_below_their_callers_and_as_wide_as_their_share() {
        let report = report();
        let style = Style::plain(80);
        let text = icicle(&report, Detail::Brief, Glyphs::Ascii, &style);
        let rows: Vec<&str> = text.lines().take(4).collect();
        assert!(rows[0].starts_with('|') && rows[0].contains("100.0 %"), "{text}");
        assert!(rows[3].contains("75.0 %") && rows[3].contains("25.0 %"), "{text}");
        let edges: Vec<usize> =
            rows[3].char_indices().filter(|(_, c)| *c == '|').map(|(at, _)| at).collect();
        assert!(edges == [0, 60] || edges == [0, 20], "{edges:?} {text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn on_one_screen_callers_of_one_function_share_its_row() {
        let report = report();
        let text = icicle(&report, Detail::Screen, Glyphs::Ascii, &Style::plain(80));
        let rows: Vec<&str> = text.lines().take(3).collect();
        let name = clean(&report.functions[0].name);
        assert!(rows[0].contains(&format!(" > {name} ")) && rows[0].contains("100.0 %"), "{text}");
        assert!(rows[1].contains("75.0 %") && rows[1].contains("25.0 %"), "{text}");
        // The function itself is named even where its callers do not fit.
        let text = icicle(&report, Detail::Screen, Glyphs::Ascii, &Style::plain(40));
        assert!(text.lines().next().is_some_and(|row| row.contains(&name)), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    }

    #[test]
    fn any_width_is_filled_and_never_exceeded() {
        let report = fixtures::profile();
        for width in 40..130 {
            let text = icicle(&report, Detail::Full, Glyphs::Braille, &Style::plain(width));
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        }
    }

    #[test]
    fn without_samples_there_is_a_note_and_no_drawing() {
        let mut report = fixtures::profile();
        report.calls.clear();
        let text = icicle(&report, Detail::Screen, Glyphs::Ascii, &Style::plain(80));
        assert!(text.starts_with("sampled"), "{text}");
    }
}
