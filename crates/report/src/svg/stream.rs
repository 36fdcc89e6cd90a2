// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots for a `stream` record: figures 7 and 8 of AN2581, throughput and CPU time vs. socket
//! buffer size.

use super::Plot;
use super::canvas::{Caption, Look};
use super::lines::{Line, LineChart};
use linerate_record::Figure;
use linerate_record::stream::{StreamPoint, StreamReport};
use linerate_record::units::{memory_size, three_digits};

/// Returns all plots for which at least two fixed buffer sizes were measured.
pub fn stream(report: &StreamReport) -> Vec<Plot> {
    let throughput = plot(
        report,
        "throughput",
        "Throughput vs. socket buffer size",
        "Gb/s",
        &[("received", Look::Selected, |point| &point.gbps)],
    );
    let cpu = plot(
        report,
        "cpu",
        "CPU time vs. socket buffer size",
        "us per KB",
        &[
            ("both sides", Look::Selected, |point| &point.cpu_us_per_kb),
            ("sender", Look::Variant(0), |point| &point.sender.cpu_us_per_kb),
            ("receiver", Look::Variant(3), |point| &point.receiver.cpu_us_per_kb),
        ],
    );
    [throughput, cpu].into_iter().flatten().collect()
}

/// A line of a plot: name, style and figure.
type Row = (&'static str, Look, fn(&StreamPoint) -> &Figure);

fn plot(report: &StreamReport, name: &str, title: &str, label: &str, rows: &[Row]) -> Option<Plot> {
    let message = report.explained()?.message_bytes;
    let swept = || {
        let is_alike = |point: &&StreamPoint| point.message_bytes == message;
        let points = report.points.iter().filter(is_alike);
        points.filter_map(|point| Some((point.send_buffer_bytes? as f64, point)))
    };
    let line = |(name, look, figure): &Row| {
        let value = |(x, point): (f64, &StreamPoint)| {
            figure(point).as_number().filter(|y| *y > 0.0).map(|y| (x, y))
        };
        let points: Vec<(f64, f64)> = swept().filter_map(value).collect();
        Line { name: (*name).to_owned(), look: *look, points }
    };
    let lines: Vec<Line> = rows.iter().map(line).filter(|line| line.points.len() > 1).collect();
    let quoted = swept().map(|(x, _)| x).fold(f64::NAN, f64::max);
    let values = lines.iter().map(|line| {
        let points = line.points.iter();
        let points = points.map(|(x, y)| format!("{} {}", memory_size(*x), three_digits(*y)));
        format!("{}: {}", line.name, points.collect::<Vec<_>>().join(", "))
    });
    lines.first()?;
    let caption = Caption {
        name: format!("stream-{}-{name}", report.mode.name()),
        title: title.to_owned(),
        notes: vec![format!(
            "Messages of {}; corresponds to {} of AN2581.",
            memory_size(message as f64),
            if name == "cpu" { "figure 7" } else { "figure 8" },
        )],
        description: values.collect::<Vec<_>>().join("; "),
    };
    let (name, title) = (caption.name.clone(), caption.title.clone());
    let chart = LineChart {
        caption,
        x_label: "SO_SNDBUF and SO_RCVBUF, bytes".to_owned(),
        y_label: label.to_owned(),
        quoted: (quoted, memory_size(quoted)),
        lines,
    };
    Some(Plot { name, title, svg: chart.svg() })
}
