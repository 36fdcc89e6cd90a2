// SPDX-License-Identifier: MIT OR Apache-2.0
//! Building blocks for answers from different kinds of record.

use super::Inquiry;
use crate::budget::{self, line_of};
use linerate_record::answers::Evidence;
use linerate_record::run::{RunReport, StageReport};
use linerate_record::stats::Estimate;
use linerate_record::strands::StrandsReport;
use linerate_record::{Body, Figure};

/// Returns the run in a record, if it has one.
pub(super) fn run_of(body: &Body) -> Option<&RunReport> {
    match body {
        Body::Run(run) => Some(run),
        Body::Tune(tune) => Some(&tune.tuned),
        _ => None,
    }
}

/// Returns the strands in an imported record; `None` for other records.
pub(super) fn strands_of(body: &Body) -> Option<&StrandsReport> {
    match body {
        Body::Strands(strands) => Some(strands),
        _ => None,
    }
}

/// Quotes a figure as evidence; `None` if it has no value.
pub(super) fn quote(name: impl Into<String>, figure: &Figure) -> Option<Evidence> {
    let source = format!("tier {}", figure.tier.name());
    Some(Evidence::of(&name.into(), figure.estimate()?, &figure.unit, &source))
}

/// Creates evidence from a value in the record or derived from it.
pub(super) fn plain(name: impl Into<String>, value: f64, unit: &str, source: &str) -> Evidence {
    Evidence::of(&name.into(), Estimate::exactly(value), unit, source)
}

/// Returns the path's packet rate in packets per second, with evidence; `None` if the record has no
/// rate.
pub(super) fn rate(asked: &Inquiry<'_>) -> Option<(f64, Evidence)> {
    if let Some(run) = run_of(&asked.record.body) {
        let kpps = run.processed_kpps.as_number().filter(|kpps| *kpps > 0.0)?;
        return Some((kpps * 1e3, quote("processed", &run.processed_kpps)?));
    }
    if let Body::Why(why) = &asked.record.body {
        let observed = &why.observation;
        let count = observed.packets.as_ref()?;
        let rate = count.packets as f64 / observed.elapsed_s;
        let seen = plain("packets seen", rate, "packets/s", &count.counter);
        return (rate.is_finite() && rate > 0.0).then_some((rate, seen));
    }
    // In a pipeline, the slowest strand sets the rate.
    let strands = strands_of(&asked.record.body)?;
    let slowest = strands
        .strands
        .iter()
        .filter(|strand| strand.kpps.as_number().is_some_and(|kpps| kpps > 0.0))
        .min_by(|a, b| {
            let [a, b] = [a, b].map(|s| s.kpps.as_number().unwrap_or(f64::INFINITY));
            a.total_cmp(&b)
        })?;
    let kpps = slowest.kpps.as_number()?;
    Some((kpps * 1e3, quote(format!("rate of {}", slowest.label()), &slowest.kpps)?))
}

/// Returns the mean frame size in bytes, FCS included; `None` unless the record has a run with
/// packets.
pub(super) fn frame_bytes(asked: &Inquiry<'_>) -> Option<f64> {
    budget::frame_bytes(run_of(&asked.record.body)?)
}

/// Returns the line rate in bits per second: the given one, or the path's; `None` if neither is
/// known.
pub(super) fn line(asked: &Inquiry<'_>) -> Option<f64> {
    asked.line_bits_per_s.or_else(|| line_of(run_of(&asked.record.body)?))
}

/// Returns an event's count for a stage; `None` if the event was not counted.
pub(super) fn event<'a>(stage: &'a StageReport, name: &str) -> Option<&'a Figure> {
    stage.events.as_ref()?.get(name)
}
