// SPDX-License-Identifier: MIT OR Apache-2.0
//! A record's full text, for a terminal or as Markdown.

mod screen;

use crate::layout::{Paint, fenced, labelled};
use crate::value::{clean, quoted};
use crate::{Detail, Layout, Markup, Options, Sizes, Style, paragraph};
use linerate_record::derive::Flows;
use linerate_record::kernels::KernelsReport;
use linerate_record::run::{PacketsHome, RunReport};
use linerate_record::tcp::TcpReport;
use linerate_record::tune::TuneReport;
use linerate_record::units::{BitsPerSecond, Kpps, counted, three_digits};
use linerate_record::why::{Cause, WhyFinding};
use linerate_record::{Body, Record};

/// Minimum width for tables that can be split: a name and two numbers.
const NARROWEST: usize = 40;

/// Minimum width for tables that cannot be split. Narrower tables would wrap most cells, which is
/// worse than letting the terminal wrap lines.
const WHOLE: usize = 80;

/// Returns the text that the recording command printed, given the same options.
pub fn text(record: &Record, options: &Options) -> String {
    let narrow = &at_least(NARROWEST, options);
    let whole = &at_least(WHOLE, options);
    if options.detail == Detail::Screen && options.layout == Layout::Table {
        return screen::screen(record, narrow, whole, options);
    }
    match &record.body {
        Body::Run(report) => of_quota(report, record, whole) + &of_run(report, whole, narrow),
        Body::Tune(report) => {
            of_quota(&report.tuned, record, whole) + &of_tune(report, whole, narrow)
        }
        Body::Kernels(report) => crate::kernels(report, sizes(report, options), narrow),
        Body::Stat(report) => match options.layout {
            Layout::Rpistat => fenced(&crate::rpistat(report, &record.provenance), whole),
            _ => crate::stat(report, options.detail, whole),
        },
        Body::Doctor(report) => crate::doctor(report, narrow),
        Body::Regions(report) => crate::regions(report, whole),
        Body::Memory(report) => {
            crate::memory(report, &record.provenance, options.detail, options.glyphs, whole)
        }
        Body::Budget(report) => crate::budget(report, whole),
        Body::Strands(report) => crate::strands(report, whole),
        Body::Answers(report) => crate::answers(report, whole),
        Body::Plan(report) => crate::plan(report, whole),
        Body::Stream(report) => crate::stream(report, whole),
        Body::Tcp(report) => of_tcp(report, options.detail, whole),
        Body::Why(report) => crate::why(report, Detail::Full, whole),
        Body::Profile(report) => match options.layout {
            Layout::Icicle => crate::profile::icicle(report, options.detail, options.glyphs, whole),
            Layout::Annotated => crate::profile::annotated(report, options.detail, whole),
            Layout::Timeline => {
                crate::profile::timeline(report, options.detail, options.glyphs, whole)
            }
            Layout::Table | Layout::Rpistat => crate::profile(report, options.detail, whole),
        },
        Body::ProfileDiff(report) => crate::profile_diff(report, options.detail, whole),
    }
}

/// Returns a record as Markdown, for result pages: the command, then every table in full.
pub fn markdown(record: &Record, options: &Options) -> String {
    let style = Style { color: false, markup: Markup::Markdown, ..options.style };
    let detail = match options.detail {
        Detail::Screen => Detail::Brief,
        detail => detail,
    };
    let command = clean(&record.provenance.command);
    let warnings = crate::warnings(&record.warnings(), &style);
    let text = text(record, &Options { style, detail, ..*options });
    let text = format!("```\n{command}\n```\n\n{text}\n{warnings}");
    without_empty_runs(&text)
}

/// Collapses runs of empty lines and removes trailing ones.
fn without_empty_runs(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines() {
        if !line.is_empty() || lines.last().is_some_and(|last| !last.is_empty()) {
            lines.push(line);
        }
    }
    lines.join("\n").trim_end().to_owned() + "\n"
}

fn at_least(width: usize, options: &Options) -> Style {
    Style { width: options.style.width.max(width), ..options.style }
}

/// Returns which sizes to show: all of them if sizes were given on the command line.
fn sizes(report: &KernelsReport, options: &Options) -> Sizes {
    match report.sizes_named || options.detail == Detail::Full {
        true => Sizes::All,
        false => Sizes::Distinct,
    }
}

/// Reports a CPU quota that throttled a run's workers, and the rate delivered.
fn of_quota(run: &RunReport, record: &Record, style: &Style) -> String {
    let Some(cpus) = run.held(&record.provenance) else { return String::new() };
    let delivered = quoted(&run.delivered_kpps(), |kpps| Kpps(kpps).to_string());
    let text = format!(
        "{} CPUs for {}: {delivered} delivered; the rates below cover only the time the workers \
         ran",
        three_digits(cpus),
        counted(run.workers.len() as u64, "worker"),
    );
    labelled("CPU quota", Paint::Warning, &text, style)
}

fn of_run(report: &RunReport, whole: &Style, narrow: &Style) -> String {
    let finding = report.finding.as_ref().map_or("", |finding| &finding.sentence);
    let kernels = report.kernel_advice.as_ref().map_or("", |advice| &advice.sentence);
    let flows = report.flows().map_or(String::new(), |flows| of_flows(&flows));
    let home = sentence_of(report.packets_home.as_ref());
    let taken = taken_by_others(&report.causes);
    let sentences = [finding, &taken, kernels, &flows, home].map(|text| sentences(text, narrow));
    let failed = report.failure.as_ref().map_or_else(String::new, |failure| {
        labelled("failed", Paint::Warning, &clean(&failure.to_string()), whole)
    });
    format!("{failed}{}\n{}", crate::run(report, whole), sentences.concat())
}

fn of_tune(report: &TuneReport, whole: &Style, narrow: &Style) -> String {
    let waits = report.waits.iter().map(String::as_str);
    let taken = taken_by_others(&report.baseline.causes);
    let home = sentence_of(report.packets_home.as_ref());
    let texts = [taken.as_str(), home].into_iter().chain(waits);
    let sentences: String = texts.map(|text| sentences(text, narrow)).collect();
    crate::tune(report, whole) + &sentences
}

/// Lists causes outside the stages, worded as in `linerate why`, with fixes.
fn taken_by_others(causes: &[WhyFinding]) -> String {
    let is_of_others =
        |one: &&WhyFinding| one.cause.is_removable() && one.cause != Cause::ProcessingCost;
    let line = |one: &WhyFinding| {
        let fix = one.fix.as_deref().unwrap_or_default();
        format!("{}: {} {fix}\n", one.cause.title(), one.sentence)
    };
    causes.iter().filter(is_of_others).map(line).collect()
}

fn of_tcp(report: &TcpReport, detail: Detail, style: &Style) -> String {
    let text = crate::tcp(report, style);
    match detail {
        Detail::Screen | Detail::Brief => text,
        Detail::Full => format!("{text}\n{}", crate::tcp_histograms(report, style)),
    }
}

fn sentence_of(home: Option<&PacketsHome>) -> &str {
    home.and_then(|home| home.sentence.as_deref()).unwrap_or_default()
}

/// Formats sentences, one per line, wrapped to the width.
fn sentences(text: &str, style: &Style) -> String {
    match style.markup {
        Markup::Terminal => text.lines().map(|line| paragraph(line, 0, style)).collect(),
        Markup::Markdown => {
            text.lines().map(|line| labelled("", Paint::Head, &clean(line), style)).collect()
        }
    }
}

/// Formats the per-flow rate on one line.
fn of_flows(flows: &Flows) -> String {
    /// Size of the FCS, which frame sizes exclude.
    const CHECK_SEQUENCE_BYTES: f64 = 4.0;
    let (Some(kpps), Some(share)) = (flows.kpps.as_number(), flows.share.as_number()) else {
        let reason = flows.kpps.reason.as_deref().unwrap_or("unknown rate");
        return format!("per flow    - ({reason})\n");
    };
    let Flows { line, is_clean, .. } = flows;
    let over = if *is_clean { "" } else { ", including preempted windows" };
    let ports = match line.ports {
        1 => "on 1 port".to_owned(),
        several => format!("on each of {several} ports"),
    };
    format!(
        "per flow    {} {ports}, {:.1} % of {} at {:.0} bytes including FCS{over}\n",
        Kpps(kpps),
        share * 100.0,
        BitsPerSecond(line.bits_per_s),
        line.mean_frame_bytes + CHECK_SEQUENCE_BYTES,
    )
}
