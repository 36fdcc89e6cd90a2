// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate stat --list`: available events and metric sets.

use linerate_counters::catalog::{Catalog, EventInfo};
use linerate_counters::event::Class;
use linerate_counters::metrics::{self, Metric, MetricSet};
use linerate_report::{Style, paragraph};
use serde_json::{Value, json};

/// Returns the list, as tables or as JSON.
pub(super) fn list(is_json: bool, style: &Style) -> String {
    let catalog = Catalog::of_this_machine();
    match is_json {
        true => format!("{:#}\n", as_json(&catalog)),
        false => as_text(&catalog, style),
    }
}

fn class(event: &EventInfo) -> &'static str {
    match event.class {
        Class::Hardware => "hardware",
        Class::Software => "software",
        Class::Tracepoint => "tracepoint",
    }
}

fn as_json(catalog: &Catalog) -> Value {
    let event = |event: &EventInfo| {
        json!({
            "name": event.name,
            "native": event.native,
            "class": class(event),
            "prose": event.prose,
            "absent": event.absent,
        })
    };
    let metric = |metric: &Metric| {
        json!({
            "name": metric.name,
            "formula": metric.formula,
            "unit": metric.unit,
            "prose": metric.prose,
            "limits": metric.limits,
        })
    };
    let set = |set: &MetricSet| {
        let metrics: Vec<Value> = set.metrics.iter().map(metric).collect();
        json!({ "name": set.name, "prose": set.prose, "events": set.events, "metrics": metrics })
    };
    json!({
        "event_table": catalog.table(),
        "is_known_processor": catalog.is_known_processor(),
        "events": catalog.list().iter().map(event).collect::<Vec<_>>(),
        "sets": metrics::sets().iter().map(set).collect::<Vec<_>>(),
    })
}

/// Width of the column of names, in characters.
const NAME: usize = 24;

/// Indentation of the text below a name, in characters.
const INDENT: usize = 4;

fn as_text(catalog: &Catalog, style: &Style) -> String {
    let whose = match catalog.is_known_processor() {
        true => "from linerate's table for this processor",
        false => "only the kernel's generic events; linerate has no event table for this processor",
    };
    let head = format!("Hardware events ({}): {whose}", catalog.table());
    let mut text = paragraph(&head, 0, style);
    let events = catalog.list();
    let of = |class: Class| events.iter().filter(move |event| event.class == class);
    text.extend(of(Class::Hardware).map(|event| event_text(event, style)));
    text += "\nKernel events\n";
    text.extend(of(Class::Software).map(|event| event_text(event, style)));
    text += "\nMetric sets, for -m\n";
    text.extend(metrics::sets().iter().map(|set| set_text(set, style)));
    text
}

fn event_text(event: &EventInfo, style: &Style) -> String {
    let (native, tells) = match &event.absent {
        None => (event.native.unwrap_or_default().to_owned(), event.prose.to_owned()),
        Some(why) => ("not counted here".to_owned(), why.clone()),
    };
    named(event.name, &native, &tells, style)
}

fn set_text(set: &MetricSet, style: &Style) -> String {
    let metric = |metric: &Metric| {
        let computed = format!("= {}, {}", metric.formula, metric.unit);
        named(metric.name, &computed, &format!("{} {}", metric.prose, metric.limits), style)
    };
    let metrics: String = set.metrics.iter().map(metric).collect();
    format!("\n-m {}\n{}{metrics}", set.name, paragraph(set.prose, INDENT, style))
}

fn named(name: &str, what: &str, tells: &str, style: &Style) -> String {
    let line = format!("{name:NAME$}  {what}");
    format!("{}\n{}", line.trim_end(), paragraph(tells.trim_end(), INDENT, style))
}
