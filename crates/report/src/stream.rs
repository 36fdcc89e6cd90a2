// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of a `stream` record: the finding, a table of points, and the cost for sender and
//! receiver.

use crate::layout::{Grid, Paint, labelled, limited, stacked};
use crate::value::{ABSENT, cell, clean, count, interval, percent, quoted, significant, whole};
use crate::{Detail, Style};
use linerate_record::Figure;
use linerate_record::stream::{
    StreamMethod, StreamMode, StreamPathKind, StreamPoint, StreamReport, StreamSide, StreamTcp,
};
use linerate_record::units::{counted, memory_size, three_digits};
use linerate_record::why::WhyFinding;

/// A buffer is large enough if its throughput is within this fraction of the fastest point's.
const SLACK: f64 = 0.05;
/// Maximum number of lines of the table of points on one screen.
const SCREEN_ROWS: usize = 14;

/// Formats the report of `linerate stream`.
pub fn stream(report: &StreamReport, style: &Style) -> String {
    stacked(&[
        head(report, style),
        findings(report, Detail::Brief, style),
        points(report, style),
        costs(report, style),
        limits(report, style),
        methods(report, style),
        notes(report, style),
    ])
}

/// Formats one screen.
pub(crate) fn screen(report: &StreamReport, style: &Style) -> String {
    stacked(&[
        findings(report, Detail::Screen, style),
        limited(&points(report, style), SCREEN_ROWS),
        methods(report, style),
        notes(report, style),
    ])
}

/// Returns the answer in parts: the rate and what limits it, and the CPU time it takes.
pub(crate) fn answer(report: &StreamReport) -> Vec<String> {
    let Some(point) = report.explained() else {
        return vec!["No point was measured".to_owned()];
    };
    let rate = match report.mode {
        StreamMode::Request => cell(&point.requests_per_s, |x| format!("{} requests/s", whole(x))),
        _ => cell(&point.gbps, |gbps| format!("{} Gb/s", significant(gbps))),
    };
    let demand = cell(&point.cpu_us_per_kb, |us| format!("{} us of CPU per KB", three_digits(us)));
    vec![format!("{rate}, limited by {}: {}", limit(&point.limited_by), point.finding), demand]
}

/// Returns a keyword of [`StreamPoint::limited_by`] in words.
fn limit(keyword: &str) -> String {
    match keyword {
        "sender_cpu" => "the sender's CPU",
        "receiver_cpu" => "the receiver's CPU",
        "sender_pause" => "the sender's pauses",
        "receiver_pause" => "the receiver's pauses",
        "wake_ups" => "the two ends' waits for each other",
        "cannot_tell" => "an unknown cause",
        other => return other.replace('_', " "),
    }
    .to_owned()
}

fn line(label: &str, text: &str, style: &Style) -> String {
    labelled(label, Paint::Head, &clean(text), style)
}

fn head(report: &StreamReport, style: &Style) -> String {
    let what = match report.mode {
        StreamMode::Tcp => "TCP stream",
        StreamMode::Udp => "UDP datagrams",
        StreamMode::Request => "TCP requests and replies",
    };
    let place = match report.path.kind {
        StreamPathKind::Loopback => "over loopback",
        StreamPathKind::Namespaces => "between two network namespaces",
        StreamPathKind::Network => "with another host",
    };
    let direction = if report.reverse { ", server to client" } else { "" };
    let how = format!(
        "{what} {place}{direction}; {} of {:.0} ms per point in random order (seed {}), each after \
         a warm-up",
        counted(report.rounds, "visit"),
        report.visit_ms,
        report.seed,
    );
    line("measured", &how, style)
}

/// Formats the findings. On one screen, only the first is given in full, the others in a sentence
/// each.
fn findings(report: &StreamReport, detail: Detail, style: &Style) -> String {
    let mut text = String::new();
    for (index, finding) in report.findings.iter().enumerate() {
        let label = if index == 0 { "finding" } else { "also" };
        let sentence = format!("{}: {}", finding.cause.title(), finding.sentence);
        text += &line(label, &sentence, style);
        if index > 0 && detail == Detail::Screen {
            continue;
        }
        text += &line("gain", &gain(finding), style);
        if let Some(fix) = &finding.fix {
            text += &line("do", fix, style);
        }
        text += &line("wrong if", &finding.wrong_if, style);
        if index == 0 {
            text += &buffer(report, style);
        }
    }
    text
}

fn gain(finding: &WhyFinding) -> String {
    let gain = &finding.gain;
    match gain.percent.as_number() {
        None => gain.percent.reason.clone().unwrap_or_default(),
        Some(_) => {
            let next = gain.then_limited_by.as_deref();
            let next = next.map_or(String::new(), |next| format!("; the next limit is {next}"));
            format!(
                "throughput {}, measured in this sweep{next}",
                quoted(&gain.percent, |percent| {
                    let sign = if percent > 0.0 { "+" } else { "" };
                    format!("{sign}{} %", significant(percent))
                })
            )
        }
    }
}

/// Formats the smallest buffer that is large enough, if buffers were swept.
fn buffer(report: &StreamReport, style: &Style) -> String {
    let Some(point) = report.enough_buffer(SLACK) else { return String::new() };
    let Some(bytes) = point.send_buffer_bytes else { return String::new() };
    let text = format!(
        "{} is the smallest SO_SNDBUF and SO_RCVBUF that comes within {:.0} % of the top rate; it \
         reaches {} Gb/s",
        memory_size(bytes as f64),
        100.0 * SLACK,
        cell(&point.gbps, significant),
    );
    line("buffer", &text, style)
}

fn size(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "auto".to_owned(), |bytes| memory_size(bytes as f64))
}

fn buffers(point: &StreamPoint) -> String {
    match point.send_buffer_bytes == point.receive_buffer_bytes {
        true => size(point.send_buffer_bytes),
        false => {
            format!("{}, {}", size(point.send_buffer_bytes), size(point.receive_buffer_bytes))
        }
    }
}

/// Columns that identify a point.
fn name(point: &StreamPoint) -> Vec<String> {
    vec![buffers(point), memory_size(point.message_bytes as f64), point.connections.to_string()]
}

const NAME: [&str; 3] = [">buffer", ">message", ">conn."];

fn grid(heads: &[&str]) -> Grid {
    Grid::new(&[&NAME[..], heads].concat())
}

/// Formats throughput and CPU time at each point: figures 7 and 8 of AN2581.
fn points(report: &StreamReport, style: &Style) -> String {
    let is_request = report.mode == StreamMode::Request;
    let rate = if is_request { ">requests/s" } else { ">Gb/s" };
    let heads = [rate, ">interval", ">sender\nCPU %", ">receiver\nCPU %", ">us/KB", "limited by"];
    let mut grid = grid(&heads);
    for point in &report.points {
        let figure = if is_request { &point.requests_per_s } else { &point.gbps };
        let show = if is_request { whole } else { significant };
        let cells = [
            cell(figure, show),
            interval(figure, show).unwrap_or_else(|| ABSENT.to_owned()),
            cell(&point.sender.cpu, percent),
            cell(&point.receiver.cpu, percent),
            cell(&point.cpu_us_per_kb, three_digits),
            limit(&point.limited_by),
        ];
        grid.row([name(point), cells.to_vec()].concat());
    }
    grid.render(style)
}

/// Formats the cost of the stream for sender and receiver.
fn costs(report: &StreamReport, style: &Style) -> String {
    let heads = [
        "side",
        ">user %",
        ">system %",
        ">waiting %",
        ">us/KB",
        ">calls\n/MB",
        ">switches\n/MB",
        ">bytes\n/call",
    ];
    let mut grid = grid(&heads);
    for point in &report.points {
        for (side, label) in [(&point.sender, "sender"), (&point.receiver, "receiver")] {
            grid.row([name(point), cells_of(side, label)].concat());
        }
    }
    let machine = report.explained().map_or_else(String::new, |point| machine(point, style));
    stacked(&[grid.render(style), machine])
}

fn cells_of(side: &StreamSide, label: &str) -> Vec<String> {
    vec![
        label.to_owned(),
        percent(side.user),
        percent(side.system),
        side.waiting.map_or_else(|| ABSENT.to_owned(), percent),
        cell(&side.cpu_us_per_kb, three_digits),
        three_digits(side.calls_per_mb),
        three_digits(side.switches_per_mb),
        whole(side.bytes_per_call),
    ]
}

fn machine(point: &StreamPoint, style: &Style) -> String {
    let machine = &point.machine;
    let share = |share: Option<f64>| share.map_or_else(|| ABSENT.to_owned(), percent);
    let text = format!(
        "{}: user {} %, system {} %, interrupts and softirqs {} %, idle {} %; {} % is used by \
         neither the sender nor the receiver",
        counted(machine.cpus, "CPU"),
        share(machine.user),
        share(machine.system),
        share(machine.softirq),
        share(machine.idle),
        share(machine.others),
    );
    line("machine", &text, style)
}

/// Formats the TCP statistics of each point or, for UDP, where datagrams were lost.
fn limits(report: &StreamReport, style: &Style) -> String {
    if report.points.iter().any(|point| point.udp.is_some()) {
        return datagrams(report, style);
    }
    let heads = [
        ">busy %",
        ">window\nlimited %",
        ">buffer\nlimited %",
        ">cwnd",
        ">rtt us",
        ">segment\nbytes",
        ">retrans.",
    ];
    let mut grid = grid(&heads);
    for point in &report.points {
        let Some(tcp) = &point.tcp else { continue };
        let cells = |tcp: &StreamTcp| {
            vec![
                percent(tcp.busy),
                percent(tcp.rwnd_limited),
                percent(tcp.sndbuf_limited),
                three_digits(tcp.cwnd),
                three_digits(tcp.rtt_us),
                whole(tcp.segment_bytes),
                count(tcp.retransmitted),
            ]
        };
        grid.row([name(point), cells(tcp)].concat());
    }
    grid.render(style)
}

fn datagrams(report: &StreamReport, style: &Style) -> String {
    let heads = [">sent", ">refused", ">lost in\ntransit", ">buffer\ndrops", ">received"];
    let mut grid = grid(&heads);
    let known = |number: Option<u64>| number.map_or_else(|| ABSENT.to_owned(), count);
    for point in &report.points {
        let Some(udp) = &point.udp else { continue };
        let cells = [
            count(udp.sent),
            count(udp.refused),
            known(udp.lost),
            known(udp.buffer_drops),
            count(udp.received),
        ];
        grid.row([name(point), cells.to_vec()].concat());
    }
    grid.render(style)
}

fn methods(report: &StreamReport, style: &Style) -> String {
    let heads = ["method", ">Gb/s", ">us/KB", ">copies %", ">speed", ">demand", "relative to"];
    let mut grid = Grid::new(&heads);
    let ratio = |figure: &Figure| {
        let two_digits = |x: f64| format!("{x:.2}");
        let interval = interval(figure, two_digits);
        let interval = interval.map_or_else(String::new, |interval| format!(" ({interval})"));
        cell(figure, |x| two_digits(x) + &interval)
    };
    for method in &report.methods {
        grid.row(vec![
            method.name.clone(),
            cell(&method.gbps, significant),
            cell(&method.cpu_us_per_kb, three_digits),
            method.copy_share.as_ref().map_or_else(|| ABSENT.to_owned(), |x| cell(x, percent)),
            ratio(&method.speed),
            ratio(&method.demand),
            method.compared_with.clone().unwrap_or_default(),
        ]);
    }
    let note = |method: &StreamMethod| {
        let note = method.note.as_deref()?;
        Some(line("note", &format!("{}: {note}", method.name), style))
    };
    let notes: String = report.methods.iter().filter_map(note).collect();
    stacked(&[grid.render(style), notes + &no_copies(report, style)])
}

/// Returns a line that says why no method has a share of copies.
fn no_copies(report: &StreamReport, style: &Style) -> String {
    let shares = || report.methods.iter().filter_map(|method| method.copy_share.as_ref());
    if shares().any(|share| share.as_number().is_some()) {
        return String::new();
    }
    let reason = shares().find_map(|share| share.reason.as_deref());
    reason.map_or_else(String::new, |reason| {
        line("note", &format!("the share of copies is unknown: {reason}"), style)
    })
}

fn notes(report: &StreamReport, style: &Style) -> String {
    let mut text = line("checksum", &report.path.checksum, style);
    for skipped in &report.skipped {
        text += &line("left out", &format!("{}: {}", skipped.what, skipped.reason), style);
    }
    if let Some(error) = &report.ended_by {
        text += &line("ended by", error, style);
    }
    text
}
