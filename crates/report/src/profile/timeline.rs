// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a program ran and lost packets: a heat map of samples over time, the gaps, and the
//! functions that ran in slices with gaps or losses.
//!
//! As in FlameScope, each column is a period of time, and a thread's rows divide it into cells of a
//! few milliseconds, from the bottom up. The cells of a thread that runs all the time look alike;
//! cells without samples are empty.

use super::{line, sampled};
use crate::layout::{Grid, Paint, fenced, painted, stacked};
use crate::time_cells::levels;
use crate::value::{clean, count, cut, interval, percent, significant};
use crate::{Detail, Glyphs, Style};
use linerate_record::Figure;
use linerate_record::profile::{ProfileReport, ThreadTimeline, TimeSlice, Timeline};

/// Number of rows per thread.
const ROWS: usize = 8;
/// Number of threads on one screen.
const SCREEN_THREADS: usize = 2;
/// Number of gaps on one screen.
const SCREEN_GAPS: usize = 3;
/// Number of functions on one screen.
const SCREEN_FUNCTIONS: usize = 5;
/// Width of the row labels.
const LABEL: usize = 12;
/// Characters for the cells, from no samples to the highest density.
const SHADES: [char; 5] = [' ', '\u{2591}', '\u{2592}', '\u{2593}', '\u{2588}'];
const ASCII_SHADES: [char; 5] = [' ', '.', ':', 'o', '#'];

/// Formats the timeline of a profile, or states that none was recorded.
pub(crate) fn timeline(
    report: &ProfileReport,
    detail: Detail,
    glyphs: Glyphs,
    style: &Style,
) -> String {
    let Some(timeline) = &report.timeline else {
        let reason = "the record has no timeline: record it with `linerate profile --timeline`";
        return line("cannot tell", reason, style);
    };
    let is_screen = detail == Detail::Screen;
    let threads = if is_screen { SCREEN_THREADS } else { timeline.threads.len() };
    let shades = if glyphs == Glyphs::Braille { SHADES } else { ASCII_SHADES };
    let columns = style.width.saturating_sub(LABEL).max(10);
    let cells = Cells { timeline, columns, shades, elapsed_s: report.elapsed_s };
    let mut map = String::new();
    for thread in timeline.threads.iter().take(threads) {
        let name = report.threads.get(thread.thread as usize);
        let name = name.map_or_else(String::new, |one| one.name.clone());
        map += &cells.thread(thread, &clean(&name));
    }
    map += &cells.losses();
    map += &cells.axis();
    let facts = line("sampled", &sampled(report), style) + &facts(report, timeline, &cells, style);
    stacked(&[
        facts,
        fenced(&map, style),
        gaps(report, timeline, if is_screen { SCREEN_GAPS } else { usize::MAX }, style),
        functions(report, timeline, if is_screen { SCREEN_FUNCTIONS } else { usize::MAX }, style),
    ])
}

fn facts(report: &ProfileReport, timeline: &Timeline, cells: &Cells<'_>, style: &Style) -> String {
    let cell_ms = 1e3 * report.elapsed_s / cells.columns as f64 / ROWS as f64;
    let scale = format!(
        "one column is {} ms, read from the bottom up; one cell is {} ms",
        significant(cell_ms * ROWS as f64),
        significant(cell_ms)
    );
    let lost: Option<u64> = timeline.slices.iter().map(|slice| slice.lost).sum();
    let lossy = timeline.slices.iter().filter(|slice| slice.lost.is_some_and(|n| n > 0)).count();
    let losses = match (lost, &timeline.losses) {
        (Some(lost), Some(counter)) => format!(
            "{} packets in {lossy} of {} slices ({counter})",
            count(lost),
            timeline.slices.len()
        ),
        _ => "not counted".to_owned(),
    };
    line("scale", &scale, style) + &line("lost", &losses, style)
}

/// The geometry of the map.
struct Cells<'a> {
    timeline: &'a Timeline,
    columns: usize,
    shades: [char; 5],
    elapsed_s: f64,
}

impl Cells<'_> {
    fn thread(&self, thread: &ThreadTimeline, name: &str) -> String {
        let window_s = self.elapsed_s;
        let levels = levels(thread, self.timeline.bin_s, window_s, self.columns * ROWS);
        let shade = |level: usize| self.shades[level];
        let row = |row: usize| {
            let label = if row == ROWS - 1 { name } else { "" };
            let cells = (0..self.columns).map(|column| shade(levels[column * ROWS + row]));
            self.row(label, cells)
        };
        (0..ROWS).rev().map(row).collect()
    }

    /// Marks the columns in which packets were lost.
    fn losses(&self) -> String {
        let is_lossy = |column: usize| {
            let begins_s = column as f64 * self.elapsed_s / self.columns as f64;
            let ends_s = (column + 1) as f64 * self.elapsed_s / self.columns as f64;
            let overlaps = |slice: &&TimeSlice| {
                slice.begins_s < ends_s && slice.begins_s + slice.seconds > begins_s
            };
            self.timeline
                .slices
                .iter()
                .filter(overlaps)
                .any(|slice| slice.lost.is_some_and(|lost| lost > 0))
        };
        if !self.timeline.slices.iter().any(|slice| slice.lost.is_some_and(|lost| lost > 0)) {
            return String::new();
        }
        self.row("lost", (0..self.columns).map(|column| if is_lossy(column) { 'x' } else { ' ' }))
    }

    fn axis(&self) -> String {
        let end = format!("{} s", significant(self.elapsed_s));
        let room = self.columns.saturating_sub(end.len());
        self.row(
            "",
            "0".chars().chain(" ".repeat(room.saturating_sub(1)).chars()).chain(end.chars()),
        )
    }

    fn row(&self, label: &str, cells: impl Iterator<Item = char>) -> String {
        let label: String = label.chars().take(LABEL - 1).collect();
        let text = format!("{label:<LABEL$}{}", cells.collect::<String>());
        text.trim_end().to_owned() + "\n"
    }
}

fn gaps(report: &ProfileReport, timeline: &Timeline, most: usize, style: &Style) -> String {
    if let Some(reason) = &timeline.no_gaps {
        return line("gaps", &format!("not determined: {}", clean(reason)), style);
    }
    let mut gaps: Vec<_> = timeline.gaps.iter().collect();
    gaps.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let mut grid = Grid::new(&["gap of", ">at s", ">at least ms"]);
    for gap in gaps.iter().take(most) {
        let thread = report.threads.get(gap.thread as usize);
        grid.row(vec![
            thread.map_or_else(String::new, |one| clean(&format!("{} {}", one.name, one.tid))),
            format!("{:.3}", gap.begins_s),
            significant(gap.seconds * 1e3),
        ]);
    }
    let more = match gaps.len().saturating_sub(most) {
        0 => String::new(),
        more => format!("{more} more gaps (--details)\n"),
    };
    match grid.render(style) {
        empty if empty.is_empty() => line("gaps", "none", style),
        table => {
            let head = "Longest gaps between samples: the thread slept or waited for a CPU";
            painted(Paint::Head, head, style) + "\n" + &table + &more
        }
    }
}

fn functions(report: &ProfileReport, timeline: &Timeline, most: usize, style: &Style) -> String {
    let disturbed = timeline.slices.iter().filter(|slice| timeline.is_disturbed(slice)).count();
    let mut grid =
        Grid::new(&[">gap/loss\n%", "interval", ">other\n%", "interval", "function (module)"]);
    let room = style.width.saturating_sub(45).max(24);
    for one in timeline.functions.iter().take(most) {
        let Some(function) = report.functions.get(one.function as usize) else { continue };
        let share = |figure: &Figure| figure.as_number().map_or_else(String::new, percent);
        let ends = |figure: &Figure| interval(figure, percent).unwrap_or_default();
        grid.row(vec![
            share(&one.then),
            ends(&one.then),
            share(&one.otherwise),
            ends(&one.otherwise),
            cut(&clean(&format!("{} ({})", function.name, function.module)), room),
        ]);
    }
    match grid.render(style) {
        empty if empty.is_empty() => empty,
        table => {
            let head = format!(
                "Functions in slices with losses or gaps ({disturbed} of {}) vs. the other slices",
                timeline.slices.len()
            );
            painted(Paint::Head, &head, style) + "\n" + &table
        }
    }
}
