// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory plot.

use crate::common::assert_same;
use crate::drawing::{assert_is_sound, number, of_class, points};
use crate::example::{bare, odd, provenance, report};
use linerate_record::memory::MemoryReport;
use linerate_report::svg;
use roxmltree::{Document, Node};

fn plot(report: &MemoryReport) -> String {
    let plot = svg::memory(report, &provenance()).expect("there are curves");
    let xml = Document::parse(&plot.svg).expect("well-formed");
    assert_is_sound(&plot.name, xml.root_element());
    plot.svg
}

#[test]
fn the_curves_and_the_levels() {
    assert_same("memory.svg", &plot(&report()));
}

/// Returns the inverse of a log2 axis, which maps coordinates to values, based on two of its
/// labels.
fn scale(a: (f64, f64), b: (f64, f64)) -> impl Fn(f64) -> f64 {
    move |at| a.1 * (b.1 / a.1).powf((at - a.0) / (b.0 - a.0))
}

/// Returns a function that maps an x coordinate to bytes.
fn bytes_at(svg: Node) -> impl Fn(f64) -> f64 {
    let tick = |label: &str| {
        let is_it = |node: &Node| node.text() == Some(label);
        number(of_class(svg, "tick").find(is_it).expect("a label"), "x")
    };
    scale((tick("4 KiB"), 4096.0), (tick("16 MiB"), 16.0 * 1_048_576.0))
}

#[test]
fn what_was_measured_is_what_is_drawn() {
    let report = report();
    let svg = plot(&report);
    let xml = Document::parse(&svg).unwrap();
    let svg = xml.root_element();
    let area = of_class(svg, "plot").next().unwrap();
    let (top, height) = (number(area, "y"), number(area, "height"));
    let ns_at = scale((top + height, 1.0), (top, 256.0));
    let bytes_at = bytes_at(svg);
    let line = of_class(svg, "v3").find(|node| node.has_tag_name("polyline")).unwrap();
    let measured = &report.curves[0].points;
    let drawn = points(line);
    assert_eq!(drawn.len(), measured.len());
    for ((x, y), point) in drawn.into_iter().zip(measured) {
        let ratio = ns_at(y) / point.latency_ns.as_number().unwrap();
        assert!(ratio.log2().abs() < 0.01, "{}: {ratio}", point.bytes);
        let ratio = bytes_at(x) / point.bytes as f64;
        assert!(ratio.log2().abs() < 0.02, "{}: {ratio}", point.bytes);
    }
}

#[test]
fn levels_end_where_their_intervals_are_and_the_buffer_where_it_reaches() {
    let report = report();
    let svg = plot(&report);
    let xml = Document::parse(&svg).unwrap();
    let svg = xml.root_element();
    let bytes_at = bytes_at(svg);
    let edges: Vec<Node> = of_class(svg, "edge").collect();
    assert_eq!(edges.len(), 3);
    for (edge, level) in edges.into_iter().zip(&report.levels) {
        let (low, high) = (level.size_bytes.low.unwrap(), level.size_bytes.high.unwrap());
        let x = number(edge, "x");
        let ends = [bytes_at(x) / low, bytes_at(x + number(edge, "width")) / high];
        assert!(ends.iter().all(|ratio| ratio.log2().abs() < 0.03), "{}: {ends:?}", level.name);
    }
    let marks: Vec<f64> = of_class(svg, "mark-at").map(|m| bytes_at(number(m, "x1"))).collect();
    let reach = [72.0 * 4096.0, 2230.0 * 4096.0];
    assert_eq!(marks.len(), reach.len());
    assert!(marks.iter().zip(reach).all(|(mark, reach)| (mark / reach).log2().abs() < 0.02));
}

#[test]
fn the_plot_says_what_it_shows() {
    let plot = svg::memory(&report(), &provenance()).unwrap();
    assert_eq!(plot.name, "memory");
    assert!(plot.title.ends_with("on Example Processor 9 <9999> & Sons"), "{}", plot.title);
    let xml = Document::parse(&plot.svg).unwrap();
    let description = xml.descendants().find(|node| node.has_tag_name("desc")).unwrap();
    for part in [
        "L2 up to 1.02 MiB (993 KiB to 1.06 MiB, 95 %), 3.8 ns (3.78 ns to 3.82 ns, 95 %) per load",
        "memory, 98.3 ns",
        "L1 dTLB (base): 72 pages",
        "L2 dTLB (base): slower from 2230 pages",
    ] {
        assert!(description.text().unwrap().contains(part), "{description:?}");
    }
    assert!(plot.svg.contains("load average 0.62 to 0.71"));
    assert!(plot.svg.contains("memory varied between passes"));
}

#[test]
fn a_level_without_a_size_has_its_whole_name_in_the_legend() {
    let mut report = report();
    let last = report.levels.last_mut().expect("a level");
    last.name = "L3 or memory".to_owned();
    assert_eq!(last.size_bytes.as_number(), None);
    let svg = plot(&report);
    let xml = Document::parse(&svg).unwrap();
    let names = of_class(xml.root_element(), "level").filter_map(|node| node.text());
    let names: Vec<&str> = names.filter(|name| name.starts_with("L3 o")).collect();
    assert!(!names.is_empty() && names.iter().all(|name| *name == "L3 or memory"), "{names:?}");
}

#[test]
fn nothing_is_drawn_of_what_was_not_measured() {
    assert_eq!(svg::memory(&bare(), &provenance()), None);
    let mut absent = report();
    absent.curves.iter_mut().for_each(|curve| curve.points.clear());
    assert_eq!(svg::memory(&absent, &provenance()), None);
}

#[test]
fn odd_records_are_drawn_too() {
    let drawn: Vec<bool> = odd()
        .iter()
        .map(|report| {
            let Some(plot) = svg::memory(report, &provenance()) else { return false };
            let xml = Document::parse(&plot.svg).unwrap_or_else(|e| panic!("{e}: {}", plot.svg));
            assert_is_sound(&plot.title, xml.root_element());
            true
        })
        .collect();
    // Implausible load times are not drawn.
    assert_eq!(drawn, [false, false, false, false, true, true, true]);
}
