// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drawing primitives and style for plots.
//!
//! Lengths are in user units, which equal pixels at native size; x increases to the right, y
//! downwards.

use std::fmt::Write;

/// Width of all plots; heights differ. The column of a page is often 600 pixels wide, and scaled to
/// that width, text of 12 units must keep at least 11 pixels.
pub(super) const WIDTH: f64 = 640.0;
pub(super) const MARGIN: f64 = 20.0;

/// Line spacing of 12-unit text.
pub(super) const LINE_HEIGHT: f64 = 17.0;
const TITLE_HEIGHT: f64 = 22.0;
/// Average advance width of a 12-unit sans-serif character, rounded up because fonts differ.
pub(super) const CHARACTER: f64 = 6.6;
const TITLE_CHARACTER: f64 = 9.8;

/// Style sheet shared by all plots. Variants differ in colour. Colours can be distinguished with
/// common colour-vision deficiencies (after Okabe and Ito, with light ones darkened to a contrast
/// of 3:1 on white) and have counterparts for dark backgrounds.
const STYLE: &str = "
text { font: 12px system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif; fill: #1f2328 }
.title { font-size: 16px; font-weight: 600 }
.note, .tick, .value { fill: #59636e }
.value { paint-order: stroke; stroke: #ffffff; stroke-width: 4px }
.back { fill: #ffffff }
.grid { stroke: #d1d9e0 }
.axis { stroke: #59636e }
.mark-at { stroke: #59636e; stroke-dasharray: 2 3 }
.plot { fill: none }
.v0 { color: #882255 }
.v1 { color: #a87000 }
.v2 { color: #008060 }
.v3 { color: #0072b2 }
.v4 { color: #c2609c }
.v5 { color: #d55e00 }
.v6 { color: #2b8ccb }
.v7 { color: #6a5a00 }
.peer { color: #808a94 }
.bound, .selected { color: #1f2328 }
.line { fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round }
.bound.line { stroke-width: 1.5; stroke-dasharray: 7 4 }
.selected.line { stroke-width: 9; stroke-opacity: 0.2; stroke-linecap: round }
.dot { fill: none; stroke: currentColor; stroke-width: 1.5 }
.selected.dot { stroke-width: 5; stroke-opacity: 0.3 }
.marker, .bar { fill: currentColor }
.peer.marker { fill: #ffffff; stroke: currentColor; stroke-width: 1.5 }
.bound.bar { fill: none; stroke: currentColor; stroke-dasharray: 4 3 }
.selected.bar { fill-opacity: 0.45 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.note, .tick, .value { fill: #9198a1 }
.value { stroke: #0d1117 }
.back { fill: #0d1117 }
.grid { stroke: #2d333b }
.axis, .mark-at { stroke: #9198a1 }
.v0 { color: #dd77aa }
.v1 { color: #e69f00 }
.v2 { color: #1fbf8f }
.v3 { color: #4aa8e8 }
.v4 { color: #f0a6d6 }
.v5 { color: #ff8533 }
.v6 { color: #8fd0f5 }
.v7 { color: #cfc04a }
.bound, .selected { color: #e6edf3 }
.selected.line { stroke-opacity: 0.3 }
.peer.marker { fill: #0d1117 }
}
";

/// Style of a routine or curve: colour, line style and marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Bound,
    Selected,
    /// A variant, by its index in the variant table, which gives it the same style in all plots.
    Variant(usize),
    /// A peer, by its index among the peers.
    Peer(usize),
}

impl Look {
    /// Returns the CSS class.
    pub(super) fn class(self) -> String {
        match self {
            Self::Bound => "bound".to_owned(),
            Self::Selected => "selected".to_owned(),
            Self::Variant(index) => format!("v{}", index % 8),
            Self::Peer(_) => "peer".to_owned(),
        }
    }

    /// Returns the path of a marker at a point; `None` for styles without a marker.
    pub(super) fn marker(self, x: f64, y: f64) -> Option<String> {
        let corners: &[(f64, f64)] = match self {
            Self::Bound | Self::Selected => return None,
            Self::Variant(index) | Self::Peer(index) => SHAPES[index % SHAPES.len()],
        };
        let corner = |(dx, dy): &(f64, f64)| format!("{} {}", number(x + dx), number(y + dy));
        let corners: Vec<String> = corners.iter().map(corner).collect();
        Some(format!("M{}Z", corners.join("L")))
    }
}

/// Corners of the markers, which have roughly equal areas.
const SHAPES: [&[(f64, f64)]; 6] = [
    &[(-3.2, -3.2), (3.2, -3.2), (3.2, 3.2), (-3.2, 3.2)],
    &[(0.0, -4.4), (4.4, 0.0), (0.0, 4.4), (-4.4, 0.0)],
    &[(0.0, -4.4), (4.2, 3.2), (-4.2, 3.2)],
    &[(0.0, 4.4), (4.2, -3.2), (-4.2, -3.2)],
    &[(-1.7, -4.0), (1.7, -4.0), (4.0, 0.0), (1.7, 4.0), (-1.7, 4.0), (-4.0, 0.0)],
    &[(-4.2, -1.6), (4.2, -1.6), (4.2, 1.6), (-4.2, 1.6)],
];

/// Which part of the text is placed at the given point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Texts of a plot: file name, title, notes and description.
pub(super) struct Caption {
    pub(super) name: String,
    pub(super) title: String,
    /// Paragraphs below the title.
    pub(super) notes: Vec<String>,
    /// Description for screen readers.
    pub(super) description: String,
}

/// A plot under construction.
pub(super) struct Canvas {
    body: String,
    /// Style rules in addition to the shared ones.
    rules: &'static str,
}

impl Canvas {
    /// Creates a plot that contains only `caption`. Also returns the y coordinate below the
    /// caption.
    pub(super) fn new(caption: &Caption) -> (Self, f64) {
        let mut canvas = Self { body: String::new(), rules: "" };
        let mut y = MARGIN - 4.0;
        let room = |character: f64| ((WIDTH - 2.0 * MARGIN) / character) as usize;
        for line in textwrap::wrap(&caption.title, room(TITLE_CHARACTER)) {
            y += TITLE_HEIGHT;
            canvas.text((MARGIN, y - 6.0), "title", Anchor::Start, &line);
        }
        for note in &caption.notes {
            for line in textwrap::wrap(note, room(CHARACTER)) {
                y += LINE_HEIGHT;
                canvas.text((MARGIN, y - 4.0), "note", Anchor::Start, &line);
            }
        }
        (canvas, y)
    }

    /// Adds style rules that only this plot needs.
    pub(super) fn rules(&mut self, rules: &'static str) {
        self.rules = rules;
    }

    pub(super) fn text(&mut self, at: (f64, f64), class: &str, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let (x, y, text) = (number(at.0), number(at.1), escape(text));
        self.push(&format!("<text x=\"{x}\" y=\"{y}\"{class}{anchor}>{text}</text>"));
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(number);
        self.push(&format!(
            "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>"
        ));
    }

    /// Draws a polyline in the given style.
    pub(super) fn polyline(&mut self, look: Look, points: &[(f64, f64)]) {
        let (class, points) = (look.class(), pairs(points));
        self.push(&format!("<polyline class=\"{class} line\" points=\"{points}\"/>"));
    }

    /// Draws a polygon in the given style.
    pub(super) fn area(&mut self, look: Look, corners: &[(f64, f64)]) {
        let (class, points) = (look.class(), pairs(corners));
        self.push(&format!("<polygon class=\"{class} area\" points=\"{points}\"/>"));
    }

    /// Draws the marker of a single-point line: a ring for styles without a marker, small for the
    /// bound and large for the selected routine, so that neither hides the other.
    pub(super) fn dot(&mut self, look: Look, at: (f64, f64)) {
        let radius = match look {
            Look::Bound => 3.0,
            Look::Selected => 8.0,
            Look::Variant(_) | Look::Peer(_) => return,
        };
        let [x, y, radius] = [at.0, at.1, radius].map(number);
        let class = look.class();
        self.push(&format!("<circle class=\"{class} dot\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>"));
    }

    /// Draws markers at the points, if the style has markers.
    pub(super) fn markers(&mut self, look: Look, points: &[(f64, f64)]) {
        let outline: String = points.iter().filter_map(|&(x, y)| look.marker(x, y)).collect();
        if !outline.is_empty() {
            self.push(&format!("<path class=\"{} marker\" d=\"{outline}\"/>", look.class()));
        }
    }

    pub(super) fn rectangle(&mut self, class: &str, at: (f64, f64), size: (f64, f64)) {
        let [x, y, width, height] = [at.0, at.1, size.0, size.1].map(number);
        self.push(&format!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
        ));
    }

    /// Draws a rectangle that shows `title` on hover.
    pub(super) fn titled_rectangle(
        &mut self,
        class: &str,
        (at, size): ((f64, f64), (f64, f64)),
        title: &str,
    ) {
        let title = escape(title);
        self.push(&format!("<g><title>{title}</title>"));
        self.rectangle(class, at, size);
        self.push("</g>");
    }

    fn push(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    /// Returns the SVG file as text.
    pub(super) fn finish(self, caption: &Caption, height: f64) -> String {
        let (width, height) = (number(WIDTH), number(height.ceil()));
        let (title, description) = (escape(&caption.title), escape(&caption.description));
        // Plots may share a page, so identifiers must differ.
        let id = escape(&caption.name);
        let mut svg = String::new();
        let _ = writeln!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-labelledby=\"{id}-title {id}-desc\">\n\
             <title id=\"{id}-title\">{title}</title>\n\
             <desc id=\"{id}-desc\">{description}</desc>\n\
             <style>{STYLE}{}</style>\n\
             <rect class=\"back\" width=\"{width}\" height=\"{height}\"/>\n\
             {}</svg>",
            self.rules, self.body
        );
        svg
    }
}

/// Formats points in SVG polygon syntax.
fn pairs(points: &[(f64, f64)]) -> String {
    let pair = |(x, y): &(f64, f64)| format!("{},{}", number(*x), number(*y));
    points.iter().map(pair).collect::<Vec<_>>().join(" ")
}

/// Formats a length rounded to a tenth of a unit.
fn number(length: f64) -> String {
    let text = format!("{length:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// Escapes `text` as character data, replacing characters that are invalid in XML 1.0.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Truncates `name` to a width of `room`.
pub(super) fn cut(name: &str, room: f64) -> String {
    let most = (room / CHARACTER) as usize;
    if name.chars().count() <= most {
        return name.to_owned();
    }
    name.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// Returns the ticks of a linear axis from 0 to at least `most`, in at most seven steps of 1, 2 or
/// 5 times a power of ten. The last tick is the end of the axis.
pub(super) fn steps(most: f64) -> Vec<f64> {
    let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
    let power = 10f64.powf((most / 7.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
    // 10 * power exceeds most / 7, so there always is a step.
    let step = step.into_iter().find(|step| most / step <= 7.0).unwrap_or(most);
    let count = (most / step).ceil() as u32;
    (0..=count).map(|index| f64::from(index) * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_above_what_they_show() {
        for most in [0.004, 0.3, 1.0, 3.4, 7.0, 7.1, 62.7, 99.0, 1e6] {
            let steps = steps(most);
            assert!((2..=8).contains(&steps.len()), "{most}: {steps:?}");
            assert_eq!(steps[0], 0.0);
            let end = steps.last().unwrap();
            assert!(*end >= most * (1.0 - 1e-12) && *end <= most * 2.0, "{most}: {steps:?}");
        }
        assert_eq!(steps(62.7), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0]);
        assert_eq!(steps(f64::NAN).last(), Some(&1.0));
    }

    #[test]
    fn texts_cannot_become_markup() {
        assert_eq!(
            escape("<a href='x'>&\u{0}\u{ffff}\n"),
            "&lt;a href=&#39;x&#39;&gt;&amp;\u{fffd}\u{fffd}\u{fffd}"
        );
        assert_eq!(cut("internet-checksum", 66.0), "internet-…");
        assert_eq!(cut("adc", 66.0), "adc");
    }

    #[test]
    fn lengths_are_short() {
        assert_eq!(
            (number(1.0), number(1.25), number(-0.04)),
            ("1".into(), "1.2".into(), "-0".into())
        );
    }
}
