// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resolves a request's names to events and metrics.

use crate::{Per, Request, StatError, What};
use linerate_counters::catalog::{Catalog, NameError};
use linerate_counters::event::{Class, Event};
use linerate_counters::metrics::{self, Formula, Metric, MetricSet};
use linerate_doctor::refusal::{self, Cause, Explanation};
use linerate_record::Tier;

/// The clock of threads. On whole CPUs, the kernel does not stop it while a CPU is idle.
pub(crate) const TASK_CLOCK: &str = "task_clock_ns";

/// The clock that is meant to run on idle CPUs.
const CPU_CLOCK: &str = "cpu_clock_ns";

/// Why [`TASK_CLOCK`] is not counted on whole CPUs.
pub(crate) const RUNS_IDLE: &str = "when whole CPUs are counted, this clock also runs while they \
                                    are idle";

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
    /// Name of the metric set that contains the metric.
    pub(crate) set: &'static str,
    /// Definition of the metric.
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
            if let Err(error) = asked.add(name, request, catalog) {
                wrong.push(error.to_string());
            }
        }
        if !wrong.is_empty() {
            return Err(StatError::UnknownName { reason: wrong.join("\n") });
        }
        for set in sets(request)? {
            for name in set.events {
                asked.add(of_target(name, &request.what), request, catalog)?;
            }
            for metric in set.metrics {
                asked.add_metric(set.name, metric);
            }
        }
        if let Some(Per::Event(name)) = &request.per {
            asked.unit = Some(asked.add(name, request, catalog)?);
        }
        if let Some(name) = &request.hot {
            asked.add(name, request, catalog)?;
            asked.add(INSTRUCTIONS, request, catalog)?;
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
        request: &Request,
        catalog: &Catalog,
    ) -> Result<usize, StatError> {
        let event = requested_event(name, request, catalog)?;
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

/// Returns the name of the event that is counted in place of the event `name` of a metric set: on
/// whole CPUs, the CPU clock instead of the task clock; otherwise, `name` itself.
fn of_target<'a>(name: &'a str, what: &What) -> &'a str {
    match what {
        What::Cpus(_) if name == TASK_CLOCK => CPU_CLOCK,
        _ => name,
    }
}

fn requested_event(
    name: &str,
    request: &Request,
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
            event: of_request(event, request),
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

/// Returns the event, unless the requested tier excludes it, or whole CPUs are counted and it is
/// the task clock, which does not stop while a CPU is idle.
fn of_request(event: Event, request: &Request) -> Result<Event, Explanation> {
    let refused = |sentence: &str, fix: &str| {
        let fix = Some(fix.to_owned());
        Err(Explanation { cause: Cause::Other, sentence: sentence.to_owned(), fix })
    };
    match &request.what {
        _ if request.tier == Some(Tier::Sw) && event.class == Class::Hardware => {
            refused("the requested tier `sw` has no hardware events", "drop --tier sw")
        }
        What::Cpus(_) if event.name == TASK_CLOCK => refused(RUNS_IDLE, "-e cpu_clock_ns"),
        _ => Ok(event),
    }
}
