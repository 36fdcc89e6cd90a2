// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plot of a `memory` record: load latency vs. chain size, with levels as bands, and TLB reach.
//!
//! Level boundaries are as wide as their intervals; the intervals of the points are shaded.

use super::Plot;
use super::canvas::{Anchor, Canvas, Caption, LINE_HEIGHT, Look, MARGIN, WIDTH, cut};
use super::frame::{Frame, LEFT, LOWEST, RIGHT};
use super::lines::{ENTRY_HEIGHT, Line, legend};
use crate::memory::{confidence, curve_name, drawable, drawn, edges, load, page_kind, reach};
use crate::value::{clean, quoted, ranged, ranged_binary, tiers as evidence};
use linerate_record::memory::{Curve, CurvePoint, MemoryLevel, MemoryReport, Order, TlbLevel};
use linerate_record::units::{memory_size, three_digits};
use linerate_record::{Figure, Provenance};

/// Plots load latency vs. chain size, with levels; `None` without a curve.
pub fn memory(report: &MemoryReport, provenance: &Provenance) -> Option<Plot> {
    let line = |curve: &Curve| {
        let (name, look) = (clean(&curve_name(curve, report)), look(curve, report));
        (Line { name, look, points: drawn(curve) }, spread(curve))
    };
    let curves = report.curves.iter().filter(|curve| !drawn(curve).is_empty());
    let (lines, spreads): (Vec<Line>, Vec<Spread>) = curves.map(line).unzip();
    let quoted = quoted_size(&lines)?;
    let processor = provenance.cpu.as_deref().unwrap_or("an unknown processor");
    let caption = Caption {
        name: "memory".to_owned(),
        title: format!("Load latency vs. chain size on {processor}"),
        notes: vec![conditions(report)],
        description: description(report),
    };
    let (name, title) = (caption.name.clone(), caption.title.clone());
    let chart = Chart { report, lines, spreads, quoted: (quoted, memory_size(quoted)) };
    Some(Plot { name, title, svg: chart.svg(&caption) })
}

/// Returns the style of a load order, which is the same in all plots. Curves whose page size
/// differs from that of the levels are subdued.
fn look(curve: &Curve, report: &MemoryReport) -> Look {
    let index = match curve.order {
        Order::PageLocal => 3,
        Order::Random => 5,
        Order::Sequential => 2,
    };
    if curve.pages == report.pages.used { Look::Variant(index) } else { Look::Peer(index) }
}

/// Returns the size to quote in the legend: the one at which the most lines have a point or, if
/// there are several such sizes, the largest. `None` without lines.
fn quoted_size(lines: &[Line]) -> Option<f64> {
    let points = lines.iter().flat_map(|line| &line.points);
    let mut sizes: Vec<f64> = points.map(|point| point.0).collect();
    sizes.sort_by(f64::total_cmp);
    // `max_by_key` returns the last of several maxima, which is the largest size.
    let most = sizes.chunk_by(|a, b| a == b).max_by_key(|run| run.len())?;
    most.first().copied()
}

/// States the conventions for reading the figures.
fn conditions(report: &MemoryReport) -> String {
    let points = report.curves.iter().flat_map(|curve| &curve.points);
    let passes = points.clone().map(|point| point.passes_ns.len());
    let passes = match (passes.clone().min().unwrap_or(0), passes.max().unwrap_or(0)) {
        (1, 1) => "1 pass".to_owned(),
        (fewest, most) if fewest == most => format!("{most} passes"),
        (fewest, most) => format!("{fewest} to {most} passes"),
    };
    let mut parts = vec![format!("Fastest windows of {passes}; {}", load(report))];
    let figures = points.map(|point| &point.latency_ns);
    if let Some(confidence) = confidence(figures.clone()) {
        parts.push(format!("shaded: {confidence} % intervals"));
    }
    if !report.levels.is_empty() {
        parts.push("dashed: level latency".to_owned());
    }
    if let Some(ghz) = report.timer.core_ghz.as_number() {
        parts.push(format!("1 ns is {} cycles", three_digits(ghz)));
    }
    let tier = evidence(figures);
    if !tier.is_empty() {
        parts.push(format!("tier {tier}"));
    }
    let moved = report.levels.iter().filter(|level| !level.settled);
    parts.extend(moved.map(|level| format!("{} varied between passes", level.name)));
    parts.join("; ") + "."
}

/// Describes the levels and the TLB in words.
fn description(report: &MemoryReport) -> String {
    let ns = |figure: &Figure| quoted(figure, |ns| format!("{} ns", three_digits(ns)));
    let level = |level: &MemoryLevel| match level.size_bytes.as_number() {
        Some(_) => format!(
            "{} up to {}, {} per load",
            level.name,
            quoted(&level.size_bytes, memory_size),
            ns(&level.latency_ns)
        ),
        None => format!("{}, {} per load", level.name, ns(&level.latency_ns)),
    };
    let levels: Vec<String> = report.levels.iter().map(level).collect();
    let tlb: Vec<String> = marks(report).into_iter().map(|mark| mark.label).collect();
    let mut text =
        "Line chart of ns per load against chain size in bytes, both axes logarithmic.".to_owned();
    for (what, parts) in [("Levels", levels), ("TLB", tlb)] {
        if !parts.is_empty() {
            text += &format!(" {what}: {}.", parts.join("; "));
        }
    }
    text
}

/// Reach of a TLB level.
struct Mark {
    bytes: f64,
    label: String,
}

fn marks(report: &MemoryReport) -> Vec<Mark> {
    let mark = |level: &TlbLevel| {
        let bytes = reach(level, &report.pages)?;
        let pages = |figure: &Figure| figure.as_number().map(three_digits);
        let text = match pages(&level.entries) {
            Some(entries) => format!("{entries} pages"),
            None => format!("slower from {} pages", pages(&level.onset)?),
        };
        let kind = page_kind(level.pages);
        Some(Mark { bytes, label: clean(&format!("{} ({kind}): {text}", level.name)) })
    };
    report.tlb.iter().filter_map(mark).collect()
}

/// Style rules for bands and intervals.
const RULES: &str = "\
.band { fill: #59636e; fill-opacity: 0.09 }
.edge { fill: #59636e; fill-opacity: 0.3 }
.plateau { stroke: #59636e; stroke-opacity: 0.7; stroke-dasharray: 7 4 }
.level { font-weight: 600 }
.area { fill: currentColor; fill-opacity: 0.22 }
@media (prefers-color-scheme: dark) {
.band, .edge { fill: #9198a1 }
.plateau { stroke: #9198a1 }
}
";

/// Width of an x-axis label including padding: `256 KiB`.
const LABEL_WIDTH: f64 = 56.0;
/// Width of a name in the legend if the level's size follows.
const NAME_ROOM: f64 = 46.0;
/// Minimum width at which an interval is drawn.
const HAIR: f64 = 1.5;
const LEVEL_HEIGHT: f64 = 2.2 * LINE_HEIGHT;

struct Chart<'a> {
    report: &'a MemoryReport,
    /// All drawable curves, in report order.
    lines: Vec<Line>,
    spreads: Vec<Spread>,
    /// The size quoted in the legend, and its text.
    quoted: (f64, String),
}

impl Chart<'_> {
    fn svg(&self, caption: &Caption) -> String {
        let (mut canvas, y) = Canvas::new(caption);
        canvas.rules(RULES);
        let marks: Vec<Mark> = marks(self.report);
        // Lines above the area: one for the unit, one for the levels, and one per mark.
        let top = y + (2.5 + marks.len() as f64) * LINE_HEIGHT;
        let legend_height = (self.lines.len() as f64 + 2.0) * ENTRY_HEIGHT
            + self.report.levels.len() as f64 * LEVEL_HEIGHT;
        let points = self.lines.iter().flat_map(|line| &line.points);
        let frame = Frame::new(points, top, LOWEST.max(legend_height));
        self.bands(&mut canvas, &frame, y + 2.0 * LINE_HEIGHT);
        frame.y_axis(&mut canvas);
        let octave = frame.x(2.0) - frame.x(1.0);
        let step = 2.0 * (LABEL_WIDTH / octave / 2.0).ceil();
        let is_labelled = |bytes: &f64| bytes.log2() % step == 0.0;
        frame.x_axis(&mut canvas, |bytes| Some(bytes).filter(is_labelled).map(memory_size));
        canvas.text((MARGIN, y + LINE_HEIGHT), "", Anchor::Start, "ns per load");
        frame.x_label(&mut canvas, "chain size in bytes (both axes logarithmic)");
        self.reaches(&mut canvas, &frame, &marks);
        // The levels are derived from the first curve. It is drawn last, so that it is in front.
        for (line, spread) in self.lines.iter().zip(&self.spreads).rev() {
            canvas.area(line.look, &corners(spread, &frame));
            line.draw(&mut canvas, &frame);
        }
        let end = legend(&mut canvas, &frame, &self.lines, &self.quoted);
        self.levels(&mut canvas, end + LINE_HEIGHT);
        canvas.finish(caption, frame.end())
    }

    /// Shades every second level, draws each level's latency as a dashed line, and puts the names
    /// above the plot area. The boundaries are as wide as their intervals.
    fn bands(&self, canvas: &mut Canvas, frame: &Frame, names_y: f64) {
        let within = |bytes: f64| frame.x(bytes).clamp(LEFT, RIGHT);
        let mut left = LEFT;
        let mut free = LEFT;
        for (index, level) in self.report.levels.iter().enumerate() {
            let size = level.size_bytes.as_number().filter(|size| *size > 0.0);
            let right = size.map_or(RIGHT, within).max(left);
            if index % 2 == 1 {
                canvas.rectangle("band", (left, frame.top), (right - left, frame.height));
            }
            if let Some(ns) = level.latency_ns.as_number().filter(|ns| *ns > 0.0) {
                let y = frame.y(ns).clamp(frame.top, frame.bottom());
                canvas.line("plateau", (left, y), (right, y));
            }
            let name = clean(&level.name);
            let half = name.chars().count() as f64 * 3.5;
            let middle = f64::midpoint(left, right);
            if middle - half >= free && middle + half <= RIGHT {
                canvas.text((middle, names_y), "level", Anchor::Middle, &name);
                free = middle + half;
            }
            left = right;
        }
        for [low, _, high] in edges(self.report) {
            let (low, high) = (within(low), within(high));
            let width = (high - low).max(HAIR);
            canvas.rectangle("edge", (low.min(RIGHT - width), frame.top), (width, frame.height));
        }
    }

    /// Marks the reach of each TLB level with a vertical line. Its label is above the plot area, in
    /// a row that no other label shares.
    fn reaches(&self, canvas: &mut Canvas, frame: &Frame, marks: &[Mark]) {
        for (index, mark) in marks.iter().enumerate() {
            let x = frame.x(mark.bytes);
            let y = frame.top - 6.0 - (marks.len() - 1 - index) as f64 * LINE_HEIGHT;
            let half = mark.label.chars().count() as f64 * 3.3;
            let middle = x.clamp(LEFT + half, (RIGHT - half).max(LEFT + half));
            match (LEFT..=RIGHT).contains(&x) {
                true => {
                    canvas.text((middle, y), "tick", Anchor::Middle, &mark.label);
                    canvas.line("mark-at", (x, y + 4.0), (x, frame.bottom()));
                }
                false => {
                    let label = format!("{} (beyond)", mark.label);
                    canvas.text((RIGHT, y), "tick", Anchor::End, &label);
                }
            }
        }
    }

    /// Lists the levels in the legend: name, size and latency, with intervals.
    fn levels(&self, canvas: &mut Canvas, mut y: f64) {
        let (left, right) = (RIGHT + 24.0, WIDTH - MARGIN);
        for level in &self.report.levels {
            // The row below holds the latency, so a name without a size has the whole row.
            let has_size = level.size_bytes.as_number().is_some();
            let room = if has_size { NAME_ROOM } else { right - left };
            canvas.text((left, y), "level", Anchor::Start, &clean(&cut(&level.name, room)));
            if has_size {
                canvas.text((right, y), "", Anchor::End, &ranged_binary(&level.size_bytes));
            }
            y += LINE_HEIGHT;
            let time = format!("{} ns", ranged(&level.latency_ns, three_digits));
            canvas.text((right, y), "", Anchor::End, &time);
            y += 1.2 * LINE_HEIGHT;
        }
    }
}

/// Intervals by size: bytes, and both ends of the interval in ns per load.
type Spread = Vec<(f64, [f64; 2])>;

fn spread(curve: &Curve) -> Spread {
    let ends = |point: &CurvePoint| {
        let (bytes, ns) = drawable(point)?;
        let end = |end: Option<f64>| end.filter(|end| *end > 0.0).unwrap_or(ns);
        let (low, high) = (end(point.latency_ns.low), end(point.latency_ns.high));
        Some((bytes, [low.min(ns), high.max(ns)]))
    };
    let mut spread: Spread = curve.points.iter().filter_map(ends).collect();
    spread.sort_by(|a, b| a.0.total_cmp(&b.0));
    spread
}

/// Returns the corners of the area between the interval ends.
fn corners(spread: &Spread, frame: &Frame) -> Vec<(f64, f64)> {
    let place =
        |bytes: f64, ns: f64| (frame.x(bytes), frame.y(ns).clamp(frame.top, frame.bottom()));
    let above = spread.iter().map(|(bytes, [_, high])| place(*bytes, *high));
    let below = spread.iter().rev().map(|(bytes, [low, _])| place(*bytes, *low));
    above.chain(below).collect()
}
