// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resolves a request's names to events and metrics.

use crate::{Per, Request, StatError};
use linerate_counters::catalog::{Catalog, NameError};
use linerate_counters::event::{Class, Event};
use linerate_counters::metrics::{self, Formula, Metric, MetricSet};
use linerate_doctor::refusal::{self, Cause, Explanation};
use linerate_record::Tier;

/// Event that is also counted whenever counts by function are requested.
const INSTRUCTIONS: &str = "instructions";

/// A requested event.
#[derive(Clone, Debug)]
pub(crate) struct RequestedEvent {
    /// Event name in the report.
    pub(crate) name: String,
    /// The processor's own name and code for the event.
    pub(crate) native: Option<String>,
    /// Unit of the count.
    pub(crate) unit: &'static str,
    /// The event, or why it cannot be opened.
    pub(crate) event: Result<Event, Explanation>,
}

/// A requested metric.
#[derive(Clone, Debug)]
pub(crate) struct RequestedMetric {
    /// Metric set.
    pub(crate) set: &'static str,
    /// Definition.
    pub(crate) metric: &'static Metric,
    /// Formula over the requested events.
    pub(crate) formula: Formula,
}

/// All requested events and metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requested {
    /// Requested events, deduplicated.
    pub(crate) events: Vec<RequestedEvent>,
    /// Requested metrics, deduplicated.
    pub(crate) metrics: Vec<RequestedMetric>,
    /// Index of the event that is the unit of work.
    pub(crate) unit: Option<usize>,
}

impl Requested {
    /// Resolves every name. Unknown names are an error; events that cannot be counted on this
    /// machine are kept, with the reason.
    pub(crate) fn resolve(request: &Request, catalog: &Catalog) -> Result<Self, StatError> {
        let mut asked = Self::default();
        let mut wrong = Vec::new();
        for name in &request.events {
            if let Err(error) = asked.add(name, request.tier, catalog) {
                wrong.push(error.to_string());
            }
        }
        if !wrong.is_empty() {
            return Err(StatError::UnknownName { reason: wrong.join("\n") });
        }
        for set in sets(request)? {
            for name in set.events {
                asked.add(name, request.tier, catalog)?;
            }
            for metric in set.metrics {
                asked.add_metric(set.name, metric);
            }
        }
        if let Some(Per::Event(name)) = &request.per {
            asked.unit = Some(asked.add(name, request.tier, catalog)?);
        }
        if let Some(name) = &request.hot {
            asked.add(name, request.tier, catalog)?;
            asked.add(INSTRUCTIONS, request.tier, catalog)?;
        }
        Ok(asked)
    }

    /// Returns the index of the event with this name.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.events.iter().position(|event| event.name == name)
    }

    /// Returns the event names, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.events.iter().map(|event| event.name.clone()).collect()
    }

    fn add(
        &mut self,
        name: &str,
        tier: Option<Tier>,
        catalog: &Catalog,
    ) -> Result<usize, StatError> {
        let event = requested_event(name, tier, catalog)?;
        Ok(self.place(&event.name).unwrap_or_else(|| {
            self.events.push(event);
            self.events.len() - 1
        }))
    }

    fn add_metric(&mut self, set: &'static str, metric: &'static Metric) {
        let is_new = self.metrics.iter().all(|asked| asked.metric.name != metric.name);
        if let (true, Ok(formula)) = (is_new, Formula::parse(metric.formula)) {
            self.metrics.push(RequestedMetric { set, metric, formula });
        }
    }
}

/// Returns the requested sets, or the defaults for the tier if neither sets nor events were
/// requested.
fn sets(request: &Request) -> Result<Vec<&'static MetricSet>, StatError> {
    let unknown = |error: metrics::UnknownSet| StatError::UnknownName { reason: error.to_string() };
    let names: Vec<&str> = match (request.events.is_empty(), request.sets.is_empty()) {
        (true, true) if request.tier == Some(Tier::Sim) => super::SIMULATED_SETS.to_vec(),
        (true, true) => vec![super::DEFAULT_SET],
        _ => request.sets.iter().map(String::as_str).collect(),
    };
    names.into_iter().map(|name| metrics::set(name).map_err(unknown)).collect()
}

fn requested_event(
    name: &str,
    tier: Option<Tier>,
    catalog: &Catalog,
) -> Result<RequestedEvent, StatError> {
    let refused = |refusal: Explanation| {
        let (name, unit) = (name.to_owned(), "events");
        Ok(RequestedEvent { name, native: None, unit, event: Err(refusal) })
    };
    match catalog.resolve(name) {
        Ok(event) => Ok(RequestedEvent {
            name: event.name.clone(),
            native: event.native.clone(),
            unit: event.unit,
            event: of_tier(event, tier),
        }),
        Err(NameError::NotInTable { reason, table, .. }) => {
            refused(refusal::not_in_table(name, table, &reason))
        }
        Err(NameError::NoTracefs { reason: sentence, fix, .. }) => {
            refused(Explanation { cause: Cause::Other, sentence, fix: Some(fix.to_owned()) })
        }
        Err(NameError::NoUnit { reason: sentence, nearest, .. }) => {
            let fix = nearest.first().map_or_else(
                || "linerate doctor".to_owned(),
                |name| format!("linerate stat -e {name} -- COMMAND"),
            );
            refused(Explanation { cause: Cause::NoPmuDriver, sentence, fix: Some(fix) })
        }
        Err(error @ (NameError::Unknown { .. } | NameError::Malformed { .. })) => {
            Err(StatError::UnknownName { reason: error.to_string() })
        }
    }
}

/// Returns the event, unless the requested tier excludes it.
fn of_tier(event: Event, tier: Option<Tier>) -> Result<Event, Explanation> {
    if tier == Some(Tier::Sw) && event.class == Class::Hardware {
        let sentence = "the requested tier `sw` has no hardware events".to_owned();
        let fix = Some("drop --tier sw".to_owned());
        return Err(Explanation { cause: Cause::Other, sentence, fix });
    }
    Ok(event)
}
