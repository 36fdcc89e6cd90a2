// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements of plots, and invariants that hold for all plots.

use roxmltree::Node;

pub(crate) fn number(node: Node, attribute: &str) -> f64 {
    let text = node.attribute(attribute).unwrap_or_else(|| panic!("{node:?} has {attribute}"));
    text.parse().unwrap_or_else(|_| panic!("{text} is a number"))
}

pub(crate) fn of_class<'a, 'input>(
    svg: Node<'a, 'input>,
    class: &'static str,
) -> impl Iterator<Item = Node<'a, 'input>> {
    let has = move |node: &Node| {
        node.attribute("class").is_some_and(|c| c.split(' ').any(|word| word == class))
    };
    svg.descendants().filter(has)
}

pub(crate) fn points(line: Node) -> Vec<(f64, f64)> {
    let pair = |pair: &str| {
        let (x, y) = pair.split_once(',').expect("a pair");
        (x.parse().expect("a number"), y.parse().expect("a number"))
    };
    line.attribute("points").expect("points").split(' ').map(pair).collect()
}

/// Checks that everything is on the canvas, that lines and bars are within the plot area or the
/// legend, and that no texts overlap.
pub(crate) fn assert_is_sound(name: &str, svg: Node) {
    let (width, height) = (number(svg, "width"), number(svg, "height"));
    let area = of_class(svg, "plot").next().expect("an area");
    let (left, top) = (number(area, "x"), number(area, "y"));
    let (right, bottom) = (left + number(area, "width"), top + number(area, "height"));
    assert!(left > 0.0 && right < width && top > 0.0 && bottom < height, "{name}");
    for line in of_class(svg, "line") {
        for (x, y) in points(line) {
            let in_legend = x > right;
            assert!(x >= left && (in_legend || x <= right) && x <= width, "{name}: x {x}");
            assert!(y >= top && y <= bottom, "{name}: y {y}");
        }
    }
    for bar in of_class(svg, "bar") {
        let (x, wide) = (number(bar, "x"), number(bar, "width"));
        assert!(x == left && wide > 0.0 && x + wide <= right, "{name}: bar to {}", x + wide);
    }
    let boxes: Vec<[f64; 4]> =
        svg.descendants().filter(|node| node.has_tag_name("text")).map(text_box).collect();
    for (index, a) in boxes.iter().enumerate() {
        assert!(a[0] >= 0.0 && a[2] <= width && a[1] >= 0.0 && a[3] <= height, "{name}: {a:?}");
        for b in &boxes[index + 1..] {
            let apart = a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];
            assert!(apart, "{name}: {a:?} on {b:?}");
        }
    }
}

/// Returns the left, top, right and bottom of a text element, estimated from average letter widths.
fn text_box(text: Node) -> [f64; 4] {
    let letters = text.text().expect("letters").chars().count() as f64;
    let (letter, ascent) = match text.attribute("class") {
        Some("title") => (8.4, 12.0),
        _ => (6.2, 9.0),
    };
    let (x, y, width) = (number(text, "x"), number(text, "y"), letters * letter);
    let left = match text.attribute("text-anchor") {
        None => x,
        Some("middle") => x - width / 2.0,
        Some("end") => x - width,
        Some(other) => panic!("anchor {other}"),
    };
    [left, y - ascent, left + width, y + 3.0]
}
