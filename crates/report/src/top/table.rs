// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table whose lines are never wrapped, because a screen has a fixed number of lines.

use crate::layout::Paint;
use crate::value::clean;

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// A column.
#[derive(Clone, Debug)]
pub(super) struct Column {
    head: String,
    align: Align,
}

impl Column {
    pub(super) fn new(head: &str, align: Align) -> Self {
        Self { head: head.to_owned(), align }
    }
}

/// Spaces between two columns.
const GAP: usize = 2;
/// Maximum width of each column except the last.
const WIDEST: usize = 24;

/// A table.
#[derive(Clone, Debug)]
pub(super) struct Table {
    columns: Vec<Column>,
    rows: Vec<(Vec<String>, Option<Paint>)>,
    /// Noun for the rows, used in the line that states how many are omitted.
    things: &'static str,
    left_out: usize,
}

impl Table {
    pub(super) fn new(columns: Vec<Column>, things: &'static str) -> Self {
        Self { columns, rows: Vec::new(), things, left_out: 0 }
    }

    pub(super) fn row(&mut self, cells: Vec<String>, paint: Option<Paint>) {
        self.rows.push((cells.iter().map(|cell| clean(cell)).collect(), paint));
    }

    /// Limits the table to `most` rows. If some are left out, the last row says how many.
    pub(super) fn limit(&mut self, most: usize) {
        if self.rows.len() > most {
            let kept = most.saturating_sub(1);
            self.left_out = self.rows.len() - kept;
            self.rows.truncate(kept);
        }
    }

    /// Returns the headings, the rows and, if rows were left out, their number, one per line.
    pub(super) fn lines(&self) -> Vec<(String, Option<Paint>)> {
        let last = self.columns.len() - 1;
        let width = |(at, column): (usize, &Column)| {
            let cells = self.rows.iter().map(|(cells, _)| cells[at].chars().count());
            let widest = cells.chain([column.head.chars().count()]).max().unwrap_or(0);
            if at == last { widest } else { widest.min(WIDEST) }
        };
        let widths: Vec<usize> = self.columns.iter().enumerate().map(width).collect();
        let line = |cells: &[String]| {
            let cell = |(at, text): (usize, &String)| {
                let text: String = text.chars().take(widths[at]).collect();
                let width = widths[at];
                match self.columns[at].align {
                    Align::Left => format!("{text:<width$}"),
                    Align::Right => format!("{text:>width$}"),
                }
            };
            let cells: Vec<String> = cells.iter().enumerate().map(cell).collect();
            cells.join(&" ".repeat(GAP))
        };
        let heads: Vec<String> = self.columns.iter().map(|column| column.head.clone()).collect();
        let mut lines = vec![(line(&heads), Some(Paint::Head))];
        lines.extend(self.rows.iter().map(|(cells, paint)| (line(cells), *paint)));
        if self.left_out > 0 {
            lines.push((format!("... {} more {}", self.left_out, self.things), None));
        }
        lines
    }
}
