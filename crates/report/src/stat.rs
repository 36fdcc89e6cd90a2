// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counter report: events, metrics, and reasons for missing ones.
//!
//! Scaled counts are in brackets with their error, next to the raw counts. A missing count is shown
//! as `-`; the reason and a fix are below the table.

mod baseline;
mod columns;
mod events;
mod metrics;
mod rows;
mod rpistat;

use crate::layout::{LABEL_COLUMNS, Paint, labelled, limited, stacked};
use crate::value::{clean, significant};
use crate::{Detail, Style};
use linerate_record::stat::{CacheShape, ExitStatus, StatReport, StatTarget};
use linerate_record::units::{Nanos, signal_name, three_digits};
use linerate_record::{Figure, Tier};
pub use rows::interval_line;
pub use rpistat::rpistat;

/// Formats the report of `linerate stat`. With [`Detail::Full`], every metric is explained.
pub fn stat(report: &StatReport, detail: Detail, style: &Style) -> String {
    let explain = detail == Detail::Full;
    stacked(&[
        head(report, style),
        events::table(report, style) + &events::missing(report, style),
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
    let missing = events::missing(report, style);
    stacked(&[
        counted + &ended + &times + &line("tier", &tier(report), style),
        limited(&baseline::block(report, style), 10),
        limited(&events::table(report, style), 14) + &limited(&missing, 5),
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
        let (name, i1, d1, ll) =
            (&caches.name, shape(caches.i1), shape(caches.d1), shape(caches.ll));
        let text = format!("of {name}: I1 {i1}; D1 {d1}; last level {ll}");
        lines += &line("caches", &text, style);
        lines += &note(&caches.note, style);
    }
    lines += &line("elapsed", &elapsed(report), style);
    lines + &rotation(report, style)
}

/// Formats a text under the label above it; empty if there is none.
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
            let word = if cpus.len() == 1 { "processor" } else { "processors" };
            format!("everything on {word} {}", list(cpus))
        }
    }
}

/// Cuts a text to `columns` columns. The record has the full text.
fn cut(text: &str, columns: usize) -> String {
    const MORE: &str = " ...";
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let kept = columns.saturating_sub(MORE.len());
    text.chars().take(kept).collect::<String>() + MORE
}

fn target(report: &StatReport, style: &Style) -> String {
    let mut text = target_of(&report.target, style);
    if report.repetitions > 1 {
        text += &format!(", {} times: counts are medians of the runs", report.repetitions);
    }
    text
}

/// Formats the exit status, if notable.
fn end(report: &StatReport) -> String {
    let mut texts = Vec::new();
    match report.ended {
        Some(ExitStatus { signal: Some(signal), .. }) => {
            let name = signal_name(signal).map_or(String::new(), |name| format!(" ({name})"));
            texts.push(format!("killed by signal {signal}{name}"));
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
            Tier::Sim => "the command got SIGTERM and was counted until it exited",
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

/// Quotes a command for a shell.
fn command_line(argv: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=,:@%".contains(c);
    let quoted = |word: &String| match word {
        word if word.chars().any(char::is_control) => escaped(word),
        word if !word.is_empty() && word.chars().all(plain) => word.clone(),
        word => format!("'{}'", word.replace('\'', r"'\''")),
    };
    argv.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Quotes a word with control characters in the syntax of bash(1), ksh(1) and zsh(1): `$'a\nb'`.
fn escaped(word: &str) -> String {
    let escape = |c: char| match c {
        '\n' => r"\n".to_owned(),
        '\t' => r"\t".to_owned(),
        '\'' | '\\' => format!("\\{c}"),
        c if c.is_control() => c.to_string().bytes().map(|b| format!("\\x{b:02x}")).collect(),
        c => c.to_string(),
    };
    format!("$'{}'", word.chars().map(escape).collect::<String>())
}

fn tier(report: &StatReport) -> String {
    let what = match report.tier {
        Tier::Hw => "hw: hardware counters, kernel and user mode",
        Tier::User => "user: hardware counters, user mode only",
        Tier::Sw => "sw: kernel events and clocks, no hardware counters",
        Tier::Sim => {
            "sim: simulated by Valgrind with the caches below; counts are the model's, times the \
             simulator's"
        }
        Tier::Model => "model: computed, not counted",
    };
    let why = if report.tier_asked { "as requested" } else { "the best available here" };
    let table = match (report.tier, report.is_known_processor) {
        (Tier::Hw | Tier::User, true) => format!("; event table {}", report.event_table),
        (Tier::Hw | Tier::User, false) => format!(
            "; event table {}: no table for this processor, generic events only",
            report.event_table
        ),
        _ => String::new(),
    };
    format!("{what} ({why}){table}")
}

/// `32 KiB, 8 ways, lines of 64`.
fn shape(cache: CacheShape) -> String {
    let size = match cache.bytes {
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => {
            format!("{} MiB", bytes >> 20)
        }
        bytes if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} bytes"),
    };
    let ways = if cache.ways == 1 { "1 way".to_owned() } else { format!("{} ways", cache.ways) };
    format!("{size}, {ways}, {}-byte lines", cache.line_bytes)
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
        text += &format!("; {} processors used", significant(cpus));
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
        "{sets} event sets in slices of about {ms} ms in random order, {slices} in total; [in \
         brackets]: extrapolated to the whole time, scaled by {}{}",
        rotation.scaled_by,
        confidence(report).map_or_else(String::new, |c| format!(", ± the {c} % interval"))
    );
    line("rotation", &text, style)
}

/// Returns the confidence level of the counts in percent, if any count has an interval.
fn confidence(report: &StatReport) -> Option<String> {
    let confidence = report.events.iter().find_map(|event| event.count.confidence)?;
    Some(three_digits(confidence * 100.0))
}

/// Formats half the interval relative to the value, as `0.8 %`; the larger half if asymmetric.
/// `None` unless both ends are known.
fn error(figure: &Figure) -> Option<String> {
    let (value, low, high) = (figure.as_number()?, figure.low?, figure.high?);
    let half = (value - low).max(high - value).max(0.0);
    match value {
        0.0 => Some(significant(half)),
        value => Some(format!("{} %", significant_percent(half / value.abs()))),
    }
}

/// Formats a share in percent, to two significant digits.
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

    #[test]
    fn a_command_is_quoted_as_a_shell_reads_it_back() {
        let shown = |word: &str| command_line(&[word.to_owned()]);
        assert_eq!(shown("a'b c"), r"'a'\''b c'");
        assert_eq!(shown("a\nb\t'\\\x1b[\u{85}"), r"$'a\nb\t\'\\\x1b[\xc2\x85'");
    }

    #[test]
    fn caches_are_named_by_the_largest_whole_unit() {
        let cache = |bytes, ways| shape(CacheShape { bytes, ways, line_bytes: 64 });
        assert_eq!(cache(32 << 10, 8), "32 KiB, 8 ways, lines of 64");
        assert_eq!(cache(32 << 20, 1), "32 MiB, 1 way, lines of 64");
        assert_eq!(cache(1_310_720, 5), "1280 KiB, 5 ways, lines of 64");
    }
}
