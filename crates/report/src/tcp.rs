// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of a `tcp` record: for each stack and pattern, a table of sets ending with the bound,
//! conclusions, and the white paper's charts.

mod charts;
mod histograms;

pub use histograms::histograms;

use crate::Style;
use crate::layout::{Grid, Paint, labelled, limited, stacked};
use crate::value::{ABSENT, bytes, cell, clean, count, percent, quoted, significant};
use linerate_record::tcp::{TcpLaw, TcpPattern, TcpProof, TcpReport, TcpSet, TcpStack, TcpWire};
use linerate_record::units::three_digits;
use linerate_record::{Figure, Scalar};

/// Name of the set with the white paper's C routines.
const DOCUMENT: &str = "document";
/// Name of the set without checksums.
const OFF: &str = "off";

/// Timing and sampling agree on a share if their results differ by at most this many percentage
/// points.
const POINTS: f64 = 5.0;

/// Formats the report of `linerate tcp`.
pub fn tcp(report: &TcpReport, style: &Style) -> String {
    let mut parts = vec![head(report, style)];
    for stack in &report.stacks {
        for pattern in &stack.patterns {
            parts.push(table(stack, pattern, style));
        }
        parts.push(charts::charts(report, stack, style));
        parts.push(findings(report, stack, style));
    }
    parts.push(agreement(report, style));
    parts.extend(report.laws.iter().map(|law| of_law(law, style)));
    let skipped = report.skipped.iter();
    let skipped = skipped.map(|s| line("left out", &format!("{}: {}", s.what, s.reason), style));
    parts.push(skipped.collect());
    stacked(&parts)
}

/// Formats one screen: the selected routines' results for each stack and pattern.
pub(crate) fn screen(report: &TcpReport, style: &Style) -> String {
    let mut grid = Grid::new(&[
        "stack",
        "pattern",
        ">Gb/s",
        ">copy+sum %",
        ">of bound",
        ">over C",
        ">over scalar",
    ]);
    let patterns = report.stacks.iter().flat_map(|s| s.patterns.iter().map(move |p| (s, p)));
    for (stack, pattern) in patterns {
        let Some(set) = pattern.sets.iter().find(|set| set.name == report.selected) else {
            continue;
        };
        let shares = [&set.share_checksum, &set.share_copy, &set.share_copy_checksum];
        let shares: Vec<f64> = shares.into_iter().filter_map(Figure::as_number).collect();
        let share = match shares.is_empty() {
            true => ABSENT.to_owned(),
            false => percent(shares.iter().sum()),
        };
        let ratio = |figure| cell(figure, |x| format!("{x:.2}"));
        grid.row(vec![
            stack.name.clone(),
            pattern.name.clone(),
            cell(&set.gbps_per_cpu_s, significant),
            share,
            ratio(&set.of_bound),
            ratio(&set.over_c),
            ratio(&set.over_scalar),
        ]);
    }
    let findings: String =
        report.stacks.iter().map(|stack| findings(report, stack, style)).collect();
    let laws: Vec<String> = report.laws.iter().map(|law| of_law(law, style)).collect();
    stacked(&[
        limited(&grid.render(style), 12),
        limited(&findings, 12),
        limited(&stacked(&laws), 12),
        agreement(report, style),
    ])
}

fn line(label: &str, text: &str, style: &Style) -> String {
    labelled(label, Paint::Head, &clean(text), style)
}

fn head(report: &TcpReport, style: &Style) -> String {
    let how = format!(
        "client and server in one thread on cpu {}, in-memory wire, virtual stack clock{}; seed \
         {}{}",
        report.cpu,
        if report.stacks.is_empty() { "" } else { "; rates per second of CPU time" },
        report.seed,
        if report.interrupted { "; stopped early" } else { "" }
    );
    line("measured", &how, style) + &sets(report, style)
}

/// Explains the sets whose names are not self-explanatory.
fn sets(report: &TcpReport, style: &Style) -> String {
    let all = [
        (DOCUMENT, "the white paper's checksum and copy in C"),
        ("libc", "the white paper's checksum with the C library's copy"),
        (&report.scalar, "without vectors"),
        (&report.selected, "the default routines"),
        ("stack", "the stack's own checksums"),
        (OFF, "no checksums, the upper bound"),
    ];
    let patterns = || report.stacks.iter().flat_map(|stack| &stack.patterns);
    let took_part = |name: &str| patterns().any(|p| p.sets.iter().any(|set| set.name == name));
    let some = all.iter().filter(|(name, _)| took_part(name));
    let told: Vec<String> = some.map(|(name, what)| format!("{name}: {what}")).collect();
    match told.is_empty() {
        true => String::new(),
        false => line("sets", &told.join("; "), style),
    }
}

/// Formats a pattern's results. On a narrow terminal, splits them into two tables: work per set,
/// and shares.
fn table(stack: &TcpStack, pattern: &TcpPattern, style: &Style) -> String {
    let rate = if pattern.name == "response" { ">kconn/s" } else { ">Gb/s" };
    let time = if is_exchanged(pattern) { ">ns per\nround trip" } else { ">ns per\nsegment" };
    let work = ["set", rate, time, ">of\nbound", ">over\nC", ">over\nscalar"];
    let shares = [
        ">sum %\ntimed,\nsampled",
        ">copy %\ntimed,\nsampled",
        ">copy+sum\n% timed,\nsampled",
        ">summed\nalone",
    ];
    let grid = |heads: &[&str], cells: &dyn Fn(&TcpSet) -> Vec<String>| {
        let mut grid = Grid::new(heads);
        pattern.sets.iter().for_each(|set| grid.row(cells(set)));
        grid
    };
    let name = |set: &TcpSet| vec![set.name.clone()];
    let done = |set: &TcpSet| [name(set), work_of(pattern, set)].concat();
    let whole =
        grid(&[&work[..], &shares[..]].concat(), &|set| [done(set), shares_of(set)].concat());
    let tables = match whole.fits(style) {
        true => whole.render(style),
        false => stacked(&[
            grid(&work, &done).render(style),
            grid(&[&work[..1], &shares[..]].concat(), &|set| [name(set), shares_of(set)].concat())
                .render(style),
        ]),
    };
    line(&pattern.name, &conditions(stack, pattern), style) + &tables
}

/// Returns whether client and server wait for each other.
fn is_exchanged(pattern: &TcpPattern) -> bool {
    matches!(pattern.name.as_str(), "interactive" | "response")
}

fn work_of(pattern: &TcpPattern, set: &TcpSet) -> Vec<String> {
    let ratio = |figure| cell(figure, |x| format!("{x:.2}"));
    let rate = match pattern.name.as_str() {
        "response" => cell(&set.exchanges_per_cpu_s, |x| three_digits(x / 1e3)),
        _ => cell(&set.gbps_per_cpu_s, significant),
    };
    let time = if is_exchanged(pattern) { &set.round_trip_cpu_ns } else { &set.ns_per_segment };
    vec![
        rate,
        cell(time, three_digits),
        ratio(&set.of_bound),
        ratio(&set.over_c),
        ratio(&set.over_scalar),
    ]
}

fn shares_of(set: &TcpSet) -> Vec<String> {
    let share = |timed, sampled| {
        let [timed, sampled] = [timed, sampled].map(|figure| cell(figure, percent));
        format!("{timed} {sampled:>4}")
    };
    vec![
        share(&set.share_checksum, &set.sampled_checksum),
        share(&set.share_copy, &set.sampled_copy),
        share(&set.share_copy_checksum, &set.sampled_copy_checksum),
        cell(&set.checksum_per_payload, |x| format!("{x:.2}")),
    ]
}

fn conditions(stack: &TcpStack, pattern: &TcpPattern) -> String {
    let wire = match pattern.wire {
        TcpWire::Copy => "frames copied",
        TcpWire::Reference => "frames passed by reference",
    };
    let mix = match (&pattern.mix, &pattern.mix_source) {
        (Some(mix), Some(source)) => format!(", mix {mix} ({source})"),
        _ => String::new(),
    };
    format!(
        "{} {}, segments of {}, buffers of {}, {wire}{mix}; {} of {} slices kept{}",
        stack.name,
        stack.version,
        bytes(pattern.segment_bytes),
        bytes(pattern.buffer_bytes),
        count(pattern.slices - pattern.slices_dropped),
        count(pattern.slices),
        proven(&pattern.proof),
    )
}

/// Summarizes the integrity check before the run; empty if only the bound ran, which has no
/// checksums to detect damage.
fn proven(proof: &TcpProof) -> String {
    if proof.segments == 0 {
        return String::new();
    }
    format!(
        "; verified with {} frames over a wire that dropped {}, corrupted {} and duplicated {}",
        count(proof.segments),
        count(proof.lost),
        count(proof.corrupted),
        count(proof.duplicated),
    )
}

/// Formats the measured points and the fit to the Mathis equation.
fn of_law(law: &TcpLaw, style: &Style) -> String {
    let how = format!(
        "{}: throughput under loss with the stack's own congestion control, ACKs delayed by {} ms; \
         {} segments per run, median of {} runs; times are virtual",
        law.stack,
        significant(law.ack_delay_ms),
        count(law.segments_per_run),
        law.runs_per_point,
    );
    let mut grid = Grid::new(&[">loss", ">segment", ">round trip\nms", ">Mb/s"]);
    for point in &law.points {
        grid.row(vec![
            format!("{:.2e}", point.loss),
            point.segment_bytes.to_string(),
            significant(point.round_trip_ms),
            cell(&point.mbps, three_digits),
        ]);
    }
    let exponent = |figure| quoted(figure, |x| format!("{x:.3}"));
    let fitted = format!(
        "loss^{} * segment^{} / round trip^{} (law: -0.5, 1 and 1); C = {}",
        exponent(&law.exponent_loss),
        exponent(&law.exponent_segment),
        // The round-trip time is a divisor, so its exponent is shown negated.
        exponent(&negative(&law.exponent_round_trip)),
        exponent(&law.constant),
    );
    line("law", &how, style) + &grid.render(style) + &line("fitted", &fitted, style)
}

fn negative(figure: &Figure) -> Figure {
    let value = figure.as_number().map_or(Scalar::Absent, |x| Scalar::Number(-x));
    let (low, high) = (figure.high.map(|x| -x), figure.low.map(|x| -x));
    Figure { value, low, high, ..figure.clone() }
}

/// States how well timed and sampled shares agree, and the largest difference.
fn agreement(report: &TcpReport, style: &Style) -> String {
    let stacks = report.stacks.iter();
    let patterns = stacks.flat_map(|stack| stack.patterns.iter().map(move |p| (stack, p)));
    let sets = patterns.flat_map(|(stack, p)| p.sets.iter().map(move |set| (stack, p, set)));
    let apart = sets.filter_map(|(stack, p, set)| Some((stack, p, set, set.shares_apart()?)));
    let mut all: Vec<_> = apart.collect();
    all.sort_by(|a, b| b.3.share.total_cmp(&a.3.share));
    let Some((stack, pattern, set, most)) = all.first() else { return String::new() };
    let over = all.iter().filter(|(.., apart)| 100.0 * apart.share > POINTS).count();
    let verdict = match over {
        0 => format!("agree within {POINTS} points in all {} rows", all.len()),
        _ => format!("differ by more than {POINTS} points in {over} of {} rows", all.len()),
    };
    let text = format!(
        "timing each call and sampling from another CPU {verdict}; the largest difference is {} \
         points, for {} with `{}` ({}, {})",
        significant(100.0 * most.share),
        most.routine,
        set.name,
        stack.name,
        pattern.name,
    );
    line("shares", &text, style)
}

/// Compares the throughput of a set with that of other sets.
fn compared(report: &TcpReport, set: &TcpSet) -> Option<String> {
    let scalar = format!("times the throughput of `{}`", report.scalar);
    let all = [
        (&set.of_bound, "of the throughput achievable without checksums"),
        (&set.over_c, "times the throughput of the white paper's C code"),
        (&set.over_scalar, scalar.as_str()),
    ];
    let told = all.into_iter().filter(|(figure, _)| figure.as_number().is_some());
    let told = told.map(|(figure, of)| format!("{} {of}", quoted(figure, |x| format!("{x:.2}"))));
    let mut told: Vec<String> = told.collect();
    let last = told.pop()?;
    Some(if told.is_empty() { last } else { format!("{} and {last}", told.join(", ")) })
}

/// Formats conclusions from the tables, one sentence per pattern.
fn findings(report: &TcpReport, stack: &TcpStack, style: &Style) -> String {
    let sentence = |pattern: &TcpPattern| {
        let set = pattern.sets.iter().find(|set| set.name == report.selected)?;
        let best = pattern.best.as_deref().unwrap_or(ABSENT);
        Some(match compared(report, set) {
            None => format!("{}: `{best}` was fastest", pattern.name),
            Some(work) => {
                format!("{}: `{}` reached {work}; `{best}` was fastest", pattern.name, set.name)
            }
        })
    };
    let sentences = stack.patterns.iter().filter_map(sentence);
    sentences.map(|sentence| line(&stack.name, &sentence, style)).collect()
}
