// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables built column by column, so that their width is known before layout: wrapped numbers are
//! hard to read.

use crate::Style;
use crate::layout::Grid;

/// Number of spaces between columns.
const GAP: usize = 2;

/// A column of a table.
#[derive(Clone)]
pub(super) struct Column {
    /// Heading, as for [`Grid::new`].
    pub(super) head: String,
    pub(super) cells: Vec<String>,
}

impl Column {
    fn width(&self) -> usize {
        let head = self.head.trim_start_matches('>').lines();
        let lines = head.chain(self.cells.iter().map(String::as_str));
        lines.map(|line| line.chars().count()).max().unwrap_or(0)
    }
}

/// Returns the total width of a table with these columns.
pub(super) fn width(columns: &[Column]) -> usize {
    let widths: usize = columns.iter().map(|column| column.width() + GAP).sum();
    widths.saturating_sub(GAP)
}

/// Formats the table. All columns must have the same number of cells.
pub(super) fn render(columns: &[Column], style: &Style) -> String {
    let mut grid = Grid::new(&columns.iter().map(|c| c.head.as_str()).collect::<Vec<_>>());
    for row in 0..columns.first().map_or(0, |column| column.cells.len()) {
        grid.row(columns.iter().map(|column| column.cells[row].clone()).collect());
    }
    grid.render(style)
}

/// Splits a wide table. Each part starts with `first`, followed by as many of `rest` as fit, but at
/// least one.
pub(super) fn spread(first: &[Column], rest: &[Column], style: &Style) -> String {
    let mut tables = vec![first.to_vec()];
    for column in rest {
        let last = tables.last_mut().expect("there is at least one table");
        last.push(column.clone());
        if width(last) > style.width && last.len() > first.len() + 1 {
            last.pop();
            tables.push([first, std::slice::from_ref(column)].concat());
        }
    }
    tables.iter().map(|table| render(table, style)).collect::<Vec<_>>().join("\n")
}
