// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots of kernels.

use crate::common::assert_same;
use crate::drawing::{assert_is_sound, number, of_class, points};
use crate::example::report;
use linerate_record::kernels::{KernelsReport, Row, State};
use linerate_report::svg::{self, Plot};
use roxmltree::{Document, Node};

fn plots(report: &KernelsReport) -> Vec<Plot> {
    let plots = svg::kernels(report);
    for plot in &plots {
        let xml = Document::parse(&plot.svg).unwrap_or_else(|e| panic!("{}: {e}", plot.name));
        assert_is_sound(&plot.name, xml.root_element());
    }
    plots
}

fn is_of(node: Node, class: &str) -> bool {
    node.attribute("class").is_some_and(|all| all.split(' ').any(|word| word == class))
}

#[test]
fn there_is_a_plot_of_each_kernel_and_state() {
    let plots = plots(&report());
    let names: Vec<&str> = plots.iter().map(|plot| plot.name.as_str()).collect();
    let expected = [
        "checksum-warm",
        "checksum-mixes",
        "checksum-cold",
        "copy-warm",
        "copy_checksum-warm",
        "copy_checksum-cold",
    ];
    assert_eq!(names, expected);
    for index in [0, 1, 5] {
        assert_same(&format!("{}.svg", plots[index].name), &plots[index].svg);
    }
}

#[test]
fn what_was_measured_is_what_is_drawn() {
    let report = report();
    let plots = plots(&report);
    let xml = Document::parse(&plots[0].svg).unwrap();
    let svg = xml.root_element();
    let area = of_class(svg, "plot").next().unwrap();
    let line = of_class(svg, "v4").find(|node| node.has_tag_name("polyline")).unwrap();
    let is_drawn = |row: &&Row| {
        row.variant == "avx512vnni"
            && row.kernel.name() == "checksum"
            && (row.state, row.src_offset) == (State::Warm, Some(0))
            && row.timing == linerate_record::kernels::Timing::Throughput
    };
    let rows: Vec<&Row> = report.rows.iter().filter(is_drawn).collect();
    let drawn = points(line);
    assert_eq!(drawn.len(), rows.len());
    let ticks = of_class(svg, "tick").filter(|n| n.attribute("text-anchor") == Some("end"));
    let ticks: Vec<f64> = ticks.map(|tick| tick.text().unwrap().parse().unwrap()).collect();
    let (least, most) = (ticks[0], ticks[ticks.len() - 1]);
    let octave = number(area, "height") / (most / least).log2();
    let bottom = number(area, "y") + number(area, "height");
    for ((_, y), row) in drawn.into_iter().zip(rows) {
        let speed = least * ((bottom - y) / octave).exp2();
        let measured = row.bytes_per_cycle.unwrap();
        assert!((speed / measured).log2().abs() < 0.1 / octave, "{:?}: {speed}", row.size);
    }
}

#[test]
fn a_plot_says_what_it_shows() {
    for plot in plots(&report()) {
        let xml = Document::parse(&plot.svg).unwrap();
        let svg = xml.root_element();
        assert_eq!(svg.attribute("role"), Some("img"));
        let labelled_by = svg.attribute("aria-labelledby").unwrap();
        let text = |id| svg.descendants().find(|node| node.attribute("id") == Some(id)).unwrap();
        let texts: Vec<&str> = labelled_by.split(' ').map(|id| text(id).text().unwrap()).collect();
        assert_eq!(texts[0], plot.title);
        assert!(plot.title.contains("Example Processor 9 <9999> & Sons"), "{}", plot.title);
        assert!(texts[1].contains("selected"), "{}", texts[1]);
        let is_cold = plot.name.ends_with("cold");
        assert_eq!(plot.svg.contains("buffers 2048 bytes apart over 64 MiB"), is_cold);
    }
}

#[test]
fn nothing_is_drawn_of_what_was_not_measured() {
    let mut bare = report();
    for row in &mut bare.rows {
        (row.cycles, row.ticks) = (None, None);
    }
    assert_eq!(svg::kernels(&bare), []);
    bare.rows.clear();
    assert_eq!(svg::kernels(&bare), []);
}

#[test]
fn without_cycles_speed_is_in_gigabytes_per_second() {
    let mut ticks = report();
    for row in &mut ticks.rows {
        (row.cycles, row.bytes_per_cycle) = (None, None);
    }
    let plots = plots(&ticks);
    assert!(plots[0].svg.contains("GB/s (10⁹ bytes per second)"));
    assert!(!plots[0].svg.contains("per core cycle"));
}

#[test]
fn one_size_many_routines_and_odd_names_are_drawn_too() {
    let mut odd = report();
    odd.rows.retain(|row| row.size == Some(64));
    let rows = odd.rows.clone();
    for copy in 0..20 {
        odd.rows.extend(rows.iter().cloned().map(|mut row| {
            row.variant = format!("{}\u{0}<]]>&\"{copy} of a name without end", row.variant);
            row
        }));
    }
    odd.processor = Some("A processor whose name goes on ".repeat(8));
    let plots = plots(&odd);
    assert_eq!(plots.len(), 5);
    for plot in plots {
        let xml = Document::parse(&plot.svg).unwrap();
        let dots = || of_class(xml.root_element(), "dot");
        // All 21 are drawn as dots, in the plot area and in the legend, since a line through a
        // single point is invisible.
        assert_eq!(dots().filter(|dot| is_of(*dot, "selected")).count(), 42, "{}", plot.name);
        assert!(dots().any(|dot| is_of(dot, "bound")), "{}", plot.name);
        assert_eq!(of_class(xml.root_element(), "line").count(), 0, "{}", plot.name);
    }
}
