// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was computed from events.

use super::events::with_error;
use crate::Style;
use crate::layout::{Grid, Paint, labelled};
use crate::value::{clean, reason, significant, tiers};
use linerate_record::stat::{MetricValue, StatReport};

/// The metrics that have a value, set by set; then those that have none, and why.
pub(super) fn table(report: &StatReport, style: &Style) -> String {
    let (known, unknown): (Vec<_>, Vec<_>) =
        report.metrics.iter().partition(|metric| metric.figure.as_number().is_some());
    let tier = tiers(known.iter().map(|metric| &metric.figure));
    let mut grid = Grid::new(&["set", "metric", ">value", "unit", "computed as"]);
    let mut set = None;
    for metric in &known {
        let is_new = set.replace(&metric.set) != Some(&metric.set);
        grid.row(vec![
            if is_new { metric.set.clone() } else { String::new() },
            metric.name.clone(),
            with_error(&metric.figure, significant),
            metric.figure.unit.clone(),
            metric.formula.clone(),
        ]);
    }
    let mut text = grid.render(style);
    if !known.is_empty() && !tier.is_empty() {
        text += &labelled("", Paint::Head, &format!("tier {tier}"), style);
    }
    text + &missing(&unknown, style)
}

/// Why metrics have no value, each reason once.
fn missing(metrics: &[&MetricValue], style: &Style) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for metric in metrics {
        let why = reason(&metric.figure);
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

/// What each metric tells, and what it does not.
pub(super) fn explained(report: &StatReport, style: &Style) -> String {
    let tell = |metric: &MetricValue| {
        let text = format!("{} = {}. {}", metric.name, metric.formula, metric.prose);
        labelled("", Paint::Head, &clean(&text), style)
    };
    report.metrics.iter().map(tell).collect()
}
