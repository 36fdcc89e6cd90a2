// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines over logarithmic axes, with a legend that names their values at one x.

use super::canvas::{Anchor, Canvas, Caption, LINE_HEIGHT, Look, MARGIN, WIDTH, cut};
use linerate_record::units::three_digits;

/// One line. Both coordinates of its points are positive.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) look: Look,
    pub(super) points: Vec<(f64, f64)>,
}

impl Line {
    fn at(&self, x: f64) -> Option<f64> {
        self.points.iter().find(|point| point.0 == x).map(|point| point.1)
    }
}

/// The lines and what their axes are.
pub(super) struct LineChart {
    pub(super) caption: Caption,
    pub(super) x_label: String,
    pub(super) y_label: String,
    /// The x that the legend quotes, and the same in words.
    pub(super) quoted: (f64, String),
    pub(super) lines: Vec<Line>,
}

const LEFT: f64 = MARGIN + 36.0;
const LEGEND_WIDTH: f64 = 216.0;
const RIGHT: f64 = WIDTH - MARGIN - LEGEND_WIDTH - 16.0;
const LOWEST: f64 = 340.0;
const ENTRY_HEIGHT: f64 = 20.0;
/// Between the frame and the first and last point, in octaves.
const AIR: f64 = 0.3;
/// A line in the legend.
const SAMPLE: f64 = 30.0;

/// The area of the points, and the octaves that it stands for. Equal distances are equal factors,
/// in both directions.
struct Frame {
    top: f64,
    height: f64,
    x_octaves: (f64, f64),
    y_octaves: (f64, f64),
}

impl Frame {
    fn new(chart: &LineChart, top: f64) -> Self {
        let points = || chart.lines.iter().flat_map(|line| &line.points);
        let (left, right) = extent(points().map(|point| point.0.log2()));
        let (low, high) = extent(points().map(|point| point.1.log2()));
        let entries = chart.lines.len() as f64 + 1.0;
        Self {
            top,
            height: LOWEST.max(entries * ENTRY_HEIGHT),
            x_octaves: (left - AIR, right + AIR),
            // Whole octaves, so that the frame ends at labels; at least one of them.
            y_octaves: (low.floor(), high.ceil().max(low.floor() + 1.0)),
        }
    }

    fn bottom(&self) -> f64 {
        self.top + self.height
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + share(value, self.x_octaves) * (RIGHT - LEFT)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom() - share(value, self.y_octaves) * self.height
    }

    fn place(&self, point: &(f64, f64)) -> (f64, f64) {
        (self.x(point.0), self.y(point.1))
    }
}

/// The least and the greatest; 0 and 0 of nothing.
fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let both = values.map(|value| (value, value));
    both.reduce(|(low, high), (value, _)| (low.min(value), high.max(value))).unwrap_or_default()
}

/// How far along the octaves `value` lies, 0 to 1.
fn share(value: f64, (low, high): (f64, f64)) -> f64 {
    (value.log2() - low) / (high - low)
}

/// The powers of two within the octaves.
fn powers((low, high): (f64, f64)) -> impl Iterator<Item = f64> {
    (low.ceil() as i32..=high.floor() as i32).map(|octave| 2f64.powi(octave))
}

impl LineChart {
    /// The plot.
    pub(super) fn svg(&self) -> String {
        let (mut canvas, y) = Canvas::new(&self.caption);
        let frame = Frame::new(self, y + 2.0 * LINE_HEIGHT);
        self.axes(&mut canvas, &frame);
        // What lies in front is drawn last.
        let depth = |line: &&Line| match line.look {
            Look::Selected => 0,
            Look::Peer(_) => 1,
            Look::Bound => 2,
            Look::Variant(_) => 3,
        };
        let mut lines: Vec<&Line> = self.lines.iter().collect();
        lines.sort_by_key(depth);
        for line in lines {
            let points: Vec<(f64, f64)> = line.points.iter().map(|p| frame.place(p)).collect();
            match points.as_slice() {
                // A line through one point cannot be seen.
                [only] => canvas.dot(line.look, *only),
                several => canvas.polyline(line.look, several),
            }
            canvas.markers(line.look, &points);
        }
        self.legend(&mut canvas, &frame);
        canvas.finish(&self.caption, frame.bottom() + 3.0 * LINE_HEIGHT + 4.0)
    }

    fn axes(&self, canvas: &mut Canvas, frame: &Frame) {
        let (top, bottom) = (frame.top, frame.bottom());
        canvas.rectangle("plot", (LEFT, top), (RIGHT - LEFT, frame.height));
        for value in powers(frame.y_octaves) {
            let y = frame.y(value);
            canvas.line("grid", (LEFT, y), (RIGHT, y));
            canvas.text((LEFT - 8.0, y + 4.0), "tick", Anchor::End, &three_digits(value));
        }
        canvas.line("axis", (LEFT, bottom), (RIGHT, bottom));
        for value in powers(frame.x_octaves) {
            let x = frame.x(value);
            canvas.line("axis", (x, bottom), (x, bottom + 4.0));
            canvas.text((x, bottom + 18.0), "tick", Anchor::Middle, &three_digits(value));
        }
        let (quoted, _) = &self.quoted;
        let x = frame.x(*quoted);
        canvas.line("mark-at", (x, top), (x, bottom));
        canvas.text((x, top - 6.0), "tick", Anchor::Middle, &three_digits(*quoted));
        canvas.text((MARGIN, top - 12.0), "", Anchor::Start, &self.y_label);
        let middle = f64::midpoint(LEFT, RIGHT);
        canvas.text((middle, bottom + 38.0), "", Anchor::Middle, &self.x_label);
    }

    /// The lines in the order of their values at the quoted x, fastest on top.
    fn legend(&self, canvas: &mut Canvas, frame: &Frame) {
        let (quoted, words) = &self.quoted;
        let value = |line: &Line| line.at(*quoted).unwrap_or(f64::NEG_INFINITY);
        let mut lines: Vec<&Line> = self.lines.iter().collect();
        lines.sort_by(|a, b| value(b).total_cmp(&value(a)));
        let (left, right) = (RIGHT + 24.0, WIDTH - MARGIN);
        let head = format!("at {words}");
        canvas.text((right, frame.top + 4.0), "note", Anchor::End, &head);
        for (index, line) in lines.into_iter().enumerate() {
            let y = frame.top + (index as f64 + 1.0) * ENTRY_HEIGHT;
            let middle = (left + SAMPLE / 2.0, y);
            match line.points.len() {
                1 => canvas.dot(line.look, middle),
                _ => canvas.polyline(line.look, &[(left, y), (left + SAMPLE, y)]),
            }
            canvas.markers(line.look, &[middle]);
            let start = left + SAMPLE + 10.0;
            let name = cut(&line.name, right - start - 40.0);
            canvas.text((start, y + 4.0), "", Anchor::Start, &name);
            let value = line.at(*quoted).map_or("-".to_owned(), three_digits);
            canvas.text((right, y + 4.0), "", Anchor::End, &value);
        }
    }
}
