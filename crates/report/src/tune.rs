// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of a `tune` record.

use crate::counted;
use crate::events;
use crate::idle;
use crate::input;
use crate::layout::{CHOSEN, Grid, Paint, labelled, limited, stacked};
use crate::run::{few_buckets, kpps, standing};
use crate::shares;
use crate::value::{ABSENT, clean, interval, min_gain, percent, quoted, reason, tiers};
use crate::{PATH_FILE, Style, TUNED_FILE};
use linerate_plan::MAX_WORKERS;
use linerate_plan::line_rate::to_line_rate;
use linerate_plan::verdict::{Kept, MIN_ROUNDS, is_baseline_enough, kept_because};
use linerate_record::Figure;
use linerate_record::run::DeadEnd;
use linerate_record::tune::{Candidate, RoundLatency, RuledOut, TuneReport};
use linerate_record::units::{Kpps, Nanos, counted, three_digits};

/// Formats the report of a tuning session: baseline, bottleneck, candidates, result, the chosen
/// mapping's profile, and the shares of checksums and copies.
pub fn tune(report: &TuneReport, style: &Style) -> String {
    stacked(&[
        head(report, style),
        candidates(report, style),
        ruled_out(&report.ruled_out, style),
        replicas(report, style) + &outcome(report, style) + &idle::of_tune(report, style),
        standing(&report.tuned, style),
        counted::of_run(&report.tuned, style),
        events::of_run(&report.tuned, style),
        shares::of_tune(report, style),
    ])
}

/// Formats one screen: bottleneck, candidates, result. `is_written` is as in [`crate::Options`].
pub(crate) fn screen(report: &TuneReport, is_written: bool, style: &Style) -> String {
    stacked(&[
        line("evidence", &report.finding.sentence, style)
            + &replicas(report, style)
            + &outcome(report, style)
            + &idle::of_tune(report, style)
            + &next(report, is_written, style),
        candidate_table(report, style).limited(&footnotes(report, style), 16, style),
        limited(&standing(&report.tuned, style), 8),
    ])
}

/// Formats what to do next: run or write the chosen mapping, and make the bottleneck cheaper.
fn next(report: &TuneReport, is_written: bool, style: &Style) -> String {
    let written = if is_written { unchanged(report, style) } else { String::new() };
    if let Some(end) = dead_end(report) {
        return written + &line("do", end.remedy(), style);
    }
    if reached_before(report).is_some() {
        return written + &line("do", &format!("keep the mapping of {PATH_FILE}"), style);
    }
    if report.predicted_from.is_some() && report.chosen.is_none() {
        let measure = format!("linerate tune {PATH_FILE}  # measure the candidates");
        return line("do", &measure, style);
    }
    // The path file holds the mapping that was kept unless another one was chosen.
    let file = match (report.chosen, is_written) {
        (None, _) => Some(PATH_FILE),
        (Some(_), true) => Some(TUNED_FILE),
        (Some(_), false) => None,
    };
    let mapping = match (report.chosen, is_written) {
        (None, _) => written,
        (Some(_), true) => {
            let run = format!("linerate run {TUNED_FILE}  # run the path with this mapping");
            line("do", &run, style)
        }
        (Some(_), false) => line("do", "add --out FILE to write the path with this mapping", style),
    };
    let label = if report.chosen.is_none() { "do" } else { "then" };
    mapping + &cheaper(report, file).map_or_else(String::new, |text| line(label, &text, style))
}

/// States that the written path file has the baseline mapping; empty if another one was chosen.
fn unchanged(report: &TuneReport, style: &Style) -> String {
    let text = match report.chosen {
        Some(_) => return String::new(),
        None if report.given_mapping == report.baseline_mapping => {
            format!("{TUNED_FILE}, with the mapping of {PATH_FILE} unchanged")
        }
        None => format!("{TUNED_FILE}, with the mapping {}", report.baseline_mapping),
    };
    line("written", &text, style)
}

/// Describes the next step towards line rate or, if there is none, a higher rate, with the mapping
/// that was kept. `file` contains that mapping, if it is in a file. `None` if nothing needs to be
/// done: a path without a line rate for which a mapping was found may be fast enough.
fn cheaper(report: &TuneReport, file: Option<&str>) -> Option<String> {
    let inside = file.map(|file| format!("look inside: linerate profile -- linerate run {file}"));
    let with_inside = |text: Option<String>| {
        let parts: Vec<String> = text.into_iter().chain(inside.clone()).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    };
    let rate = measured(report).as_number();
    match (report.tuned.line_rate_kpps, rate) {
        (Some(line), Some(rate)) if rate >= line => None,
        (Some(_), Some(rate)) => with_inside(to_line_rate(&report.tuned, rate)),
        _ if report.chosen.is_some() => None,
        _ => match &report.finding.bottleneck {
            Some(stage) => with_inside(Some(format!("make `{stage}` cheaper"))),
            None => {
                Some("linerate run --details  # show where each worker spends its time".to_owned())
            }
        },
    }
}

/// Returns the baseline's rate as a fraction of line rate, if the baseline was kept because it
/// reaches line rate.
pub(crate) fn reached_before(report: &TuneReport) -> Option<f64> {
    let is_needless = report.predicted_from.is_some() && is_baseline_enough(report);
    let is_kept =
        report.chosen.is_none() && (is_needless || kept_because(report) == Kept::LineRate);
    is_kept.then(|| share_before(report)).flatten()
}

/// Returns the baseline's rate as a fraction of line rate, if the path has a line.
fn share_before(report: &TuneReport) -> Option<f64> {
    let line = report.baseline.line_rate_kpps.filter(|line| *line > 0.0)?;
    Some(report.baseline_kpps.as_number()? / line)
}

/// Returns the rate of the mapping that was kept.
pub(crate) fn measured(report: &TuneReport) -> &Figure {
    let chosen = report.chosen.and_then(|index| report.candidates.get(index as usize));
    match chosen {
        Some(chosen) => chosen.measured_kpps.as_ref().unwrap_or(&report.tuned.processed_kpps),
        None => &report.baseline_kpps,
    }
}

/// Returns the stage that dropped every packet, if there is one.
fn dead_end(report: &TuneReport) -> Option<DeadEnd> {
    report.tuned.dead_end().filter(DeadEnd::is_drop)
}

/// Explains why replicas on all CPUs gain little, if the packets fall into too few RSS buckets.
fn replicas(report: &TuneReport, style: &Style) -> String {
    if !report.candidates.iter().any(|one| one.name.contains("replicate")) {
        return String::new();
    }
    few_buckets(&report.baseline, report.cpus_available.unwrap_or(1).min(MAX_WORKERS as u32), style)
}

fn line(label: &str, text: &str, style: &Style) -> String {
    labelled(label, Paint::Head, &clean(text), style)
}

fn head(report: &TuneReport, style: &Style) -> String {
    let mut lines = line("path", &report.baseline.path, style);
    if report.given_mapping != report.baseline_mapping {
        lines += &line("given", &report.given_mapping, style);
    }
    lines += &line("baseline", &report.baseline_mapping, style);
    lines += &line("", &kpps(&report.baseline_kpps), style);
    lines += &input::lines(&report.baseline, style);
    lines += &line("finding", &report.finding.sentence, style);
    lines + &tier_line(report, style)
}

/// Formats the tiers of the figures, unless all are from hardware counters.
fn tier_line(report: &TuneReport, style: &Style) -> String {
    let measured = report.candidates.iter().flat_map(|c| c.measured_kpps.iter().chain(&c.speedup));
    let measured = tiers(measured.chain([&report.baseline_kpps]));
    let predicted = tiers(report.candidates.iter().map(|c| &c.predicted_kpps));
    let parts: Vec<String> = [("measured", measured), ("predicted", predicted)]
        .into_iter()
        .filter(|(_, tiers)| !tiers.is_empty())
        .map(|(what, tiers)| format!("{what} {tiers}"))
        .collect();
    if parts.is_empty() { String::new() } else { line("tier", &parts.join(", "), style) }
}

/// Width of the mark and three figures like `2540 (2286 to 2794)`, gaps included.
const FIGURE_COLUMNS: usize = 3 + 3 * 21;
const NARROWEST_MAPPING: usize = 16;

fn candidates(report: &TuneReport, style: &Style) -> String {
    candidate_table(report, style).render(style) + &footnotes(report, style)
}

fn candidate_table(report: &TuneReport, style: &Style) -> Grid {
    let mut grid = Grid::new(&["", "candidate", ">predicted kpps", ">measured kpps", ">speed-up"]);
    let room = style.width.saturating_sub(FIGURE_COLUMNS).max(NARROWEST_MAPPING);
    for (index, candidate) in report.candidates.iter().enumerate() {
        let chosen = report.chosen.is_some_and(|chosen| chosen as usize == index);
        let optional = |figure: &Option<Figure>| figure.as_ref().map(in_table);
        grid.row(vec![
            if chosen { CHOSEN } else { "" }.to_owned(),
            clean(&candidate.name) + "\n" + &in_full(candidate, report, room),
            predicted(candidate),
            optional(&candidate.measured_kpps).unwrap_or_else(|| "not run".to_owned()),
            optional(&candidate.speedup).unwrap_or_else(|| ABSENT.to_owned()),
        ]);
    }
    grid
}

/// Returns the mapping and burst size, and the kernels if they differ from the baseline's.
fn setting(candidate: &Candidate, report: &TuneReport) -> String {
    let setting = format!("{}, burst {}", candidate.mapping, candidate.burst);
    match &candidate.kernels {
        Some(kernels) if candidate.kernels != report.baseline.kernels => {
            format!("{setting}, kernels {kernels}")
        }
        _ => setting,
    }
}

/// Formats a candidate in full, broken between stages if wider than `room` columns.
fn in_full(candidate: &Candidate, report: &TuneReport, room: usize) -> String {
    let text = clean(&setting(candidate, report));
    // Lines are only broken at spaces.
    let spaced = text.replace('+', "+ ");
    let lines = textwrap::wrap(&spaced, room);
    lines.iter().map(|line| line.replace("+ ", "+")).collect::<Vec<_>>().join("\n")
}

/// Formats a value and its interval. The unit is in the heading.
fn in_table(figure: &Figure) -> String {
    let Some(value) = figure.as_number() else { return ABSENT.to_owned() };
    match interval(figure, three_digits) {
        Some(interval) => format!("{} ({interval})", three_digits(value)),
        None => three_digits(value),
    }
}

/// Returns the predicted range of a memory-bound candidate, whose costs do not scale linearly;
/// `None` for other candidates.
fn range(candidate: &Candidate) -> Option<String> {
    let range = interval(&candidate.predicted_kpps, three_digits);
    range.filter(|_| candidate.memory_bound)
}

fn predicted(candidate: &Candidate) -> String {
    range(candidate)
        .map_or_else(|| in_table(&candidate.predicted_kpps), |range| format!("{range} *"))
}

fn footnotes(report: &TuneReport, style: &Style) -> String {
    if report.candidates.is_empty() {
        return line("candidates", "none", style);
    }
    let note = |text: &str| labelled("", Paint::Head, text, style);
    let mut notes = String::new();
    let all = report.candidates.iter();
    let figures = all.clone().flat_map(|c| c.measured_kpps.iter().chain([&c.predicted_kpps]));
    let has_interval = |figure: &&Figure| figure.low.or(figure.high).is_some();
    let mut confidences: Vec<f64> =
        figures.filter(has_interval).filter_map(|figure| figure.confidence).collect();
    confidences.sort_unstable_by(f64::total_cmp);
    confidences.dedup();
    if let [confidence] = confidences[..] {
        notes += &note(&format!("in brackets: {} % intervals", three_digits(confidence * 100.0)));
    }
    if report.rounds > 0 {
        notes +=
            &note(&format!("measured in {}, interleaved", counted(report.rounds.into(), "round")));
    }
    let few = |figure: &Figure| figure.as_number().is_some() && figure.low.is_none();
    if all.clone().filter_map(|one| one.speedup.as_ref()).any(few) {
        let text = format!(
            "without brackets: the workers were preempted in all but a few rounds, and an \
             interval needs {MIN_ROUNDS}"
        );
        notes += &note(&text);
    }
    if all.clone().any(|candidate| range(candidate).is_some()) {
        notes += &note("* memory-bound: the prediction is a range");
    }
    notes
}

/// Lists rejected candidates with reasons.
pub(crate) fn ruled_out(all: &[RuledOut], style: &Style) -> String {
    let mut grid = Grid::new(&["ruled out", "because"]);
    for ruled_out in all {
        grid.row(vec![ruled_out.name.clone(), ruled_out.reason.clone()]);
    }
    grid.render(style)
}

/// Formats why the baseline was kept, for the headline of a report without a chosen candidate.
pub(crate) fn kept_headline(report: &TuneReport) -> String {
    match kept_because(report) {
        Kept::NoCandidate => "nothing else was tried".to_owned(),
        Kept::NotRun => "tuning stopped before the candidates had run".to_owned(),
        Kept::OverLimit => "no faster candidate is known to meet the p99 limit".to_owned(),
        Kept::LineRate => "line rate reached".to_owned(),
        Kept::FewRounds { rounds } => format!(
            "only {rounds} of {} rounds undisturbed; a comparison needs {MIN_ROUNDS}",
            report.rounds
        ),
        Kept::NoGain => format!("no candidate is certain to gain {}", min_gain()),
    }
}

/// Formats why the baseline was kept in a sentence.
fn kept_sentence(report: &TuneReport) -> String {
    let why = match kept_because(report) {
        Kept::NoCandidate => "nothing else was tried",
        Kept::NotRun => "tuning stopped before the candidates had run",
        Kept::OverLimit => "the latency of every faster candidate is over the p99 limit or unknown",
        Kept::LineRate => "it reaches line rate; for more, set a higher --goal or line rate",
        Kept::FewRounds { rounds } => &format!(
            "in at most {rounds} of {} rounds, the baseline and a candidate that seems faster both \
             ran without preemption, and an interval needs {MIN_ROUNDS}: repeat on an idle \
             machine, or with fewer workers than CPUs (--cpus)",
            report.rounds
        ),
        Kept::NoGain => &format!(
            "no candidate's interval is entirely above a gain of {}, the minimum for a change",
            min_gain()
        ),
    };
    format!("baseline: {why}")
}

fn outcome(report: &TuneReport, style: &Style) -> String {
    let chosen = report.chosen.and_then(|index| report.candidates.get(index as usize));
    if let Some(record) = &report.predicted_from {
        let text = format!("nothing was run; the rates are predicted from {record}");
        return line("kept", &text, style);
    }
    let Some(candidate) = chosen else {
        let mut lines = line("kept", &kept_sentence(report), style);
        lines += &latency("latency", &report.latency_before(), style);
        lines += &limit(report, style);
        lines += &gap(report, &report.baseline_kpps, style);
        return lines;
    };
    let after = measured(report);
    let mut lines = line("before", &kpps(&report.baseline_kpps), style);
    lines += &latency("", &report.latency_before(), style);
    let after_all = format!("{}, {}", kpps(after), setting(candidate, report));
    lines += &line("after", &after_all, style);
    lines += &latency("", &report.latency_after(), style);
    lines += &limit(report, style);
    if let Some(speedup) = &candidate.speedup {
        let text = quoted(speedup, |value| format!("{}x", three_digits(value)));
        lines += &labelled("speed-up", Paint::Good, &clean(&text), style);
    }
    lines += &line("predicted", &prediction(candidate, after), style);
    lines + &gap(report, after, style)
}

/// Formats the path latency measured in the rounds. A missing quantile has its reason.
fn latency(label: &str, of: &RoundLatency, style: &Style) -> String {
    let RoundLatency { p50, p99 } = of;
    let one = |name: &str, figure: &Figure| {
        format!("{name} {}", quoted(figure, |nanos| Nanos(nanos).to_string()))
    };
    let are_absent = [p50, p99].iter().all(|figure| figure.as_number().is_none());
    let text = match are_absent && reason(p50) == reason(p99) {
        true => one("p50/p99", p50),
        false => format!("{}, {}", one("p50", p50), one("p99", p99)),
    };
    line(label, &text, style)
}

/// States whether the chosen mapping meets the latency limit.
fn limit(report: &TuneReport, style: &Style) -> String {
    let Some(limit) = report.p99_limit_ns else { return String::new() };
    let limit = Nanos(limit);
    let text = match report.latency_after().p99.as_number() {
        Some(p99) if p99 <= limit.0 => format!("p99 of at most {limit}: met"),
        Some(p99) => {
            let p99 = Nanos(p99);
            format!("p99 of at most {limit}: missed ({p99}); no candidate meets the limit")
        }
        None => format!("p99 of at most {limit}: cannot tell because too few packets were timed"),
    };
    line("limit", &text, style)
}

/// Formats the prediction and how far off it was.
fn prediction(candidate: &Candidate, measured: &Figure) -> String {
    let text = kpps(&candidate.predicted_kpps);
    match (candidate.predicted_kpps.as_number(), measured.as_number()) {
        (Some(predicted), Some(measured)) if predicted > 0.0 => {
            let error = measured / predicted - 1.0;
            let side = if error < 0.0 { "less" } else { "more" };
            format!("{text}; measured {} % {side}", percent(error.abs()))
        }
        _ => text,
    }
}

/// Describes the gap to line rate.
fn gap(report: &TuneReport, after: &Figure, style: &Style) -> String {
    let (Some(rate), Some(line_rate)) = (after.as_number(), report.tuned.line_rate_kpps) else {
        return String::new();
    };
    if let Some(end) = dead_end(report) {
        return line("line rate", &format!("{ABSENT} (no packet reached the sink: {end})"), style);
    }
    let missing = line_rate - rate;
    let text = if missing > 0.0 {
        format!(
            "{}; reached {} %, {} short",
            Kpps(line_rate),
            percent(rate / line_rate),
            Kpps(missing)
        )
    } else {
        let before = share_before(report).filter(|share| *share >= 1.0 && report.chosen.is_some());
        let before = before
            .map_or_else(String::new, |share| format!(" before tuning ({} %)", percent(share)));
        format!("{}; reached{before}", Kpps(line_rate))
    };
    line("line rate", &text, style)
}
