// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rendering of streams: the table of points, losses by place, methods, plots.

use linerate_record::stats::Estimate;
use linerate_record::stream::{StreamMethod, StreamMode, StreamReport, StreamUdp};
use linerate_record::{Figure, Tier, fixtures};
use linerate_report::{Style, stream, svg};

const PLAIN: Style = Style::plain(100);

fn figure(unit: &str, value: f64) -> Figure {
    Figure::exact(unit, value, Tier::Sw, "by hand")
}

/// Points with fixed buffers of 16, 64 and 256 KiB at 1, 9.7 and 10 Gb/s, and an automatic one.
fn sweep() -> StreamReport {
    let stored = fixtures::stream();
    let point = stored.points[0].clone();
    let sizes = [(None, 10.0), (Some(16), 1.0), (Some(64), 9.7), (Some(256), 10.0)];
    let points = sizes.map(|(kb, gbps)| {
        let mut point = point.clone();
        point.send_buffer_bytes = kb.map(|kb: u64| kb << 10);
        point.receive_buffer_bytes = point.send_buffer_bytes;
        point.gbps = figure("Gb/s", gbps);
        point.cpu_us_per_kb = figure("us/KB", 1.0 / gbps);
        point
    });
    StreamReport { points: points.to_vec(), explained: Some(0), ..stored }
}

#[test]
fn the_smallest_buffer_that_is_enough_is_named() {
    let text = stream(&sweep(), &PLAIN);
    assert!(text.contains("64 KiB is the smallest SO_SNDBUF and SO_RCVBUF"), "{text}");
    for column in ["us/KB", "limited by", "window", "calls"] {
        assert!(text.contains(column), "{column}: {text}");
    }
}

#[test]
fn an_interval_is_shown_as_far_as_it_is_known() {
    let mut report = sweep();
    let least = Estimate { value: 10.0, low: 9.5, high: f64::INFINITY, confidence: 0.95, n: 5 };
    report.points[0].gbps = Figure::number("Gb/s", least, Tier::Sw, "by hand");
    let text = stream(&report, &Style::plain(160));
    assert!(text.contains("at least 9.5"), "{text}");
}

#[test]
fn datagrams_are_shown_by_place() {
    let mut report = sweep();
    report.mode = StreamMode::Udp;
    for point in &mut report.points {
        point.tcp = None;
        point.udp = Some(StreamUdp {
            sent: 123_456,
            received: 100_000,
            buffer_drops: Some(23_000),
            lost: Some(456),
            ..StreamUdp::default()
        });
    }
    let text = stream(&report, &PLAIN);
    for number in ["123,456", "100,000", "23,000", "456"] {
        assert!(text.contains(number), "{number}: {text}");
    }
}

#[test]
fn methods_have_a_ratio_or_a_reason() {
    let mut report = sweep();
    let absent = || Figure::absent("ratio", Tier::Sw, "by hand", "no kernel support");
    report.methods = vec![StreamMethod {
        name: "zerocopy".to_owned(),
        compared_with: Some("send".to_owned()),
        message_bytes: 1 << 17,
        gbps: figure("Gb/s", 12.5),
        cpu_us_per_kb: figure("us/KB", 0.25),
        speed: figure("ratio", 1.25),
        demand: absent(),
        copy_share: None,
        note: Some("copied after all".to_owned()),
    }];
    let text = stream(&report, &PLAIN);
    assert!(text.contains(" 1.25 ") && text.contains("copied after all"), "{text}");
    assert!(!text.contains("- to"), "an interval that is unknown is not shown: {text}");
    report.methods[0].copy_share = Some(absent());
    let text = stream(&report, &PLAIN);
    assert!(text.contains("the share of copies is unknown: no kernel support"), "{text}");
    report.methods[0].copy_share = Some(figure("ratio", 0.42));
    let text = stream(&report, &PLAIN);
    assert!(text.contains(" 42.0 ") && !text.contains("is unknown"), "{text}");
    let speed = Estimate { value: 1.25, low: 1.21, high: 1.31, confidence: 0.95, n: 8 };
    report.methods[0].speed = Figure::number("ratio", speed, Tier::Sw, "by hand");
    assert!(stream(&report, &PLAIN).contains("1.25 (1.21 to 1.31)"));
}

#[test]
fn plots_need_two_fixed_buffers_and_are_well_formed() {
    let report = sweep();
    let plots = svg::stream(&report);
    let names: Vec<&str> = plots.iter().map(|plot| plot.name.as_str()).collect();
    assert_eq!(names, ["stream-tcp-throughput", "stream-tcp-cpu"]);
    for plot in &plots {
        assert!(roxmltree::Document::parse(&plot.svg).is_ok(), "{}", plot.svg);
        assert!(plot.svg.contains("AN2581"), "{}", plot.svg);
    }
    let mut few = report;
    few.points.truncate(2);
    assert!(svg::stream(&few).is_empty());
}

#[test]
fn a_gain_and_its_interval_are_percentages() {
    let mut report = sweep();
    let estimate = Estimate { value: 58.8, low: 20.6, high: 93.9, confidence: 0.95, n: 9 };
    report.findings[0].gain.percent = Figure::number("percent", estimate, Tier::Sw, "by hand");
    let text = stream(&report, &PLAIN);
    assert!(text.contains("throughput +58.8 % (+20.6 % to +93.9 %, 95 %), measured"), "{text}");
}
