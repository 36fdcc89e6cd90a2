// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats reports as plain lines. Tables need a library that requires a newer compiler
//! (docs/decisions/0106-probe-prints-lines.md).

use crate::advice::FOREIGN;
use linerate_record::Tier;
use linerate_record::doctor::{DoctorReport, Observation, TierState};
use linerate_record::figure::{Figure, Scalar};
use linerate_record::memory::MemoryReport;
use linerate_record::stat::{EventCount, MetricValue, StatReport};
use std::fmt::Write;

/// Width of the column of names.
const NAME: usize = 22;
/// Width of the column of values.
const VALUE: usize = 18;

/// Formats one line per event and metric: name, value, unit, error, and the fraction of the time
/// for which it was counted.
pub(crate) fn stat(report: &StatReport) -> String {
    let mut text = String::new();
    for event in &report.events {
        counted(&mut text, event);
    }
    for MetricValue { name, figure, .. } in &report.metrics {
        line(&mut text, name, figure, "", None);
    }
    let _ = writeln!(text, "{:NAME$} {:>VALUE$.6} s", "elapsed_s", report.elapsed_s);
    text
}

fn counted(text: &mut String, event: &EventCount) {
    let EventCount { name, count, duty, per_unit, fix, .. } = event;
    let duty = match duty {
        Some(share) if *share < 1.0 => format!(", {:.1} % of the time", share * 100.0),
        _ => String::new(),
    };
    line(text, name, count, &duty, fix.as_deref());
    if let Some(per_unit) = per_unit {
        line(text, "  per unit of work", per_unit, "", None);
    }
}

fn line(text: &mut String, name: &str, figure: &Figure, rest: &str, fix: Option<&str>) {
    let unit = &figure.unit;
    // Writing to a string cannot fail.
    let _ = match (&figure.value, figure.reason.as_deref()) {
        (Scalar::Number(value), _) => {
            let value =
                if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.4}") };
            let error = error(figure).map_or(String::new(), |error| format!(" +- {error:.2} %"));
            writeln!(text, "{name:NAME$} {value:>VALUE$} {unit}{error}{rest}")
        }
        (Scalar::Text(value), _) => writeln!(text, "{name:NAME$} {value:>VALUE$}{rest}"),
        (Scalar::Absent, reason) => {
            let reason = reason.unwrap_or("unknown");
            writeln!(text, "{name:NAME$} {:>VALUE$} {}", "-", advised(reason, fix))
        }
    };
}

/// Returns half the width of the interval relative to the value, in percent.
fn error(figure: &Figure) -> Option<f64> {
    let value = figure.as_number().filter(|value| *value != 0.0)?;
    Some((figure.high? - figure.low?) / 2.0 / value.abs() * 100.0)
}

/// Returns a sentence, followed by the suggested command if there is one.
pub(crate) fn advised(sentence: &str, fix: Option<&str>) -> String {
    match fix {
        Some(fix) => format!("{sentence}; try: {fix}"),
        None => sentence.to_owned(),
    }
}

/// Formats one line per tier that the probe supports, then one per check of the features that it
/// uses.
pub(crate) fn doctor(report: &DoctorReport) -> String {
    let mut text = String::new();
    let is_own = |state: &&TierState| !matches!(state.tier, Tier::Sim | Tier::Model);
    for TierState { tier, way, works, sentence, fix, .. } in report.tiers.iter().filter(is_own) {
        let way = way.as_ref().map(|way| format!(" {way}")).unwrap_or_default();
        let tier = format!("{tier:?}").to_lowercase() + &way;
        let works = if *works { "works" } else { "-" };
        let _ = writeln!(text, "{tier:6} {works:6} {}", advised(sentence, fix.as_deref()));
    }
    let is_own = |seen: &&Observation| !FOREIGN.contains(&seen.name.as_str());
    for Observation { name, value, sentence, fix, .. } in report.observations.iter().filter(is_own)
    {
        let value = value.as_deref().unwrap_or("-");
        let _ = writeln!(text, "{name}: {value}: {}", advised(sentence, fix.as_deref()));
    }
    text
}

/// Formats lines for each cache level, each TLB level, the core clock, the noise and the pages,
/// followed by one line per value that could not be determined.
pub(crate) fn memory(report: &MemoryReport) -> String {
    let mut text = String::new();
    for level in &report.levels {
        for (what, figure) in [
            ("size", &level.size_bytes),
            ("latency", &level.latency_ns),
            ("latency", &level.latency_cycles),
        ] {
            line(&mut text, &format!("{} {what}", level.name), figure, "", None);
        }
    }
    for level in &report.tlb {
        for (what, figure) in
            [("entries", &level.entries), ("half", &level.half), ("miss", &level.cost_ns)]
        {
            line(&mut text, &format!("{} {what}", level.name), figure, "", None);
        }
    }
    line(&mut text, "core clock", &report.timer.core_ghz, "", None);
    line(&mut text, "time lost to interruptions", &report.noise.lost, "", None);
    let _ = writeln!(text, "pages: {}", report.pages.sentence);
    for part in &report.unresolved {
        let _ = writeln!(text, "undetermined: {}", part.sentence);
    }
    text
}
