// SPDX-License-Identifier: MIT OR Apache-2.0
//! `linerate stat --list`: the events and the sets of metrics that there are here.

use linerate_counters::catalog::{Catalog, EventInfo};
use linerate_counters::event::Class;
use linerate_counters::metrics::{self, Metric, MetricSet};
use linerate_report::{Style, paragraph, table};
use serde_json::{Value, json};

/// The list, as tables or as JSON.
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

fn as_text(catalog: &Catalog, style: &Style) -> String {
    let events = catalog.list();
    let of = |class: Class| {
        let here = events.iter().filter(move |e| e.class == class && e.absent.is_none());
        here.map(|event| {
            vec![
                event.name.to_owned(),
                event.native.unwrap_or_default().to_owned(),
                event.prose.to_owned(),
            ]
        })
    };
    let absent = events.iter().filter_map(|event| {
        let why = event.absent.as_deref()?;
        Some(vec![event.name.to_owned(), why.to_owned()])
    });
    let hardware = format!("hardware, table {}", catalog.table());
    let mut blocks = vec![
        table(&[&hardware, "native", "counts"], of(Class::Hardware), style),
        table(&["not counted here", "because"], absent, style),
        table(&["kernel", "native", "counts"], of(Class::Software), style),
    ];
    if !catalog.is_known_processor() {
        const UNKNOWN: &str = "This processor has no table of its own: the events above are those \
                               that the kernel defines for all.";
        blocks.insert(1, paragraph(UNKNOWN, style));
    }
    for set in metrics::sets() {
        let tells = |metric: &Metric| format!("{} {}", metric.prose, metric.limits);
        let rows = set.metrics.iter().map(|metric| {
            vec![metric.name.to_owned(), metric.formula.to_owned(), tells(metric).trim().to_owned()]
        });
        let head = format!("-m {}", set.name);
        let metrics = table(&[&head, "computed as", "tells"], rows, style);
        blocks.push(paragraph(set.prose, style) + &metrics);
    }
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n")
}
