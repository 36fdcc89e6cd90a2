// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines on logarithmic axes, with a legend of their values at one x value.

use super::canvas::{Anchor, Canvas, Caption, LINE_HEIGHT, Look, MARGIN, WIDTH, cut};
use super::frame::{Frame, LOWEST, RIGHT};
use linerate_record::units::three_digits;

/// A line through points with positive coordinates.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) look: Look,
    pub(super) points: Vec<(f64, f64)>,
}

impl Line {
    fn at(&self, x: f64) -> Option<f64> {
        self.points.iter().find(|point| point.0 == x).map(|point| point.1)
    }

    /// Draws the line with a marker at each point.
    pub(super) fn draw(&self, canvas: &mut Canvas, frame: &Frame) {
        let points: Vec<(f64, f64)> = self.points.iter().map(|p| frame.place(p)).collect();
        match points.as_slice() {
            // A line through one point would be invisible.
            [only] => canvas.dot(self.look, *only),
            several => canvas.polyline(self.look, several),
        }
        canvas.markers(self.look, &points);
    }
}

/// Lines and axes.
pub(super) struct LineChart {
    pub(super) caption: Caption,
    pub(super) x_label: String,
    pub(super) y_label: String,
    /// The x value quoted in the legend, and its text.
    pub(super) quoted: (f64, String),
    pub(super) lines: Vec<Line>,
}

pub(super) const ENTRY_HEIGHT: f64 = 20.0;
/// Length of the line samples in the legend.
const SAMPLE: f64 = 22.0;

impl LineChart {
    /// Draws the chart.
    pub(super) fn svg(&self) -> String {
        let (mut canvas, y) = Canvas::new(&self.caption);
        let points = self.lines.iter().flat_map(|line| &line.points);
        let entries = self.lines.len() as f64 + 1.0;
        let height = LOWEST.max(entries * ENTRY_HEIGHT);
        let frame = Frame::new(points, y + 2.0 * LINE_HEIGHT, height);
        self.axes(&mut canvas, &frame);
        // The frontmost line is drawn last.
        let depth = |line: &&Line| match line.look {
            Look::Selected => 0,
            Look::Peer(_) => 1,
            Look::Bound => 2,
            Look::Variant(_) => 3,
        };
        let mut lines: Vec<&Line> = self.lines.iter().collect();
        lines.sort_by_key(depth);
        for line in lines {
            line.draw(&mut canvas, &frame);
        }
        legend(&mut canvas, &frame, &self.lines, &self.quoted);
        canvas.finish(&self.caption, frame.end())
    }

    fn axes(&self, canvas: &mut Canvas, frame: &Frame) {
        frame.y_axis(canvas);
        frame.x_axis(canvas, |value| Some(three_digits(value)));
        let (quoted, _) = &self.quoted;
        let x = frame.x(*quoted);
        canvas.line("mark-at", (x, frame.top), (x, frame.bottom()));
        canvas.text((x, frame.top - 6.0), "tick", Anchor::Middle, &three_digits(*quoted));
        canvas.text((MARGIN, frame.top - 12.0), "", Anchor::Start, &self.y_label);
        frame.x_label(canvas, &self.x_label);
    }
}

/// Lists the lines by their value at the quoted x, largest on top. Returns the y coordinate below
/// the legend.
pub(super) fn legend(
    canvas: &mut Canvas,
    frame: &Frame,
    lines: &[Line],
    (quoted, words): &(f64, String),
) -> f64 {
    let value = |line: &Line| line.at(*quoted).unwrap_or(f64::NEG_INFINITY);
    let mut lines: Vec<&Line> = lines.iter().collect();
    lines.sort_by(|a, b| value(b).total_cmp(&value(a)));
    let (left, right) = (RIGHT + 24.0, WIDTH - MARGIN);
    let head = format!("at {words}");
    canvas.text((right, frame.top + 4.0), "note", Anchor::End, &head);
    let mut y = frame.top;
    for line in lines {
        y += ENTRY_HEIGHT;
        let middle = (left + SAMPLE / 2.0, y);
        match line.points.len() {
            1 => canvas.dot(line.look, middle),
            _ => canvas.polyline(line.look, &[(left, y), (left + SAMPLE, y)]),
        }
        canvas.markers(line.look, &[middle]);
        let start = left + SAMPLE + 10.0;
        let name = cut(&line.name, right - start - 34.0);
        canvas.text((start, y + 4.0), "", Anchor::Start, &name);
        let value = line.at(*quoted).map_or("-".to_owned(), three_digits);
        canvas.text((right, y + 4.0), "", Anchor::End, &value);
    }
    y + ENTRY_HEIGHT
}
