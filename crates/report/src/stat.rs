// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of a `stat` record: events, metrics, and the reasons for missing ones.
//!
//! Scaled counts are in brackets next to the raw counts, followed by their error. A missing count
//! is shown as `-`, with the reason and a fix below the table.

mod baseline;
mod caches;
mod columns;
mod events;
mod hot;
mod metrics;
mod rows;
mod rpistat;

use crate::layout::{LABEL_COLUMNS, Paint, labelled, limited, stacked};
use crate::value::{clean, cut, significant};
use crate::{Detail, Style};
use linerate_record::shell::command_line;
use linerate_record::stat::{ExitStatus, StatReport, StatTarget};
use linerate_record::units::{Nanos, signal_name, three_digits};
use linerate_record::{Figure, Tier};
pub use rows::interval_line;
pub use rpistat::rpistat;

/// Formats the report of `linerate stat`. [`Detail::Full`] explains every metric.
pub fn stat(report: &StatReport, detail: Detail, style: &Style) -> String {
    let explain = detail == Detail::Full;
    stacked(&[
        head(report, style),
        events::table(report, style) + &events::missing(report, style),
        hot::table(report, hot::MOST, style),
        metrics::table(report, style),
        if explain { metrics::explained(report, style) } else { String::new() },
        rows::intervals(report, style),
        rows::threads(report, style),
        baseline::block(report, style),
    ])
}

/// Formats one screen: target, events, metrics.
pub(crate) fn screen(report: &StatReport, style: &Style) -> String {
    let counted = line("counted", &target(report, style), style);
    let end = end(report);
    let ended = if end.is_empty() { String::new() } else { line("ended", &end, style) };
    let times = line("elapsed", &elapsed(report), style);
    let caches = report.caches.as_ref();
    let caches = caches.map_or_else(String::new, |caches| caches::named(caches, style));
    let missing = events::missing(report, style);
    stacked(&[
        counted + &ended + &times + &line("tier", &tier(report), style) + &caches,
        limited(&baseline::block(report, style), 10),
        limited(&events::table(report, style), 14) + &limited(&missing, 9),
        hot::table(report, hot::ON_SCREEN, style),
        limited(&metrics::table(report, style), 12),
        limited(&rows::threads(report, style), 8),
    ])
}

fn line(label: &str, text: &str, style: &Style) -> String {
    labelled(label, Paint::Head, &clean(text), style)
}

fn head(report: &StatReport, style: &Style) -> String {
    let mut lines = line("counted", &target(report, style), style);
    let end = end(report);
    if !end.is_empty() {
        lines += &line("ended", &end, style);
    }
    lines += &line("tier", &tier(report), style);
    if let Some(caches) = &report.caches {
        lines += &caches::lines(caches, style);
    }
    lines += &line("elapsed", &elapsed(report), style);
    lines + &rotation(report, style)
}

/// Formats `text`, aligned with the labelled text above it; empty if `text` is empty.
fn note(text: &str, style: &Style) -> String {
    if text.is_empty() { String::new() } else { line("", text, style) }
}

fn target_of(target: &StatTarget, style: &Style) -> String {
    match target {
        StatTarget::Command { argv } => {
            let room = style.width.saturating_sub(LABEL_COLUMNS + 2);
            format!("`{}`", cut(&command_line(argv), room))
        }
        StatTarget::Process { pid } => format!("process {pid}"),
        StatTarget::Cpus { cpus } => {
            let word = if cpus.len() == 1 { "CPU" } else { "CPUs" };
            format!("everything on {word} {}", list(cpus))
        }
    }
}

fn target(report: &StatReport, style: &Style) -> String {
    let mut text = target_of(&report.target, style);
    if report.repetitions > 1 {
        text += &format!(", run {} times; counts are medians over the runs", report.repetitions);
    }
    text
}

/// Formats the signal that ended a command: `killed by signal 9 (SIGKILL)`.
pub(crate) fn killed_by(signal: i32) -> String {
    let name = signal_name(signal).map_or(String::new(), |name| format!(" ({name})"));
    format!("killed by signal {signal}{name}")
}

/// Formats the exit status if it is noteworthy.
fn end(report: &StatReport) -> String {
    let mut texts = Vec::new();
    match report.ended {
        Some(ExitStatus { signal: Some(signal), .. }) => {
            texts.push(killed_by(signal));
        }
        Some(ExitStatus { status: Some(status), .. }) if status != 0 => {
            texts.push(format!("with status {status}"));
        }
        _ => {}
    }
    if report.repetitions > 1 {
        texts.iter_mut().for_each(|text| *text += ", in at least one run");
    }
    if report.is_time_up {
        let counted = match report.tier {
            Tier::Sim => "the command was sent SIGTERM and counted until it exited",
            _ => "counting stopped then",
        };
        texts.push(format!("the --time limit was reached: {counted}"));
    }
    if report.interrupted {
        let counted = match report.repetitions {
            0 | 1 => "counts cover the time until then",
            _ => "counts cover the completed runs",
        };
        texts.push(format!("interrupted: {counted}"));
    }
    texts.join("; ")
}

fn list(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

fn tier(report: &StatReport) -> String {
    let what = match report.tier {
        Tier::Hw => "hw: hardware counters, kernel and user mode",
        Tier::User => "user: hardware counters, user mode only",
        Tier::Sw => "sw: kernel events and clocks, no hardware counters",
        Tier::Sim => &format!(
            "sim: simulated {}; counts are simulated, times are the simulator's own",
            caches::simulator(report.caches.as_ref())
        ),
        Tier::Model => "model: computed, not counted",
    };
    let why = if report.tier_asked { "as requested" } else { "the best available here" };
    let table = match (report.tier, report.is_known_processor) {
        (Tier::Hw | Tier::User, true) => format!("; event table {}", report.event_table),
        (Tier::Hw | Tier::User, false) => format!(
            "; event table {} with only generic events, since linerate has no table for this \
             processor",
            report.event_table
        ),
        _ => String::new(),
    };
    format!("{what} ({why}){table}")
}

fn elapsed(report: &StatReport) -> String {
    let figure = |name: &str| report.times.get(name).and_then(Figure::as_number);
    let time = |seconds: f64| Nanos(seconds * 1e9).to_string();
    let each = figure("elapsed_s").filter(|_| report.repetitions > 1);
    let mut text = match each {
        Some(seconds) => format!("{} a run", time(seconds)),
        None => time(report.elapsed_s),
    };
    for (name, what) in [("user_s", "user"), ("system_s", "system")] {
        if let Some(seconds) = figure(name) {
            text += &format!(", {} {what}", time(seconds));
        }
    }
    if let Some(cpus) = figure("cpus_used") {
        text += &format!("; {} CPUs used", significant(cpus));
    }
    if each.is_some() {
        text += &format!("; {} in all", time(report.elapsed_s));
    }
    if let Some(reason) = report.times.get("elapsed_s").and_then(|figure| figure.reason.as_deref())
    {
        text += &format!("; {reason}");
    }
    text
}

fn rotation(report: &StatReport, style: &Style) -> String {
    let Some(rotation) = &report.rotation else { return String::new() };
    let ms = three_digits(rotation.slice_ns as f64 / 1e6);
    let (sets, slices) = (rotation.sets.len(), crate::value::count(rotation.slices));
    let text = format!(
        "{sets} event sets are multiplexed in {slices} slices of about {ms} ms in random order; \
         counts in [brackets] are scaled up to the whole run in proportion to {}{}",
        rotation.scaled_by,
        confidence(report).map_or_else(String::new, |c| format!("; ± is the {c} % interval"))
    );
    line("rotation", &text, style)
}

/// Returns the confidence level in percent if any count has an interval.
fn confidence(report: &StatReport) -> Option<String> {
    let confidence = report.events.iter().find_map(|event| event.count.confidence)?;
    Some(three_digits(confidence * 100.0))
}

/// Formats the half-width of the interval relative to the value: `0.8 %`. Uses the larger half if
/// the interval is asymmetric. `None` unless both ends are known.
fn error(figure: &Figure) -> Option<String> {
    let (value, low, high) = (figure.as_number()?, figure.low?, figure.high?);
    let half = (value - low).max(high - value).max(0.0);
    match value {
        0.0 => Some(significant(half)),
        value => Some(format!("{} %", significant_percent(half / value.abs()))),
    }
}

/// Formats a share as a percentage with two significant digits.
fn significant_percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent >= 10.0 => format!("{percent:.0}"),
        percent if percent >= 0.1 => format!("{percent:.1}"),
        percent if percent > 0.0 => "<0.1".to_owned(),
        _ => "0".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::stats::Estimate;

    fn within(value: f64, low: f64, high: f64) -> Figure {
        let estimate = Estimate { value, low, high, confidence: 0.95, n: 9 };
        Figure::number("events", estimate, Tier::Hw, "test")
    }

    #[test]
    fn an_error_is_the_larger_half_of_the_interval() {
        let text = |value, low, high| error(&within(value, low, high));
        assert_eq!(text(1000.0, 992.0, 1004.0).as_deref(), Some("0.8 %"));
        assert_eq!(text(1000.0, 990.0, 1250.0).as_deref(), Some("25 %"));
        assert_eq!(text(1e9, 1e9 - 3.0, 1e9).as_deref(), Some("<0.1 %"));
        assert_eq!(text(7.0, 7.0, 7.0).as_deref(), Some("0 %"));
        assert_eq!(text(0.0, 0.0, 12.0).as_deref(), Some("12"));
        assert_eq!(text(5.0, 1.0, f64::INFINITY), None);
        assert_eq!(error(&Figure::exact("events", 5.0, Tier::Hw, "test")), None);
    }
}
