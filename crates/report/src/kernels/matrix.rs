// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of one block, with one column per size and one row per routine.
//!
//! If a table is too wide, sizes close to another size are dropped, unless all sizes were
//! requested. If it is still too wide, it is split, because wrapped cells are hard to compare.

use crate::layout::{CHOSEN, Grid, Paint, painted};
use crate::value::{ABSENT, clean};
use crate::{Sizes, Style};
use linerate_plan::routines::{Block, Load, Series, TIE, Unit};
use linerate_record::kernels::{Role, Row};
use linerate_record::units::three_digits;

/// Mark for the shortest time among `selected` and the variants.
pub(super) const FASTEST: &str = "*";
/// Sizes that differ by less than this factor have nearly the same results.
const CLOSE: f64 = 1.15;
/// Maximum width of a name in columns.
const LONGEST_NAME: usize = 24;
/// Spaces between two columns of a `Grid`.
const GAP: usize = 2;

/// One row of a table.
struct Line {
    is_selected: bool,
    label: String,
    cells: Vec<String>,
}

/// Table layout.
pub(super) struct Page<'a> {
    pub(super) unit: Unit,
    pub(super) sizes: Sizes,
    pub(super) style: &'a Style,
    /// Sizes omitted so far.
    pub(super) left_out: Vec<Load>,
}

/// Formats a block as a table with a title.
pub(super) fn table(block: &Block, page: &mut Page) -> String {
    let (loads, unit) = (block.loads(), page.unit);
    let mut lines = Vec::new();
    if block.of_role(Role::Bound).next().is_some() {
        lines.push(of_role(block, Role::Bound, "bound", &loads, unit));
    }
    let best: Vec<f64> = loads.iter().map(|&load| best_time(block, load, unit)).collect();
    let marked = |series: &Series| {
        let cell = |(load, best): (&Load, &f64)| {
            let row = series.rows.get(load).copied();
            let is_best = row.and_then(|r| unit.time(r)).is_some_and(|time| time <= best * TIE);
            format!("{}{}", if is_best { FASTEST } else { "" }, time(row, unit))
        };
        let is_selected = series.role == Role::Selected;
        line(is_selected, series.name, loads.iter().zip(&best).map(cell))
    };
    for series in block.of_role(Role::Selected) {
        lines.push(marked(series));
        lines.extend(share_line(block, &loads));
    }
    lines.extend(times(block, Role::Entry, &loads, unit));
    lines.extend(block.of_role(Role::Variant).map(marked));
    lines.extend(times(block, Role::Peer, &loads, unit));
    let title = title(block, &block.case_text(), unit);
    render(&title, &loads, &lines, page)
}

/// Formats a kernel's placements other than the aligned one as one table, with a few lines per
/// placement.
pub(super) fn placements(blocks: &[&Block], page: &mut Page) -> String {
    let Some(first) = blocks.first() else { return String::new() };
    let unit = page.unit;
    let mut loads: Vec<Load> = blocks.iter().flat_map(|block| block.loads()).collect();
    loads.sort_unstable();
    loads.dedup();
    let mut lines = Vec::new();
    for block in blocks {
        lines.push(line(false, &block.placement.text(), loads.iter().map(|_| String::new())));
        if block.of_role(Role::Bound).next().is_some() {
            lines.push(of_role(block, Role::Bound, "  bound", &loads, unit));
        }
        lines.push(Line {
            is_selected: true,
            ..of_role(block, Role::Selected, "  selected", &loads, unit)
        });
        lines.extend(share_line(block, &loads));
        if block.of_role(Role::Variant).next().is_some() {
            lines.push(of_role(block, Role::Variant, "  fastest variant", &loads, unit));
        }
    }
    let case = format!("{}, other placements{}", first.state_text(), first.timing_text());
    render(&title(first, &case, unit), &loads, &lines, page)
}

fn line(is_selected: bool, label: &str, cells: impl Iterator<Item = String>) -> Line {
    Line { is_selected, label: shortened(&clean(label)), cells: cells.collect() }
}

/// Returns one line per routine with this role.
fn times(block: &Block, role: Role, loads: &[Load], unit: Unit) -> Vec<Line> {
    let times = |series: &Series| {
        let cell = |load| time(series.rows.get(load).copied(), unit);
        line(false, series.name, loads.iter().map(cell))
    };
    block.of_role(role).map(times).collect()
}

/// Returns a line with the shortest time of any routine with this role.
fn of_role(block: &Block, role: Role, label: &str, loads: &[Load], unit: Unit) -> Line {
    let cell = |&load: &Load| match block.fastest(role, load, unit) {
        Some((_, time)) => three_digits(time),
        None => absent(block.has(role, load)),
    };
    line(false, label, loads.iter().map(cell))
}

/// Returns the selected routine's speed relative to the bound; `None` if unknown for all loads.
fn share_line(block: &Block, loads: &[Load]) -> Option<Line> {
    let share = |&load: &Load| block.selected(load).and_then(|row| row.of_bound);
    loads.iter().find_map(share)?;
    let cell = |load: &Load| match share(load) {
        Some(share) => format!("{:.0}", share * 100.0),
        None => absent(block.has(Role::Selected, *load)),
    };
    Some(line(false, "  % of the bound", loads.iter().map(cell)))
}

/// Returns the cell for a missing number: `-`, which the notes explain, or an empty cell if there
/// was nothing to time.
fn absent(has_row: bool) -> String {
    if has_row { ABSENT.to_owned() } else { String::new() }
}

/// Returns the shortest time among `selected` and the variants; NaN if none was timed.
fn best_time(block: &Block, load: Load, unit: Unit) -> f64 {
    let times = [Role::Selected, Role::Variant].map(|role| block.fastest(role, load, unit));
    times.into_iter().flatten().map(|(_, time)| time).fold(f64::NAN, f64::min)
}

fn time(row: Option<&Row>, unit: Unit) -> String {
    row.and_then(|row| unit.time(row)).map_or_else(|| absent(row.is_some()), three_digits)
}

/// Truncates a name to `LONGEST_NAME` columns.
fn shortened(name: &str) -> String {
    if name.chars().count() <= LONGEST_NAME {
        return name.to_owned();
    }
    name.chars().take(LONGEST_NAME - 1).chain(['…']).collect()
}

fn title(block: &Block, case: &str, unit: Unit) -> String {
    let bound = block.bound_text().map(|bound| format!("; bound: {bound}")).unwrap_or_default();
    clean(&format!("{}, {case}: {} per call{bound}", block.kernel, unit.name()))
}

fn render(title: &str, loads: &[Load], lines: &[Line], page: &mut Page) -> String {
    let style = page.style;
    let all: Vec<usize> = (0..loads.len()).collect();
    let keeps_all = page.sizes == Sizes::All || fits(&all, loads, lines, style);
    let shown = if keeps_all { all } else { distinct(loads) };
    let left_out = (0..loads.len()).filter(|index| !shown.contains(index));
    page.left_out.extend(left_out.map(|index| loads[index]));
    let mut text = painted(Paint::Head, &textwrap::fill(title, style.width), style) + "\n";
    let per_table = columns_per_table(&shown, loads, lines, style);
    for (index, columns) in shown.chunks(per_table.max(1)).enumerate() {
        if index > 0 {
            text.push('\n');
        }
        text += &grid(columns, loads, lines).render(style);
    }
    text
}

fn grid(columns: &[usize], loads: &[Load], lines: &[Line]) -> Grid {
    let head: Vec<String> =
        columns.iter().map(|&column| format!(">{}", loads[column].text())).collect();
    let head: Vec<&str> = ["", ""].into_iter().chain(head.iter().map(String::as_str)).collect();
    let mut grid = Grid::new(&head);
    for line in lines {
        let mark = if line.is_selected { CHOSEN } else { "" };
        let first = [mark.to_owned(), line.label.clone()];
        let cells = columns.iter().map(|&column| line.cells[column].clone());
        grid.row(first.into_iter().chain(cells).collect());
    }
    grid
}

/// Returns the width of a table with these columns.
fn width(columns: &[usize], loads: &[Load], lines: &[Line]) -> usize {
    let label = lines.iter().map(|line| line.label.chars().count()).max().unwrap_or(0);
    let cell = |&column: &usize| {
        let cells = lines.iter().map(|line| line.cells[column].chars().count());
        GAP + cells.max().unwrap_or(0).max(loads[column].text().len())
    };
    CHOSEN.len() + GAP + label + columns.iter().map(cell).sum::<usize>()
}

fn fits(columns: &[usize], loads: &[Load], lines: &[Line], style: &Style) -> bool {
    width(columns, loads, lines) <= style.width
}

/// Returns the columns left after dropping sizes that are close to a smaller one.
fn distinct(loads: &[Load]) -> Vec<usize> {
    let mut kept: Vec<usize> = Vec::new();
    for (index, load) in loads.iter().enumerate() {
        let before = kept.last().and_then(|&kept| loads[kept].size());
        let is_close = match (before, load.size()) {
            (Some(before), Some(size)) => (size as f64) < before as f64 * CLOSE,
            _ => false,
        };
        if !is_close {
            kept.push(index);
        }
    }
    kept
}

/// Returns the number of columns per table that spreads them evenly over as few tables as possible.
fn columns_per_table(shown: &[usize], loads: &[Load], lines: &[Line], style: &Style) -> usize {
    let per_table = |tables: usize| shown.len().div_ceil(tables);
    let fit = |tables: &usize| {
        shown.chunks(per_table(*tables)).all(|columns| fits(columns, loads, lines, style))
    };
    let tables = (1..=shown.len()).find(fit).unwrap_or(shown.len());
    if shown.is_empty() { 0 } else { per_table(tables) }
}
