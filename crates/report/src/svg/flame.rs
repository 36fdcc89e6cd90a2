// SPDX-License-Identifier: MIT OR Apache-2.0
//! A flame graph: call paths from the bottom up, each function as wide as its share including
//! callees.
//!
//! Threads with the same name are merged. Colours indicate the kind of work. The graph is readable
//! without them: a rectangle contains the function's name if there is room, and shows it on hover.

use super::Plot;
use super::canvas::{Anchor, Canvas, Caption, LINE_HEIGHT, MARGIN, WIDTH, cut};
use crate::call_tree::Frame;
use linerate_record::profile::{CostClass, ProfileReport};
use std::collections::BTreeMap;

const ROW: f64 = 18.0;
/// Minimum width at which a function is drawn.
const NARROWEST: f64 = 1.0;
/// Padding of a name within its rectangle.
const PADDING: f64 = 3.0;
/// Maximum number of rows. Deeper calls count towards the last row.
const MOST_ROWS: usize = 64;
/// Number of legend columns, which are equally wide.
const LEGEND_COLUMNS: usize = 3;

const RULES: &str = "
.flame { stroke: #ffffff; stroke-width: 0.8 }
.name { pointer-events: none; fill: #1f2328 }
.thread { fill: #d1d9e0 } .program { fill: #a6d8b8 } .kernel { fill: #f3cf95 }
.copy { fill: #f0a58f } .checksum { fill: #e8b7d4 } .allocation { fill: #c9b6ea }
.lock { fill: #ee8f97 } .system_call_entry { fill: #f5e08a } .page_fault { fill: #d8c3a5 }
.filter { fill: #9ed9d8 } .segmentation { fill: #b8d98d } .crypto, .compression { fill: #a9c6f2 }
.driver { fill: #8fc7e8 } .scheduler { fill: #e3d3c1 } .polling { fill: #c8d0d8 }
.idle { fill: #e9ecef }
@media (prefers-color-scheme: dark) {
.flame { stroke: #0d1117 }
}
";

/// Draws the flame graph of a profile.
pub fn flame_graph(report: &ProfileReport) -> Plot {
    let whole = Frame::whole(report, MOST_ROWS);
    let caption = caption(report);
    let (mut canvas, y) = Canvas::new(&caption);
    canvas.rules(RULES);
    let top = legend(&mut canvas, report, y + LINE_HEIGHT / 2.0);
    let scale = (WIDTH - 2.0 * MARGIN) / whole.samples.max(1) as f64;
    let bottom = top + ROW * depth(&whole, scale) as f64;
    draw(&mut canvas, &whole.callees, (MARGIN, bottom), scale, whole.samples);
    Plot {
        name: caption.name.clone(),
        title: caption.title.clone(),
        svg: canvas.finish(&caption, bottom + MARGIN),
    }
}

fn caption(report: &ProfileReport) -> Caption {
    let sampling = &report.sampling;
    let hottest: Vec<String> = report
        .functions
        .iter()
        .take(5)
        .map(|one| format!("{} {:.1} %", one.name, 100.0 * one.share.as_number().unwrap_or(0.0)))
        .collect();
    Caption {
        name: "flame-graph".to_owned(),
        title: format!("{}: CPU time by call path", report.sampled.name),
        notes: vec![format!(
            "{} samples of {} at {:.0}/s; callers are below; width is the share of CPU time",
            report.samples, sampling.event, sampling.rate_hz
        )],
        description: format!("Flame graph. Most self time: {}.", hottest.join(", ")),
    }
}

/// Returns the number of drawn rows above a function.
fn depth(frame: &Frame, scale: f64) -> usize {
    let drawn = frame.callees.values().filter(|callee| is_drawn(callee, scale));
    drawn.map(|callee| 1 + depth(callee, scale)).max().unwrap_or(0)
}

fn is_drawn(frame: &Frame, scale: f64) -> bool {
    frame.samples as f64 * scale >= NARROWEST
}

/// Draws a legend of the kinds of work in the profile. Returns the y coordinate below the legend.
fn legend(canvas: &mut Canvas, report: &ProfileReport, top: f64) -> f64 {
    let width = (WIDTH - 2.0 * MARGIN) / LEGEND_COLUMNS as f64;
    for (at, one) in report.classes.iter().enumerate() {
        let x = MARGIN + width * (at % LEGEND_COLUMNS) as f64;
        let y = top + ROW * (at / LEGEND_COLUMNS) as f64;
        canvas.rectangle(one.class.name(), (x, y), (12.0, 12.0));
        let share = 100.0 * one.share.as_number().unwrap_or(0.0);
        let text = format!("{} {share:.1} %", one.class.title());
        canvas.text((x + 17.0, y + 10.5), "", Anchor::Start, &text);
    }
    top + ROW * (report.classes.len().div_ceil(LEGEND_COLUMNS) as f64 + 0.5)
}

/// Draws functions side by side from `x` to the right, with their callees above.
fn draw(
    canvas: &mut Canvas,
    frames: &BTreeMap<String, Frame>,
    (mut x, bottom): (f64, f64),
    scale: f64,
    all: u64,
) {
    for (name, frame) in frames {
        let width = frame.samples as f64 * scale;
        if is_drawn(frame, scale) {
            let class = frame.class.map_or("thread", CostClass::name);
            let share = 100.0 * frame.samples as f64 / all.max(1) as f64;
            let module = match frame.module.as_str() {
                "" => String::new(),
                module => format!(" ({module})"),
            };
            let title = format!("{name}{module}: {share:.1} %, {} samples", frame.samples);
            let place = ((x, bottom - ROW), (width, ROW));
            canvas.titled_rectangle(&format!("flame {class}"), place, &title);
            let room = width - 2.0 * PADDING;
            if room > 20.0 {
                let at = (x + PADDING, bottom - 5.0);
                canvas.text(at, "name", Anchor::Start, &cut(name, room));
            }
            draw(canvas, &frame.callees, (x, bottom - ROW), scale, all);
        }
        x += width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::fixtures;
    use linerate_record::profile::CallNode;

    #[test]
    fn functions_are_as_wide_as_their_share() {
        let mut report = fixtures::profile();
        let node = |caller, function, samples| CallNode { caller, thread: 0, function, samples };
        report.calls =
            vec![node(None, 0, 0), node(Some(0), 1, 75), node(Some(0), 2, 25), node(Some(1), 3, 0)];
        report.functions[1].name = "a<b> & \u{1b}c".to_owned();
        let plot = flame_graph(&report);
        let svg = roxmltree::Document::parse(&plot.svg).expect("well-formed");
        let width = |name: &str| {
            let of = |node: &roxmltree::Node<'_, '_>| {
                let title = node.children().find(|child| child.has_tag_name("title"));
                title.and_then(|title| title.text()).is_some_and(|text| text.starts_with(name))
            };
            let group = svg.descendants().filter(|node| node.has_tag_name("g")).find(of);
            let rectangle = group.and_then(|group| group.last_element_child()).expect("drawn");
            rectangle.attribute("width").and_then(|width| width.parse::<f64>().ok()).unwrap()
        };
        let whole = WIDTH - 2.0 * MARGIN;
        let first = report.functions[0].name.clone();
        assert!((width(&first) - whole).abs() < 0.1);
        assert!((width("a<b> & ") - whole * 0.75).abs() < 0.1);
    }
}
