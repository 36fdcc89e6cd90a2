// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reconciles the interface counters of a live path with the path's own counters.

use crate::Style;
use crate::layout::{Grid, Paint, labelled};
use crate::value::{ABSENT, clean, count};
use linerate_record::run::{Bounds, InterfaceReport, ReceivedReport, RunReport, SentReport};
use std::collections::BTreeMap;

/// Formats what each interface received and sent, and whether every packet is accounted for.
pub(crate) fn of_run(report: &RunReport, style: &Style) -> String {
    received(&report.interfaces, style) + &sent(&report.interfaces, style)
}

/// Formats one line that says whether all packets are accounted for and, if not, how many are not.
pub(crate) fn line(report: &RunReport, style: &Style) -> String {
    if report.interfaces.is_empty() {
        return String::new();
    }
    let names: Vec<String> = report.interfaces.iter().map(named).collect();
    let missing: u64 = report.interfaces.iter().map(InterfaceReport::unexplained).sum();
    let (paint, state) = match missing {
        0 => (Paint::Head, "every packet is accounted for".to_owned()),
        _ => (Paint::Warning, format!("no counter accounts for {} of the packets", count(missing))),
    };
    labelled("interfaces", paint, &clean(&format!("{}: {state}", names.join(", "))), style)
}

fn named(interface: &InterfaceReport) -> String {
    let promiscuous = if interface.promiscuous { ", promiscuous" } else { "" };
    format!("{} ({}{promiscuous})", interface.interface, interface.io)
}

fn received(interfaces: &[InterfaceReport], style: &Style) -> String {
    let mut grid = Grid::new(&[
        "received on",
        ">interface",
        ">its drops",
        ">socket",
        ">ring full",
        ">taken",
        ">left",
        ">unexplained",
    ]);
    for interface in interfaces {
        let Some(received) = &interface.received else { continue };
        let ReceivedReport { ring_full, taken, waiting, .. } = *received;
        let differences = [received.socket_difference(), received.interface_difference()];
        grid.row(vec![
            interface.interface.clone(),
            bounds(received.interface),
            drops(&received.interface_drops),
            received.frames.map_or_else(|| ABSENT.to_owned(), count),
            count(ring_full),
            count(taken),
            count(waiting),
            difference(&differences),
        ]);
    }
    grid.render(style)
}

fn sent(interfaces: &[InterfaceReport], style: &Style) -> String {
    let mut grid =
        Grid::new(&["sent on", ">by the path", ">interface", ">its drops", ">unexplained"]);
    for interface in interfaces {
        let Some(sent) = &interface.sent else { continue };
        grid.row(vec![
            interface.interface.clone(),
            count(sent.accepted),
            bounds(sent.interface),
            drops(&sent.interface_drops),
            difference(&[SentReport::interface_difference(sent)]),
        ]);
    }
    grid.render(style)
}

fn bounds(bounds: Option<Bounds>) -> String {
    match bounds {
        None => ABSENT.to_owned(),
        Some(Bounds { least, most }) if least == most => count(least),
        Some(Bounds { least, most }) => format!("{} to {}", count(least), count(most)),
    }
}

fn drops(drops: &BTreeMap<String, u64>) -> String {
    let all = drops.iter().map(|(name, packets)| format!("{name} {}", count(*packets)));
    let all: Vec<String> = all.collect();
    if all.is_empty() { "0".to_owned() } else { all.join(", ") }
}

fn difference(differences: &[Option<i64>]) -> String {
    let known: Vec<i64> = differences.iter().copied().flatten().collect();
    match known.iter().map(|difference| difference.unsigned_abs()).sum() {
        _ if known.is_empty() => ABSENT.to_owned(),
        packets => count(packets),
    }
}
