// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots latency curves in the terminal: ns per load against chain size in bytes, on log-log axes.
//! Dotted lines mark the level sizes, each as wide as the interval of the size.

use super::{Glyphs, Page, curve_name, drawn, edges};
use crate::layout::fenced;
use crate::value::clean;
use linerate_record::units::{memory_size, three_digits};

/// Rows in the plot area.
const ROWS: usize = 16;
/// Maximum width in columns of a curve's name, including its letter. Longer names are truncated.
const NAME_COLUMNS: usize = 17;
/// Maximum width of the plot area in columns, so that the labels on either side stay close to the
/// curves.
const MOST_COLUMNS: usize = 88;

/// A curve to draw.
struct Trace {
    /// Curve name, with its letter in front if curves are drawn as letters.
    name: String,
    /// Letter that represents the curve.
    letter: char,
    points: Vec<(f64, f64)>,
}

/// Draws the plot; empty without a curve.
pub(super) fn plot(page: &Page) -> String {
    const LETTERS: [char; 6] = ['*', '+', 'o', 'x', '#', '%'];
    let curves = page.report.curves.iter().zip(LETTERS.into_iter().cycle());
    let traces = curves.map(|(curve, letter)| {
        let name = clean(&curve_name(curve, page.report));
        let name = match page.glyphs {
            Glyphs::Braille => name,
            Glyphs::Ascii => format!("{letter} {name}"),
        };
        let name = name.chars().take(NAME_COLUMNS).collect();
        Trace { name, letter, points: drawn(curve) }
    });
    let traces: Vec<Trace> = traces.filter(|trace| !trace.points.is_empty()).collect();
    let Some(area) = Area::of(page, &traces) else { return String::new() };
    let mut raster = Raster::new(&area, page.glyphs);
    for [low, _, high] in edges(page.report) {
        raster.edge(area.column(low), area.column(high));
    }
    // The levels are derived from the first curve. It is drawn last, so that it is in front.
    for trace in traces.iter().rev() {
        raster.trace(&area, trace);
    }
    let title = "load latency vs. chain size";
    let drawn = head(page, &area) + &body(&area, &raster, &traces) + &axis(&area, page.glyphs);
    page.title(title) + &fenced(&drawn, page.style)
}

/// Plot geometry: size in columns, and log2 axis ranges.
struct Area {
    /// Columns for labels on the left.
    left: usize,
    columns: usize,
    x: (f64, f64),
    y: (f64, f64),
}

impl Area {
    fn of(page: &Page, traces: &[Trace]) -> Option<Self> {
        let points = || traces.iter().flat_map(|trace| &trace.points);
        let extent = |values: &mut dyn Iterator<Item = f64>| {
            let both = values.map(|value| (value, value));
            both.reduce(|(low, high), (value, _)| (low.min(value), high.max(value)))
        };
        let x = extent(&mut points().map(|point| point.0.log2()))?;
        let (low, high) = extent(&mut points().map(|point| point.1.log2()))?;
        let y = (low.floor(), high.ceil().max(low.floor() + 1.0));
        let labels = octaves(y).map(|value| three_digits(value).chars().count());
        let left = labels.max().unwrap_or(0) + 1;
        let names = traces.iter().map(|trace| trace.name.chars().count()).max().unwrap_or(0);
        let room = page.style.width.saturating_sub(left + 1 + 1 + names);
        Some(Self { left, columns: room.clamp(8, MOST_COLUMNS), x: (x.0, x.1.max(x.0 + 1.0)), y })
    }

    /// Returns the position on the x axis, 0 to 1.
    fn across(&self, bytes: f64) -> f64 {
        (bytes.log2() - self.x.0) / (self.x.1 - self.x.0)
    }

    /// Returns the position on the y axis, 0 (top) to 1.
    fn down(&self, ns: f64) -> f64 {
        (self.y.1 - ns.log2()) / (self.y.1 - self.y.0)
    }

    fn column(&self, bytes: f64) -> usize {
        place(self.across(bytes), self.columns)
    }

    fn row(&self, ns: f64) -> usize {
        place(self.down(ns), ROWS)
    }
}

/// Returns the index of the cell, out of `cells`, that contains the position `share`; positions of
/// 1 or more are in the last cell.
fn place(share: f64, cells: usize) -> usize {
    ((share * cells as f64) as usize).min(cells - 1)
}

/// Returns the powers of two within a range of octaves.
fn octaves((low, high): (f64, f64)) -> impl Iterator<Item = f64> {
    (low.ceil() as i32..=high.floor() as i32).map(|octave| 2f64.powi(octave))
}

/// Characters in the plot area.
struct Raster {
    glyphs: Glyphs,
    rows: Vec<Vec<char>>,
}

/// The empty Braille pattern. Others set one bit per dot.
const NO_DOTS: u32 = 0x2800;

impl Raster {
    fn new(area: &Area, glyphs: Glyphs) -> Self {
        Self { glyphs, rows: vec![vec![' '; area.columns]; ROWS] }
    }

    /// Draws a level boundary.
    fn edge(&mut self, from: usize, to: usize) {
        let line = match self.glyphs {
            Glyphs::Braille => '┊',
            Glyphs::Ascii => ':',
        };
        for row in &mut self.rows {
            row[from..=to].fill(line);
        }
    }

    /// Dots per character, horizontally and vertically.
    fn dots(&self) -> (usize, usize) {
        match self.glyphs {
            Glyphs::Braille => (2, 4),
            Glyphs::Ascii => (1, 1),
        }
    }

    /// Draws a line through the points: one dot per dot column, with vertical gaps filled.
    fn trace(&mut self, area: &Area, trace: &Trace) {
        let (across, down) = self.dots();
        let (width, height) = (area.columns * across, ROWS * down);
        let place = |&(bytes, ns): &(f64, f64)| {
            (place(area.across(bytes), width), place(area.down(ns), height))
        };
        let points: Vec<(usize, usize)> = trace.points.iter().map(place).collect();
        let mut before = points[0].1;
        self.dot(points[0], trace.letter);
        for pair in points.windows(2) {
            let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
            for x in x0 + 1..=x1 {
                let share = (x - x0) as f64 / (x1 - x0) as f64;
                let y = (y0 as f64 + share * (y1 as f64 - y0 as f64)).round() as usize;
                // Where the line is steep, intermediate dots belong to the column they lead to.
                let run =
                    if y > before { before + 1..=y } else { y..=y.max(before.saturating_sub(1)) };
                run.for_each(|y| self.dot((x, y), trace.letter));
                before = y;
            }
        }
    }

    fn dot(&mut self, (x, y): (usize, usize), letter: char) {
        /// Bits of Braille patterns, by column and row.
        const BITS: [[u32; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
        let (across, down) = self.dots();
        let cell = &mut self.rows[y / down][x / across];
        *cell = match self.glyphs {
            Glyphs::Ascii => letter,
            Glyphs::Braille => {
                let dots = (*cell as u32).checked_sub(NO_DOTS).filter(|dots| *dots < 256);
                let dots = dots.unwrap_or(0) | BITS[x % 2][y % 4];
                char::from_u32(NO_DOTS | dots).unwrap_or(letter)
            }
        };
    }
}

/// Formats the lines above the plot area: level names and latencies, each where it fits.
fn head(page: &Page, area: &Area) -> String {
    let levels = &page.report.levels;
    let mut from = 0;
    let mut names = Ruler::new(area);
    let mut times = Ruler::new(area);
    for level in levels {
        let size = level.size_bytes.as_number().filter(|size| *size > 0.0);
        let to = size.map_or(area.columns, |size| area.column(size));
        let middle = usize::midpoint(from, to);
        names.put(middle, &clean(&level.name));
        if let Some(ns) = level.latency_ns.as_number() {
            times.put(middle, &format!("{} ns", three_digits(ns)));
        }
        from = to.max(from);
    }
    names.line() + &times.line()
}

/// A line of non-overlapping labels.
struct Ruler {
    left: usize,
    end: usize,
    text: Vec<char>,
    /// First free position for a label.
    free: usize,
}

impl Ruler {
    fn new(area: &Area) -> Self {
        let left = area.left + 1;
        Self { left, end: left + area.columns, text: vec![' '; left + area.columns], free: 0 }
    }

    /// Centres a label on a column of the area, or omits it if there is no room.
    fn put(&mut self, middle: usize, label: &str) {
        let length = label.chars().count();
        let start =
            (self.left + middle).saturating_sub(length / 2).min(self.end - length.min(self.end));
        if start < self.free || start + length > self.end {
            return;
        }
        self.text.splice(start..start + length, label.chars());
        self.free = start + length + 1;
    }

    fn line(self) -> String {
        let text: String = self.text.into_iter().collect();
        let text = text.trim_end();
        if text.is_empty() { String::new() } else { format!("{text}\n") }
    }
}

/// Formats the plot area with the y-axis labels on its left and the curve names on its right.
fn body(area: &Area, raster: &Raster, traces: &[Trace]) -> String {
    let mut labels = vec![String::new(); ROWS];
    for value in octaves(area.y) {
        labels[area.row(value)] = three_digits(value);
    }
    let bar = match raster.glyphs {
        Glyphs::Braille => '┤',
        Glyphs::Ascii => '|',
    };
    let names = names(area, traces);
    let width = area.left - 1;
    let line = |((cells, label), name): ((&Vec<char>, String), String)| {
        let cells: String = cells.iter().collect();
        format!("{label:>width$} {bar}{cells} {name}").trim_end().to_owned() + "\n"
    };
    raster.rows.iter().zip(labels).zip(names).map(line).collect()
}

/// Returns the curve name to the right of each row, which is where the curve ends. If several
/// curves end in the same row, their names are in successive rows, slowest first.
fn names(area: &Area, traces: &[Trace]) -> Vec<String> {
    let mut ends: Vec<(usize, &Trace)> =
        traces.iter().filter_map(|trace| Some((area.row(trace.points.last()?.1), trace))).collect();
    ends.sort_by_key(|(row, _)| *row);
    let mut names = vec![String::new(); ROWS];
    let mut free = 0;
    for (index, (row, trace)) in ends.iter().enumerate() {
        let after = ends.len() - 1 - index;
        let row = (*row).max(free).min((ROWS - 1).saturating_sub(after));
        names[row].clone_from(&trace.name);
        free = row + 1;
    }
    names
}

/// Formats the x axis, labelling as many powers of two as fit.
fn axis(area: &Area, glyphs: Glyphs) -> String {
    let mut ruler = Ruler::new(area);
    let (corner, line, tick) = match glyphs {
        Glyphs::Braille => ('└', '─', '┴'),
        Glyphs::Ascii => ('+', '-', '+'),
    };
    let mut cells = vec![line; area.columns];
    for bytes in octaves(area.x).filter(|bytes| bytes.log2() % 2.0 == 0.0) {
        let column = area.column(bytes);
        cells[column] = tick;
        ruler.put(column, &short(bytes));
    }
    let cells: String = cells.into_iter().collect();
    format!("{:>1$}{corner}{cells}\n", "", area.left) + &ruler.line()
}

/// Returns the label of a power-of-two number of bytes: `256K`.
fn short(bytes: f64) -> String {
    let text = memory_size(bytes);
    match text.split_once(' ') {
        Some((number, unit)) => number.to_owned() + unit.get(..1).unwrap_or_default(),
        None => text,
    }
}
