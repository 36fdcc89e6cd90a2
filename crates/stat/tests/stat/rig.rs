// SPDX-License-Identifier: MIT OR Apache-2.0
//! Test helpers: requests, simulated kernels that refuse events, and files for the commands.

use linerate_counters::catalog::Catalog;
use linerate_counters::opener::Opener;
use linerate_counters::scripted::{Scripted, full};
use linerate_doctor::host_facts::{Facts, HostFacts};
use linerate_linux::errno::EINVAL;
use linerate_linux::perf::{self, HARDWARE, SOFTWARE, Selector};
use linerate_linux::signal::Pending;
use linerate_machine::identity::Identity;
use linerate_record::Derive;
use linerate_record::Figure;
use linerate_record::stat::EventCount;
use linerate_stat::{Outcome, Progress, Request, StatError, Watch, What};
use std::path::Path;

pub(crate) fn command(argv: &[&str]) -> Request {
    Request::new(What::Command { argv: argv.iter().map(Into::into).collect() })
}

pub(crate) fn shell(script: &str) -> Request {
    command(&["sh", "-c", script])
}

pub(crate) fn events(request: Request, names: &[&str]) -> Request {
    Request { events: names.iter().map(|&name| name.to_owned()).collect(), ..request }
}

/// Runs a request as `linerate stat` does.
pub(crate) fn run(request: &Request) -> Outcome {
    request.run(&watch(&Pending::new())).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn error(request: &Request) -> StatError {
    request.run(&watch(&Pending::new())).map(|outcome| outcome.report).unwrap_err()
}

pub(crate) fn watch(signals: &Pending) -> Watch<'_> {
    fn ignore(_: Progress<'_>) {}
    Watch { signals, tell: &ignore }
}

/// Runs a request with another kernel, on a processor without an event table.
pub(crate) fn run_with(request: &Request, opener: &dyn Opener) -> Result<Outcome, StatError> {
    run_watched(request, opener, &watch(&Pending::new()))
}

/// Like [`run_with`], with a progress callback.
pub(crate) fn run_watched(
    request: &Request,
    opener: &dyn Opener,
    watch: &Watch<'_>,
) -> Result<Outcome, StatError> {
    let processor = Identity::Other { architecture: "none" };
    let catalog = Catalog::for_processor(&processor, Path::new("/sys"));
    let around = HostFacts::from_facts(Facts { has_units: true, ..Facts::default() });
    request.run_with(watch, opener, &around, &catalog)
}

/// Returns a simulated kernel with `counters` generic counters, each of which counts page faults.
pub(crate) fn pretending(counters: usize) -> impl Opener {
    Scripted::new(move |request: &perf::Request, group: &[Selector]| {
        grant(counters, request, group)
    })
}

/// Returns the reply of a kernel whose groups hold at most `counters` generic hardware events.
pub(crate) fn grant(counters: usize, request: &perf::Request, group: &[Selector]) -> Option<i32> {
    match request.selector.kind {
        SOFTWARE | HARDWARE => full(counters, request, group),
        _ => Some(EINVAL),
    }
}

pub(crate) fn event<'a>(outcome: &'a Outcome, name: &str) -> &'a EventCount {
    let mut events = outcome.report.events.iter();
    events.find(|event| event.name == name).unwrap_or_else(|| panic!("no event {name}"))
}

/// Returns one of the outcome's figures, deliberately leaked: figures are derived on each call, and
/// tests are short-lived.
pub(crate) fn figure(outcome: &Outcome, name: &str) -> &'static Figure {
    let figure = outcome.report.figures().remove(name);
    Box::leak(Box::new(figure.unwrap_or_else(|| panic!("no figure {name}"))))
}

#[track_caller]
pub(crate) fn number(figure: &Figure) -> f64 {
    figure.as_number().unwrap_or_else(|| panic!("{figure:?}"))
}
