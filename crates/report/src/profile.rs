// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of `linerate profile`: functions by rank, kinds of work, accuracy.

mod annotated;
mod details;
mod icicle;
mod timeline;

pub(crate) use annotated::annotated;
pub(crate) use icicle::icicle;
pub(crate) use timeline::timeline;

use crate::layout::{Grid, Paint, labelled, stacked};
use crate::value::{ABSENT, cell, clean, count, cut, interval, percent, reason, significant};
use crate::{Detail, Style};
use linerate_record::Figure;
use linerate_record::profile::{ProfileReport, SampledThread, SamplingMethod};
use linerate_record::stats::interval_name;
use linerate_record::units::{counted, three_digits};

/// Maximum number of functions on one screen.
const MOST: usize = 12;
/// Width of all table columns other than the function name.
const OTHER_COLUMNS: usize = 58;
/// Width of the per-packet cost column.
const COST_COLUMNS: usize = 11;
/// Minimum width of a function name on one screen.
const LEAST_COLUMNS: usize = 24;
/// A thread that runs for more than this fraction of the window may be polling.
const ALWAYS: f64 = 0.5;
/// Maximum number of threads whose polling is described on one screen.
const MOST_THREADS: usize = 4;
/// Target margin of error of a share, as a fraction. The report states how many samples are needed
/// to reach it.
const MARGIN: f64 = 0.01;

/// Formats the report of a profile: where a program spends CPU time.
pub fn profile(report: &ProfileReport, detail: Detail, style: &Style) -> String {
    match detail {
        Detail::Screen => stacked(&[facts(report, style), functions(report, MOST, style)]),
        Detail::Brief | Detail::Full => stacked(&[
            facts(report, style),
            functions(report, usize::MAX, style),
            details::details(report, style),
        ]),
    }
}

fn line(label: &str, text: &str, style: &Style) -> String {
    labelled(label, Paint::Head, &clean(text), style)
}

/// Formats what bounds the program and the result that would disprove this or, if the bound is
/// unknown, the missing measurement.
fn bound(report: &ProfileReport, style: &Style) -> String {
    let of_program = report.bounds.iter().find(|one| one.function.is_none());
    let Some(one) = of_program else { return String::new() };
    let next = if one.wrong_if.is_some() { String::new() } else { format!(" Next: {}", one.next) };
    let text = format!("{}: {}{next}", one.bound_by.title(), one.sentence);
    let wrong = one.wrong_if.as_ref().map(|wrong| line("wrong if", wrong, style));
    line("bound by", &text, style) + &wrong.unwrap_or_default()
}

/// Formats the header: what was sampled, duration, kinds of work, and limitations.
fn facts(report: &ProfileReport, style: &Style) -> String {
    let mut text = line("sampled", &sampled(report), style);
    let cpus = report.cpu_s / report.elapsed_s.max(f64::MIN_POSITIVE);
    let on_cpu = format!(
        "{} s in {} s of wall time: {} CPUs",
        significant(report.cpu_s),
        significant(report.elapsed_s),
        three_digits(cpus)
    );
    text += &line("CPU time", &on_cpu, style);
    text += &bound(report, style);
    text += &line("callers", &callers(report), style);
    text += &line("work", &classes(report), style);
    if let Some(packets) = &report.packets {
        let each = report.cpu_s * 1e9 / packets.packets.max(1) as f64;
        let packets = match packets.packets {
            0 => format!("none ({})", packets.counter),
            n => format!("{} ({}), {} ns each", count(n), packets.counter, significant(each)),
        };
        text += &line("packets", &packets, style);
        text += &polling(report, style);
    }
    text += &line("precision", &precision(report), style);
    if report.lost_samples > 0 {
        let of = if report.sampling.is_by_cpu { "records of all programs" } else { "samples" };
        let lost = format!(
            "{} {of} were lost because the ring was full; sample less often (-F)",
            count(report.lost_samples)
        );
        text += &labelled("lost", Paint::Warning, &lost, style);
    }
    text + &unread(report, style)
}

/// Describes how a program ended, given [`SampledProgram::ended`].
///
/// [`SampledProgram::ended`]: linerate_record::profile::SampledProgram::ended
pub(crate) fn it_ended(ended: &str) -> String {
    match ended.starts_with("ended") {
        true => format!("it {ended}"),
        false => format!("it ended: {ended}"),
    }
}

/// Minimum sampling overhead that the report states, in percent of the program's CPU time. At the
/// default rate, the overhead is lower.
const OVERHEAD_PERCENT: f64 = 3.0;

fn sampled(report: &ProfileReport) -> String {
    let sampled = &report.sampled;
    let ended = match (&sampled.ended, sampled.interrupted) {
        (Some(ended), _) => format!("; {}", it_ended(ended)),
        (None, true) => "; ended early by the user".to_owned(),
        (None, false) => String::new(),
    };
    let method = &report.sampling;
    let kernel = if method.has_kernel { "user and kernel" } else { "user mode only" };
    let by_cpu = if method.is_by_cpu { " per CPU" } else { "" };
    let cost_ns = method.sample_cost.as_ref().and_then(Figure::as_number);
    let overhead = cost_ns.map_or(0.0, |ns| 100.0 * (ns * 1e-9 * method.rate_hz).min(1.0));
    let cost = match overhead {
        percent if percent >= OVERHEAD_PERCENT => format!(", {} % overhead", significant(percent)),
        _ => String::new(),
    };
    format!(
        "{}, {}, {}: {} samples of {} ({}/s{by_cpu}{cost}), {kernel}{ended}",
        sampled.name,
        processes(&sampled.pids),
        counted(report.threads.len() as u64, "thread"),
        count(report.samples),
        method.event,
        significant(method.rate_hz)
    )
}

/// Formats the busy share and capacity of threads that may be polling.
fn polling(report: &ProfileReport, style: &Style) -> String {
    let of_thread = |thread: &&SampledThread| {
        let runs_s = thread.samples as f64 * report.ns_per_sample() / 1e9;
        runs_s > ALWAYS * report.elapsed_s || thread.busy.as_number().is_some()
    };
    let threads = report.threads.iter().filter(of_thread).take(MOST_THREADS);
    threads.map(|thread| line("polling", &busy(thread), style)).collect()
}

fn busy(thread: &SampledThread) -> String {
    let name = format!("{} ({})", thread.name, thread.tid);
    let Some(share) = thread.busy.as_number() else {
        let why = reason(&thread.busy);
        return format!("{name}: cannot tell work from polling ({why}); costs include both");
    };
    let with_ends = |figure: &Figure, shown: fn(f64) -> String| {
        let value = cell(figure, shown);
        let ends = interval(figure, shown).map_or_else(String::new, |ends| format!(" ({ends})"));
        value + &ends
    };
    let ends = interval(&thread.busy, percent).map_or_else(String::new, |x| format!(" ({x})"));
    format!(
        "{name}: busy {} %{ends} of its CPU time, {} ns/packet; capacity {} kpps",
        percent(share),
        with_ends(&thread.ns_per_packet, three_digits),
        with_ends(&thread.capacity, |rate| three_digits(rate / 1e3)),
    )
}

/// Describes how callers were found, and how many call chains are incomplete.
fn callers(report: &ProfileReport) -> String {
    if let Some(format) = &report.imported_from {
        return format!("as in the output of {format}");
    }
    let Some(bytes) = report.sampling.stack_bytes else {
        return "by frame pointers; chains break in code built without them (--call-graph dwarf \
                avoids this)"
            .to_owned();
    };
    /// Minimum fraction of incomplete chains for which copying more of the stack is proposed.
    const MANY: f64 = 0.2;
    let cut = report.sampling.incomplete_chains.unwrap_or(0) as f64 / report.samples.max(1) as f64;
    let more = match cut > MANY && bytes < SamplingMethod::MAX_STACK_BYTES {
        true => format!(" (--call-graph dwarf,{} copies more)", SamplingMethod::MAX_STACK_BYTES),
        false => String::new(),
    };
    format!(
        "by .eh_frame, from {} bytes of stack per sample; {} % of the chains are incomplete{more}",
        count(u64::from(bytes)),
        percent(cut)
    )
}

fn processes(pids: &[u32]) -> String {
    match pids {
        [one] => format!("pid {one}"),
        [first, ..] => format!("{} processes, the first with pid {first}", pids.len()),
        [] => "process unknown".to_owned(),
    }
}

/// Lists the kinds of work on one line.
fn classes(report: &ProfileReport) -> String {
    let part = |one: &linerate_record::profile::ClassCost| {
        let share = cell(&one.share, percent);
        let ends = interval(&one.share, percent).map_or_else(String::new, |x| format!(" ({x})"));
        format!("{} {share} %{ends}", one.class.title())
    };
    const SHOWN: usize = 5;
    let parts: Vec<String> = report.classes.iter().take(SHOWN).map(part).collect();
    let more = match report.classes.len().saturating_sub(SHOWN) {
        0 => "",
        _ => ", ... (--details)",
    };
    parts.join(", ") + more
}

/// States how accurate the top function's share is, and how long to sample for better accuracy.
fn precision(report: &ProfileReport) -> String {
    let Some(needed) = report.samples_for(MARGIN) else {
        return "unknown: the window had too few slices; sample longer (-t)".to_owned();
    };
    let width = report.margin().map_or_else(|| ABSENT.to_owned(), percent);
    if needed <= report.samples {
        return format!("the top function's share is accurate to ±{width} points");
    }
    let seconds = report.elapsed_s * needed as f64 / report.samples.max(1) as f64;
    format!(
        "the top function's share is accurate to ±{width} points; ±1 point takes about {} \
         samples (-t {:.0}s)",
        count(needed),
        seconds.ceil()
    )
}

/// Formats the functions by self samples.
fn functions(report: &ProfileReport, most: usize, style: &Style) -> String {
    let has_packets = report.packets.is_some();
    let interval_head = interval_name() + "\n%";
    let mut columns = vec![">rank", ">share\n%", &interval_head, ">with\ncallees %"];
    if has_packets {
        columns.push(">ns/packet");
    }
    columns.extend(["work", "function (module)"]);
    let others = OTHER_COLUMNS + if has_packets { COST_COLUMNS } else { 0 };
    let room = style.width.saturating_sub(others).max(LEAST_COLUMNS);
    let mut grid = Grid::new(&columns);
    let ranks = report.ranks();
    let own = report.functions.iter().filter(|function| function.samples > 0).count();
    for (function, rank) in report.functions.iter().zip(ranks).take(most.min(own)) {
        let with_callees = function.samples_with_callees as f64 / report.samples.max(1) as f64;
        let name = clean(&format!("{} ({})", function.name, function.module));
        let name = if most == usize::MAX { name } else { cut(&name, room) };
        let mut row = vec![
            rank.to_string(),
            cell(&function.share, percent),
            interval(&function.share, percent).unwrap_or_else(|| ABSENT.to_owned()),
            percent(with_callees),
        ];
        if has_packets {
            row.push(function.ns_per_packet.as_number().map_or(ABSENT.to_owned(), three_digits));
        }
        row.extend([function.class.title(), name]);
        grid.row(row);
    }
    let more = match own.saturating_sub(most) {
        0 => String::new(),
        more => format!("{more} more functions with less time (--details)\n"),
    };
    grid.render(style) + &more + &ties(report, style)
}

/// Explains equal ranks, if there are any.
fn ties(report: &ProfileReport, style: &Style) -> String {
    let ranks = report.ranks();
    let is_tied = ranks.iter().enumerate().any(|(at, rank)| at > 0 && *rank < at + 1);
    match is_tied {
        true => crate::paragraph(
            "Functions with the same rank are tied: their intervals overlap.",
            0,
            style,
        ),
        false => String::new(),
    }
}

/// Describes the profiler's overhead and what could not be sampled.
fn unread(report: &ProfileReport, style: &Style) -> String {
    let mut names: Vec<&str> = report.unread.iter().map(|one| one.what.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let overhead = match report.observer.as_number() {
        Some(share) => {
            format!("{} % of a CPU for `linerate profile` itself", three_digits(share * 100.0))
        }
        None => reason(&report.observer).to_owned(),
    };
    let overhead = line("overhead", &overhead, style);
    match names.is_empty() {
        true => overhead,
        false => {
            let names = format!("{}: --details explains why", names.join(", "));
            overhead + &line("not read", &names, style)
        }
    }
}
