// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of horizontal bars on a common axis.

use super::canvas::{Anchor, Canvas, Caption, LINE_HEIGHT, Look, MARGIN, WIDTH, cut, steps};
use linerate_record::units::three_digits;

/// One bar.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) look: Look,
    pub(super) value: f64,
    /// Label at the end of the bar.
    pub(super) text: String,
}

/// Bars under one heading.
pub(super) struct Group {
    pub(super) head: String,
    pub(super) bars: Vec<Bar>,
}

/// Groups and axis.
pub(super) struct BarChart {
    pub(super) caption: Caption,
    pub(super) label: String,
    pub(super) groups: Vec<Group>,
}

const LEFT: f64 = MARGIN + 150.0;
/// Right end of the longest bar, which leaves room for its label.
const RIGHT: f64 = WIDTH - MARGIN - 140.0;
const PITCH: f64 = 19.0;
const THICKNESS: f64 = 13.0;
const HEAD_HEIGHT: f64 = 30.0;

impl BarChart {
    /// Draws the chart.
    pub(super) fn svg(&self) -> String {
        let (mut canvas, y) = Canvas::new(&self.caption);
        let top = y + LINE_HEIGHT / 2.0;
        let group_height = |group: &Group| HEAD_HEIGHT + PITCH * group.bars.len() as f64;
        let height: f64 = self.groups.iter().map(group_height).sum::<f64>() + 6.0;
        let values = self.groups.iter().flat_map(|group| &group.bars).map(|bar| bar.value);
        let steps = steps(values.fold(0.0, f64::max));
        let most = steps.last().copied().unwrap_or(1.0);
        let x = |value: f64| LEFT + value / most * (RIGHT - LEFT);
        canvas.rectangle("plot", (LEFT, top), (RIGHT - LEFT, height));
        let mut y = top;
        for group in &self.groups {
            canvas.text((MARGIN, y + HEAD_HEIGHT - 10.0), "", Anchor::Start, &group.head);
            let end = y + group_height(group);
            y += HEAD_HEIGHT;
            for &step in &steps {
                let class = if step == 0.0 { "axis" } else { "grid" };
                canvas.line(class, (x(step), y - 4.0), (x(step), end));
            }
            for bar in &group.bars {
                draw(&mut canvas, bar, y, x(bar.value));
                y += PITCH;
            }
        }
        for &step in &steps {
            let at = (x(step), top + height + LINE_HEIGHT);
            canvas.text(at, "tick", Anchor::Middle, &three_digits(step));
        }
        let under = top + height + 2.0 * LINE_HEIGHT + 4.0;
        canvas.text((f64::midpoint(LEFT, RIGHT), under), "", Anchor::Middle, &self.label);
        canvas.finish(&self.caption, under + MARGIN / 2.0)
    }
}

fn draw(canvas: &mut Canvas, bar: &Bar, y: f64, end: f64) {
    let baseline = y + THICKNESS - 2.5;
    let name = cut(&bar.name, LEFT - MARGIN - 20.0);
    canvas.text((LEFT - 8.0, baseline), "", Anchor::End, &name);
    canvas.rectangle(&format!("{} bar", bar.look.class()), (LEFT, y), (end - LEFT, THICKNESS));
    canvas.text((end + 6.0, baseline), "value", Anchor::Start, &bar.text);
}
