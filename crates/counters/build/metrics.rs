// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the metric sets, and checks that formulas are valid and use existing events, and that
//! names are unique.

use super::formula::Formula;
use super::{check_prose, parse};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetFile {
    /// Position of the set in the list of metric sets.
    rank: u32,
    prose: String,
    /// Events to count in addition to those in the formulas. They are listed first.
    #[serde(default)]
    events: Vec<String>,
    /// The set's metrics, in order. Each is defined in this file or another one.
    metrics: Vec<String>,
    #[serde(default)]
    define: BTreeMap<String, Metric>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Metric {
    formula: String,
    unit: String,
    prose: String,
    limits: String,
}

/// Returns the metric sets as Rust source. `names` are the portable event names.
pub(super) fn source(
    files: &BTreeMap<String, String>,
    names: &BTreeSet<String>,
) -> Result<String, String> {
    let mut sets = Vec::new();
    let mut defined = BTreeMap::new();
    for (name, text) in files {
        let file = format!("data/metrics/{name}.toml");
        let set: SetFile = parse(&file, text)?;
        check_prose(&file, &set.prose)?;
        for (metric, definition) in &set.define {
            let place = format!("{file}: define.{metric}");
            check_metric(&place, metric, definition, names)?;
            if defined.insert(metric.clone(), definition.clone()).is_some() {
                return Err(format!("{place}: also defined in another file"));
            }
        }
        sets.push((set.rank, name.clone(), file, set));
    }
    sets.sort_by_key(|(rank, ..)| *rank);
    let used: BTreeSet<_> = sets.iter().flat_map(|(.., set)| &set.metrics).collect();
    if let Some(unused) = defined.keys().find(|name| !used.contains(name)) {
        return Err(format!("data/metrics: define.{unused}: no set uses it"));
    }
    let mut source = String::from("const SETS: &[MetricSet] = &[\n");
    for (_, name, file, set) in &sets {
        source += &set_source(name, file, set, &defined, names)?;
    }
    Ok(source + "];\n")
}

fn check_metric(
    place: &str,
    name: &str,
    metric: &Metric,
    names: &BTreeSet<String>,
) -> Result<(), String> {
    if names.contains(name) {
        return Err(format!("{place}: an event already has this name"));
    }
    check_prose(&format!("{place}.prose"), &metric.prose)?;
    check_prose(&format!("{place}.limits"), &metric.limits)?;
    let place = format!("{place}.formula");
    let formula = Formula::parse(&metric.formula).map_err(|error| format!("{place}: {error}"))?;
    if let Some(name) = formula.events().into_iter().find(|name| !names.contains(*name)) {
        return Err(format!("{place}: no event is named `{name}`"));
    }
    match formula.value(|_| Some(1.0)) {
        Some(_) => Ok(()),
        None => Err(format!("{place}: has no value even if every count is 1")),
    }
}

fn set_source(
    name: &str,
    file: &str,
    set: &SetFile,
    defined: &BTreeMap<String, Metric>,
    names: &BTreeSet<String>,
) -> Result<String, String> {
    let mut events = Vec::new();
    for event in &set.events {
        match names.get(event) {
            Some(event) if !events.contains(event) => events.push(event.clone()),
            Some(_) => return Err(format!("{file}: events: `{event}` is listed twice")),
            None => return Err(format!("{file}: events: no event is named `{event}`")),
        }
    }
    let mut metrics = String::new();
    for metric in &set.metrics {
        let unknown = || format!("{file}: metrics: `{metric}` is not defined");
        let Metric { formula, unit, prose, limits } = defined.get(metric).ok_or_else(unknown)?;
        metrics += &format!(
            "Metric {{ name: {metric:?}, formula: {formula:?}, unit: {unit:?}, prose: {prose:?}, \
             limits: {limits:?} }},\n"
        );
        let parsed = Formula::parse(formula).map_err(|error| error.to_string())?;
        for event in parsed.events() {
            if !events.iter().any(|known| known == event) {
                events.push(event.to_owned());
            }
        }
    }
    let prose = &set.prose;
    Ok(format!(
        "MetricSet {{ name: {name:?}, prose: {prose:?}, events: &{events:?}, \
         metrics: &[\n{metrics}] }},\n"
    ))
}
