// SPDX-License-Identifier: MIT OR Apache-2.0
//! A heat map of samples over time. Each column is a period of time, read from the bottom up.

use super::Plot;
use super::canvas::{Anchor, Canvas, Caption, LINE_HEIGHT, MARGIN, WIDTH, cut};
use crate::time_cells::levels;
use linerate_record::profile::{ProfileReport, TimeSlice, Timeline};

const COLUMNS: usize = 100;
const ROWS: usize = 20;
const CELL: f64 = 6.0;
/// Maximum number of threads drawn.
const MOST_THREADS: usize = 4;

const RULES: &str = "
.l1 { fill: #c9dcf0 } .l2 { fill: #8fb8de } .l3 { fill: #4f8fc7 } .l4 { fill: #1f5f9e }
.lost { fill: #d55e00 } .frame { fill: none; stroke: #d1d9e0 }
@media (prefers-color-scheme: dark) {
.l1 { fill: #1c3350 } .l2 { fill: #2b5482 } .l3 { fill: #4381bd } .l4 { fill: #8fc1f2 }
.frame { stroke: #2d333b }
}
";

/// Draws the timeline of a profile; `None` if it was not recorded.
pub fn timeline(report: &ProfileReport) -> Option<Plot> {
    let timeline = report.timeline.as_ref()?;
    let caption = caption(report, timeline);
    let (mut canvas, top) = Canvas::new(&caption);
    canvas.rules(RULES);
    let mut y = top + LINE_HEIGHT;
    let left = (WIDTH - CELL * COLUMNS as f64) / 2.0;
    for thread in timeline.threads.iter().take(MOST_THREADS) {
        let name = report.threads.get(thread.thread as usize).map_or("-", |one| &one.name);
        canvas.text((left, y + 12.0), "", Anchor::Start, &cut(name, WIDTH - 2.0 * left));
        y += LINE_HEIGHT;
        let all = levels(thread, timeline.bin_s, report.elapsed_s, COLUMNS * ROWS);
        for (at, level) in all.into_iter().enumerate().filter(|(_, level)| *level > 0) {
            let (column, row) = (at / ROWS, ROWS - 1 - at % ROWS);
            let place = (left + CELL * column as f64, y + CELL * row as f64);
            canvas.rectangle(&format!("l{level}"), place, (CELL, CELL));
        }
        let size = (CELL * COLUMNS as f64, CELL * ROWS as f64);
        canvas.rectangle("frame", (left, y), size);
        y += size.1 + LINE_HEIGHT / 2.0;
    }
    y = losses(&mut canvas, report, timeline, (left, y));
    let ends = [(left, Anchor::Start, 0.0), (WIDTH - left, Anchor::End, report.elapsed_s)];
    for (x, anchor, at_s) in ends {
        canvas.text((x, y + 12.0), "tick", anchor, &format!("{at_s:.3} s"));
    }
    let (name, title) = (caption.name.clone(), caption.title.clone());
    let svg = canvas.finish(&caption, y + LINE_HEIGHT + MARGIN);
    Some(Plot { name, title, svg })
}

/// Draws the slices with losses; returns the y coordinate below them.
fn losses(
    canvas: &mut Canvas,
    report: &ProfileReport,
    timeline: &Timeline,
    (left, y): (f64, f64),
) -> f64 {
    let lossy = |slice: &&TimeSlice| slice.lost.is_some_and(|lost| lost > 0);
    let slices: Vec<&TimeSlice> = timeline.slices.iter().filter(lossy).collect();
    if slices.is_empty() {
        return y;
    }
    canvas.text((left, y + 10.0), "", Anchor::Start, "packets lost");
    let y = y + LINE_HEIGHT;
    let scale = CELL * COLUMNS as f64 / report.elapsed_s.max(f64::MIN_POSITIVE);
    for slice in slices {
        let place = ((left + scale * slice.begins_s, y), (scale * slice.seconds, 2.0 * CELL));
        let lost = slice.lost.unwrap_or(0);
        canvas.titled_rectangle("lost", place, &format!("{lost} lost at {:.3} s", slice.begins_s));
    }
    y + 3.0 * CELL
}

fn caption(report: &ProfileReport, timeline: &Timeline) -> Caption {
    let cell_ms = 1e3 * report.elapsed_s / (COLUMNS * ROWS) as f64;
    let lost: Option<u64> = timeline.slices.iter().map(|slice| slice.lost).sum();
    let lost = lost.map_or_else(|| "not counted".to_owned(), |lost| format!("{lost}"));
    let longest = timeline.gaps.iter().map(|gap| gap.seconds).fold(0.0, f64::max);
    let scale = format!(
        "{} samples; one column is {:.1} ms, read from the bottom up; the more samples a cell has, \
         the higher its contrast; cells without samples are left blank",
        report.samples,
        cell_ms * ROWS as f64
    );
    Caption {
        name: "timeline".to_owned(),
        title: format!("{}: samples over time", report.sampled.name),
        notes: vec![scale],
        description: format!(
            "Heat map of samples over {:.3} s in cells of {cell_ms:.2} ms. Longest gap: {:.1} ms. \
             Packets lost: {lost}.",
            report.elapsed_s,
            longest * 1e3
        ),
    }
}
