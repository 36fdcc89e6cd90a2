// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plot area with two logarithmic axes and a legend column.

use super::canvas::{Anchor, CHARACTER, Canvas, LINE_HEIGHT, MARGIN, WIDTH};
use linerate_record::units::three_digits;

pub(super) const LEFT: f64 = MARGIN + 36.0;
const LEGEND_WIDTH: f64 = 188.0;
pub(super) const RIGHT: f64 = WIDTH - MARGIN - LEGEND_WIDTH - 16.0;
pub(super) const LOWEST: f64 = 340.0;
/// Padding to the left of the first point and to the right of the last, in octaves.
const AIR: f64 = 0.3;

/// The plot area and its ranges in octaves. On both axes, equal distances mean equal ratios.
pub(super) struct Frame {
    pub(super) top: f64,
    pub(super) height: f64,
    x_octaves: (f64, f64),
    y_octaves: (f64, f64),
}

impl Frame {
    /// Creates a frame for points, whose coordinates must be positive.
    pub(super) fn new<'a>(
        points: impl Iterator<Item = &'a (f64, f64)> + Clone,
        top: f64,
        height: f64,
    ) -> Self {
        let (left, right) = extent(points.clone().map(|point| point.0.log2()));
        let (low, high) = extent(points.map(|point| point.1.log2()));
        Self {
            top,
            height,
            x_octaves: (left - AIR, right + AIR),
            // Whole octaves, and at least one, so that the frame ends at labels.
            y_octaves: (low.floor(), high.ceil().max(low.floor() + 1.0)),
        }
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Returns the y coordinate below the x-axis labels.
    pub(super) fn end(&self) -> f64 {
        self.bottom() + 3.0 * LINE_HEIGHT + 4.0
    }

    pub(super) fn x(&self, value: f64) -> f64 {
        LEFT + share(value, self.x_octaves) * (RIGHT - LEFT)
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        self.bottom() - share(value, self.y_octaves) * self.height
    }

    pub(super) fn place(&self, point: &(f64, f64)) -> (f64, f64) {
        (self.x(point.0), self.y(point.1))
    }

    /// Draws the y axis: labels at powers of two, with grid lines.
    pub(super) fn y_axis(&self, canvas: &mut Canvas) {
        canvas.rectangle("plot", (LEFT, self.top), (RIGHT - LEFT, self.height));
        for value in powers(self.y_octaves) {
            let y = self.y(value);
            canvas.line("grid", (LEFT, y), (RIGHT, y));
            canvas.text((LEFT - 8.0, y + 4.0), "tick", Anchor::End, &three_digits(value));
        }
    }

    /// Draws the x axis: ticks at powers of two, labelled by `label` where there is room.
    pub(super) fn x_axis(&self, canvas: &mut Canvas, label: impl Fn(f64) -> Option<String>) {
        let bottom = self.bottom();
        canvas.line("axis", (LEFT, bottom), (RIGHT, bottom));
        let mut taken = f64::NEG_INFINITY;
        for value in powers(self.x_octaves) {
            let x = self.x(value);
            canvas.line("axis", (x, bottom), (x, bottom + 4.0));
            let Some(label) = label(value) else { continue };
            let half = label.chars().count() as f64 * CHARACTER / 2.0;
            if x - half >= taken + CHARACTER {
                taken = x + half;
                canvas.text((x, bottom + 18.0), "tick", Anchor::Middle, &label);
            }
        }
    }

    /// Draws the x-axis label.
    pub(super) fn x_label(&self, canvas: &mut Canvas, label: &str) {
        let middle = f64::midpoint(LEFT, RIGHT);
        canvas.text((middle, self.bottom() + 38.0), "", Anchor::Middle, label);
    }
}

/// Returns the minimum and maximum; 0 and 0 if empty.
fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let both = values.map(|value| (value, value));
    both.reduce(|(low, high), (value, _)| (low.min(value), high.max(value))).unwrap_or_default()
}

/// Returns the position of `value` within the octaves, 0 to 1.
fn share(value: f64, (low, high): (f64, f64)) -> f64 {
    (value.log2() - low) / (high - low)
}

/// Returns the powers of two within a range of octaves.
fn powers((low, high): (f64, f64)) -> impl Iterator<Item = f64> {
    (low.ceil() as i32..=high.floor() as i32).map(|octave| 2f64.powi(octave))
}
