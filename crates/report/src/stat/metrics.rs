// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics computed from events.

use super::columns::{self, Column};
use crate::Style;
use crate::layout::{Paint, labelled};
use crate::value::{cell, clean, interval, reason, significant, tiers};
use linerate_record::Figure;
use linerate_record::stat::{MetricValue, StatReport};

/// Formats the metrics that have a value, by set, followed by the missing metrics with reasons.
pub(super) fn table(report: &StatReport, style: &Style) -> String {
    let (known, unknown): (Vec<_>, Vec<_>) =
        report.metrics.iter().partition(|metric| metric.figure.as_number().is_some());
    let mut columns = columns(&known);
    if columns::width(&columns) > style.width {
        columns.pop();
    }
    let mut text = columns::render(&columns, style);
    let tier = tiers(known.iter().map(|metric| &metric.figure));
    let is_told = known.iter().all(|metric| metric.figure.tier == report.tier);
    if !tier.is_empty() && !is_told {
        text += &labelled("", Paint::Head, &format!("tier {tier}"), style);
    }
    text + &missing(&unknown, report, style)
}

/// Returns the table columns. The formula is last, as it is dropped first if space is short.
fn columns(metrics: &[&MetricValue]) -> Vec<Column> {
    let column = |head: &str, cell: &dyn Fn(&MetricValue) -> String| Column {
        head: head.to_owned(),
        cells: metrics.iter().map(|metric| cell(metric)).collect(),
    };
    let mut last = None;
    let sets = metrics.iter().map(|metric| match last.replace(&metric.set) {
        Some(set) if *set == metric.set => String::new(),
        _ => metric.set.clone(),
    });
    let sets = Column { head: "set".to_owned(), cells: sets.collect() };
    vec![
        sets,
        column("metric", &|metric| metric.name.clone()),
        column(">value", &|metric| value(&metric.figure)),
        column("unit", &|metric| metric.figure.unit.clone()),
        column("computed as", &|metric| metric.formula.clone()),
    ]
}

/// Formats a value and its interval, both in the metric's unit, because a percentage of a
/// percentage would be misread.
fn value(figure: &Figure) -> String {
    let value = cell(figure, significant);
    interval(figure, significant).map_or(value.clone(), |ends| format!("{value} ({ends})"))
}

/// Lists why metrics are missing, without duplicates and without reasons already given for events.
fn missing(metrics: &[&MetricValue], report: &StatReport, style: &Style) -> String {
    let absent = report.events.iter().filter(|event| event.count.as_number().is_none());
    let told: Vec<&str> = absent.map(|event| reason(&event.count)).collect();
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for metric in metrics {
        let why = match reason(&metric.figure) {
            why if told.iter().any(|told| why.ends_with(told)) => "required events are missing",
            why => why,
        };
        match groups.iter_mut().find(|(w, _)| *w == why) {
            Some((_, names)) => names.push(&metric.name),
            None => groups.push((why, vec![&metric.name])),
        }
    }
    let tell = |(why, names): &(&str, Vec<&str>)| {
        let text = format!("{}: {why}", names.join(", "));
        labelled("no value", Paint::Warning, &clean(&text), style)
    };
    groups.iter().map(tell).collect()
}

/// Explains each metric and its limits.
pub(super) fn explained(report: &StatReport, style: &Style) -> String {
    let tell = |metric: &MetricValue| {
        let text = format!("{} = {}. {}", metric.name, metric.formula, metric.prose);
        labelled("", Paint::Head, &clean(&text), style)
    };
    report.metrics.iter().map(tell).collect()
}
