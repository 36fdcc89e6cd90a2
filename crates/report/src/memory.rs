// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of a `memory` record: levels and what the OS reports about them, TLB, bandwidth and
//! noise.
//!
//! Every block states the load on the machine, because other programs affect the figures.

mod bars;
mod levels;
mod noise;
mod plot;
mod sizes;
mod throughput;
mod translation;

pub(crate) use translation::reach;

use crate::layout::{Paint, labelled, limited, painted, stacked};
use crate::value::{ABSENT, clean, count, in_sentence, reason, tiers as evidence};
use crate::{Detail, Glyphs, Style};
use linerate_record::memory::{Curve, CurvePoint, Effort, MemoryReport, Order, PageKind};
use linerate_record::units::{memory_size, three_digits};
use linerate_record::{Figure, Provenance, Tier};
use std::collections::BTreeMap;

/// Formats the report of `linerate memory`. Fits in 80 columns; cells are wrapped at smaller
/// widths.
pub fn memory(
    report: &MemoryReport,
    provenance: &Provenance,
    detail: Detail,
    glyphs: Glyphs,
    style: &Style,
) -> String {
    let page = Page { report, glyphs, style };
    let is_full = detail == Detail::Full;
    let full = |block: fn(&Page) -> String| if is_full { block(&page) } else { String::new() };
    stacked(&[
        head(&page, provenance),
        levels::table(&page, is_full),
        plot::plot(&page),
        translation::buffers(&page),
        translation::costs(&page, is_full),
        full(sizes::times),
        match is_full || is_simulated(report) {
            true => sizes::events(&page),
            false => sizes::doubts(&page),
        },
        full(bars::histograms),
        throughput::table(&page),
        full(throughput::chains),
        throughput::loaded(&page, is_full),
        noise::block(&page, is_full),
        foot(&page, is_full),
    ])
}

/// Formats one screen: levels, cost of a miss, bandwidth.
pub(crate) fn screen(
    report: &MemoryReport,
    provenance: &Provenance,
    glyphs: Glyphs,
    style: &Style,
) -> String {
    let page = Page { report, glyphs, style };
    stacked(&[
        limited(&head(&page, provenance), 5),
        match is_simulated(report) {
            true => limited(&sizes::events(&page), 22),
            false => String::new(),
        },
        limited(&levels::table(&page, false), 14),
        limited(&translation::costs(&page, false), 9),
        limited(&throughput::table(&page), 8),
    ])
}

/// Returns whether events were simulated, which happens only on request.
fn is_simulated(report: &MemoryReport) -> bool {
    let mut events = report.events.iter().flat_map(|size| &size.events);
    events.any(|event| event.per_load.tier == Tier::Sim)
}

const MORE: &str = "--all shows every size, latency histograms, events and gaps";

/// The record to render, and options.
struct Page<'a> {
    report: &'a MemoryReport,
    glyphs: Glyphs,
    style: &'a Style,
}

impl Page<'_> {
    fn line(&self, label: &str, text: &str) -> String {
        labelled(label, Paint::Head, &clean(text), self.style)
    }

    /// Formats a note below a table.
    fn note(&self, text: &str) -> String {
        self.line("", text)
    }

    /// Formats a block's title, with the load on the machine.
    fn title(&self, text: &str) -> String {
        let text = clean(&format!("{text}; {}", load(self.report)));
        painted(Paint::Head, &textwrap::fill(&text, self.style.width), self.style) + "\n"
    }

    /// Lists why figures are absent, each reason with the names of the figures it applies to.
    fn reasons<'f>(&self, figures: impl IntoIterator<Item = (String, &'f Figure)>) -> String {
        let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (name, figure) in figures.into_iter().filter(|(_, f)| f.as_number().is_none()) {
            let names = reasons.entry(reason(figure)).or_default();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let note = |(why, names): (&str, Vec<String>)| {
            self.note(&format!("{ABSENT} {}: {why}", names.join(", ")))
        };
        reasons.into_iter().map(note).collect()
    }
}

/// Formats the load average during the measurement.
pub(crate) fn load(report: &MemoryReport) -> String {
    let conditions = &report.conditions;
    match (conditions.load_before, conditions.load_after) {
        (Some(before), Some(after)) => {
            format!("load average {} to {}", three_digits(before), three_digits(after))
        }
        (Some(load), None) | (None, Some(load)) => format!("load average {}", three_digits(load)),
        (None, None) => "load average unknown".to_owned(),
    }
}

/// Returns the confidence level in percent, from the first of `figures` that has an interval.
pub(crate) fn confidence<'a>(figures: impl IntoIterator<Item = &'a Figure>) -> Option<String> {
    let confidence = figures.into_iter().find_map(|figure| figure.confidence)?;
    Some(three_digits(confidence * 100.0))
}

/// Names a curve's access order, with its page size if that differs from the rest of the report.
pub(crate) fn curve_name(curve: &Curve, report: &MemoryReport) -> String {
    let order = match curve.order {
        Order::PageLocal => "page-local",
        Order::Random => "random",
        Order::Sequential => "sequential",
    };
    match curve.pages == report.pages.used {
        true => order.to_owned(),
        false => format!("{order}, {}", page_kind(curve.pages)),
    }
}

pub(crate) fn page_kind(kind: PageKind) -> &'static str {
    match kind {
        PageKind::Base => "base",
        PageKind::Huge => "huge",
    }
}

/// Returns a point of a curve as bytes and ns per load, if it can be drawn on logarithmic axes.
pub(crate) fn drawable(point: &CurvePoint) -> Option<(f64, f64)> {
    // 1 ps to 1 s. Any load is within this range, and the axes have to end somewhere.
    let ns = point.latency_ns.as_number().filter(|ns| (1e-3..=1e9).contains(ns))?;
    (point.bytes > 0).then_some((point.bytes as f64, ns))
}

/// Returns the drawable points of a curve, by size.
pub(crate) fn drawn(curve: &Curve) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = curve.points.iter().filter_map(drawable).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// Returns the size of each level, if known, as lower bound, estimate and upper bound in bytes. An
/// unknown bound equals the estimate.
pub(crate) fn edges(report: &MemoryReport) -> Vec<[f64; 3]> {
    let edge = |size: &Figure| {
        let value = size.as_number().filter(|size| *size > 0.0)?;
        let end = |end: Option<f64>| end.filter(|end| *end > 0.0).unwrap_or(value);
        Some([end(size.low).min(value), value, end(size.high).max(value)])
    };
    report.levels.iter().filter_map(|level| edge(&level.size_bytes)).collect()
}

fn head(page: &Page, provenance: &Provenance) -> String {
    let report = page.report;
    let processor = provenance.cpu.as_deref().unwrap_or("unknown model");
    let guest = provenance.hypervisor.as_ref().map(|name| format!("; under {name}"));
    let processor =
        format!("{processor}; cpu {}{}", report.conditions.cpu, guest.unwrap_or_default());
    page.line("processor", &processor) + &page.line("measured", &measured(report))
}

/// Describes what the figures are based on.
fn foot(page: &Page, is_full: bool) -> String {
    let more = if is_full { String::new() } else { page.line("more", MORE) };
    page.line("clock", &clock(page.report)) + &page.line("chains", &chains(page.report)) + &more
}

fn clock(report: &MemoryReport) -> String {
    let timer = &report.timer;
    let ns = |figure| in_sentence(figure, "ns", three_digits);
    let ghz = |figure| in_sentence(figure, "GHz", three_digits);
    let invariant = match timer.invariant {
        Some(true) => "",
        Some(false) => ", which follows the core clock",
        None => ", not known to have a constant rate",
    };
    format!(
        "core {}; timer {} {}{invariant}: steps of {}, and a pair of reads takes {}",
        ghz(&timer.core_ghz),
        timer.source,
        ghz(&timer.rate_ghz),
        ns(&timer.step_ns),
        ns(&timer.overhead_ns)
    )
}

fn measured(report: &MemoryReport) -> String {
    let conditions = &report.conditions;
    let effort = match conditions.effort {
        Effort::Quick => ", quick",
        Effort::Default => "",
        Effort::Full => ", full",
    };
    let mut text = format!(
        "{} s{effort}; {}; {} windows of at most 2 ms, {} dropped as preempted",
        three_digits(conditions.elapsed_s),
        load(report),
        count(conditions.windows),
        count(conditions.windows_dropped)
    );
    if let Some(confidence) = confidence(report.levels.iter().map(|level| &level.latency_ns)) {
        text += &format!("; {confidence} % confidence intervals");
    }
    let words = evidence(report.levels.iter().map(|level| &level.latency_ns));
    if !words.is_empty() {
        text += &format!("; tier {words}");
    }
    if conditions.interrupted {
        text += "; stopped early: the figures are incomplete";
    }
    text
}

fn chains(report: &MemoryReport) -> String {
    let conditions = &report.conditions;
    let passes = report.main_curve().and_then(Curve::passes);
    format!(
        "up to {} in {}-byte lines: {}{}",
        memory_size(conditions.max_bytes as f64),
        conditions.line_bytes,
        conditions.max_reason,
        passes.map_or(String::new(), |passes| format!("; {}", spelled(passes)))
    )
}

/// Formats the number of passes over the main curve.
fn spelled([fewest, middle, most]: [usize; 3]) -> String {
    let passes = |count: usize| match count {
        1 => "1 pass".to_owned(),
        _ => format!("{count} passes"),
    };
    match fewest == most {
        true => format!("{} over the sizes", passes(most)),
        false => format!("{fewest} to {} per size, median {middle}", passes(most)),
    }
}
