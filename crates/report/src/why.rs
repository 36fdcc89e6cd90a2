// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of a `why` record: the answer, the fix, what would disprove the answer, and the
//! evidence, which is the packet ledger and the threads' time budgets.

mod details;
pub(crate) mod packets;
mod remarks;
mod sockets;
mod threads;

use crate::layout::{Grid, Paint, labelled, stacked};
use crate::value::{clean, count, significant, whole};
use crate::{Detail, Style};
use linerate_record::units::{BitsPerSecond, Nanos, three_digits};
use linerate_record::why::{
    Cause, Observation, PacketCount, ProgramCounts, SocketKind, ThreadState, WhyFinding, WhyReport,
};
use linerate_record::{Figure, Tier};

/// Formats a diagnosis, on one screen or in full.
pub fn why(report: &WhyReport, detail: Detail, style: &Style) -> String {
    let observation = &report.observation;
    let first = report.findings.first();
    let mut blocks = vec![
        first.map_or_else(String::new, |first| answer(first, observation, style))
            + &remarks::remarks(&report.remarks, detail, style)
            + &others(report.findings.get(1..).unwrap_or_default(), style)
            + &watched(observation, style),
        packets::packets(observation, detail, style),
        threads::threads(observation, detail, style),
        per_packet(observation, style),
    ];
    match detail {
        Detail::Screen | Detail::Brief => blocks.push(unread(observation, style)),
        Detail::Full => {
            let others = report.findings.iter().skip(1);
            blocks.extend(others.map(|one| answer(one, observation, style)));
            blocks.push(details::details(report, style));
        }
    }
    stacked(&blocks)
}

/// Formats one line per window: time, rate, gain, finding, keywords of remarks.
pub fn why_line(report: &WhyReport, style: &Style) -> String {
    let observation = &report.observation;
    let Some(first) = report.findings.first() else { return String::new() };
    let rate = observation.packets.as_ref().map_or_else(
        || "-".to_owned(),
        |count| whole(count.packets as f64 / observation.elapsed_s.max(f64::MIN_POSITIVE)),
    );
    let text = format!(
        "{} s, {rate} packets/s, gain {}: {}{}",
        significant(observation.elapsed_s),
        gain_value(&first.gain.percent),
        first.sentence,
        remarks::in_short(&report.remarks)
    );
    // Always a single line per window regardless of width, for grep and tail.
    let unbroken = Style { width: usize::MAX, ..*style };
    labelled(first.cause.title(), Paint::Head, &clean(&format!("  {text}")), &unbroken)
}

/// Formats the known cause of a synthetic problem, for comparison with the answer.
pub fn why_truth(sentence: &str, style: &Style) -> String {
    format!("\n{}", line("truth", sentence, style))
}

fn line(label: &str, text: &str, style: &Style) -> String {
    labelled(label, Paint::Head, &clean(text), style)
}

/// Formats what was observed, for how long, and from which evidence.
fn watched(observation: &Observation, style: &Style) -> String {
    let watched = &observation.watched;
    let pids: Vec<String> = watched.pids.iter().take(4).map(u32::to_string).collect();
    let more = match watched.pids.len().saturating_sub(4) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let pids = match (pids.is_empty(), busiest(observation)) {
        (true, _) => String::new(),
        (false, Some(pid)) => {
            format!(" (pid {pid}), the busiest of pid {}{more}", pids.join(", "))
        }
        (false, None) => format!(", pid {}{more}", pids.join(", ")),
    };
    let program = observation.program.as_ref().map_or_else(String::new, |program| {
        let name = program.program.as_deref().unwrap_or(&program.adapter);
        format!(" ({name}, counted by {})", program.adapter)
    });
    let interface =
        watched.interface.as_ref().map_or_else(String::new, |name| format!(", interface {name}"));
    let ended = match (&watched.ended, watched.interrupted) {
        (Some(ended), _) => format!("; {}", crate::profile::it_ended(ended)),
        (None, true) => "; ended early by the user".to_owned(),
        (None, false) => String::new(),
    };
    let threads = observation.threads.len() + observation.threads_left_out as usize;
    let threads = match threads {
        0 => String::new(),
        1 => ", 1 thread".to_owned(),
        n => format!(", {n} threads"),
    };
    let text = format!(
        "{}{program}{pids}{threads}{interface}, {} s{ended}",
        watched.name,
        significant(observation.elapsed_s)
    );
    line("watched", &text, style)
}

/// Returns the process after which the observation is named, if it is not the first of those
/// watched: if the first one merely waits, as a shell does, the observation is named after the
/// process that does the work. `None` if it is the first, or if no watched process has that name.
fn busiest(observation: &Observation) -> Option<u32> {
    let Observation { watched, threads, .. } = observation;
    let mut named = threads.iter().filter(|one| one.tid == one.pid && one.name == watched.name);
    let pid = named.next()?.pid;
    let is_first = watched.pids.first() == Some(&pid)
        || named.any(|one| Some(&one.pid) == watched.pids.first());
    (!is_first && watched.pids.contains(&pid)).then_some(pid)
}

/// Formats a finding in full.
fn answer(finding: &WhyFinding, observation: &Observation, style: &Style) -> String {
    let paint = match finding.cause {
        Cause::NothingWrong => Paint::Good,
        _ => Paint::Warning,
    };
    let claim = match finding.cause.is_removable() {
        true => format!("{}: {}", finding.cause.title(), finding.sentence),
        false => finding.sentence.clone(),
    };
    let mut text = labelled("finding", paint, &clean(&claim), style);
    if finding.cause.is_removable() {
        text += &line("gain", &gain(finding, observation), style);
    }
    if let Some(fix) = &finding.fix {
        let label = if finding.cause == Cause::CannotTell { "next" } else { "do" };
        text += &line(label, fix, style);
    }
    if let Some(workaround) = &finding.workaround {
        text += &line("or", &format!("{workaround} (eases the symptom; the cause remains)"), style);
    }
    // A finding without a claim cannot be disproved.
    if finding.cause == Cause::CannotTell {
        return text;
    }
    text + &line("wrong if", &finding.wrong_if, style)
}

/// Formats the predicted gain from removing the cause.
fn gain(finding: &WhyFinding, observation: &Observation) -> String {
    let percent = &finding.gain.percent;
    let then = finding.gain.then_limited_by.as_deref();
    let then = then.map_or_else(String::new, |then| format!("; the next limit is {then}"));
    match percent.as_number() {
        Some(_) => {
            let tier = if percent.tier == Tier::Model { ", model" } else { "" };
            let is_ratio = is_open(percent) || is_multiple(percent);
            let plus = if is_ratio { ": " } else { " +" };
            // A program that captures packets has no requests.
            let captures = observation.sockets.iter().any(|one| one.kind == SocketKind::Packet);
            let rate = if captures { "throughput" } else { finding.cause.rate() };
            format!("{rate}{plus}{}{tier}{then}", gain_value(percent))
        }
        None => format!("not predicted: {}{then}", crate::value::reason(percent)),
    }
}

/// Returns whether a prediction's interval ranges from no gain to several times the rate, so that
/// its central value means little.
fn is_open(percent: &Figure) -> bool {
    const NOTHING: f64 = 1.0;
    const MULTIPLE: f64 = 300.0;
    percent.low.is_some_and(|low| low < NOTHING) && percent.high.is_none_or(|high| high >= MULTIPLE)
}

/// Returns whether even the low end of a prediction is many times the rate, which reads better as a
/// factor than as thousands of percent.
fn is_multiple(percent: &Figure) -> bool {
    const MULTIPLE: f64 = 900.0;
    percent.low.is_some_and(|low| low >= MULTIPLE)
}

/// Returns whether the ends of a prediction's interval, as factors of the rate, are so far apart
/// that the high end says nothing.
fn is_unbounded(low: f64, high: f64) -> bool {
    const FACTOR: f64 = 10.0;
    100.0 + high >= FACTOR * (100.0 + low)
}

/// Formats a gain with its interval: `94 % (47 to 103 %)`.
fn gain_value(percent: &Figure) -> String {
    let Some(value) = percent.as_number() else { return "-".to_owned() };
    let whole = |value: f64| match value {
        0.0 => "0".to_owned(),
        value if value.abs() < 10.0 => format!("{value:.1}"),
        value => whole(value),
    };
    match (percent.low, percent.high) {
        (_, Some(high)) if is_open(percent) => {
            format!("up to {:.0} times the rate", 1.0 + high / 100.0)
        }
        (Some(_), None) if is_open(percent) => "possibly many times the rate".to_owned(),
        (Some(low), Some(high)) if whole(low) == whole(value) && whole(low) != whole(high) => {
            format!("{} to {} %", whole(low), whole(high))
        }
        (Some(low), None) if is_multiple(percent) => {
            format!("{:.0} times the rate or more", 1.0 + low / 100.0)
        }
        (Some(low), Some(high)) if is_multiple(percent) => {
            let times = |percent: f64| crate::value::whole(1.0 + percent / 100.0);
            match times(low) == times(high) {
                true => format!("{} times the rate", times(low)),
                false => format!("{} to {} times the rate", times(low), times(high)),
            }
        }
        (Some(low), None) => format!("{} % or more", whole(low)),
        (Some(low), Some(high)) if whole(low) == whole(high) => format!("{} %", whole(value)),
        (Some(low), Some(high)) if is_unbounded(low, high) => {
            format!("{} % (at least {} %, upper bound unknown)", whole(value), whole(low))
        }
        (Some(low), Some(high)) => {
            format!("{} % ({} to {} %)", whole(value), whole(low), whole(high))
        }
        _ => format!("{} %", whole(value)),
    }
}

/// Formats the other findings, one line each.
fn others(findings: &[WhyFinding], style: &Style) -> String {
    /// Maximum number of lines; --details shows all.
    const MOST: usize = 3;
    let one = |finding: &WhyFinding| {
        let text = format!(
            "{}, gain {} (--details)",
            finding.cause.title(),
            gain_value(&finding.gain.percent)
        );
        line("also", &text, style)
    };
    findings.iter().take(MOST).map(one).collect()
}

/// Number of packets below which per-packet costs are meaningless, because most of the time was
/// spent on something else.
const FEW: u64 = 100;

/// Formats the per-packet cost and budget.
fn per_packet(observation: &Observation, style: &Style) -> String {
    let packets = observation.packets.as_ref().map_or(0, |count| count.packets);
    let mut text = String::new();
    match packets {
        0 => {}
        1..FEW => {
            let few = format!("- ({packets} packets are too few for per-packet costs)");
            text += &line("per packet", &few, style);
        }
        _ if observation.leaves_packets_unread() => {
            let unread = "- (the program used too little CPU time to have read these packets)";
            text += &line("per packet", unread, style);
        }
        _ => text += &line("per packet", &costs(observation, packets as f64), style),
    }
    if let Some(budget) = budget(observation) {
        text += &line("budget", &budget, style);
    }
    // Packet counters are in the ledger.
    let is_in_ledger =
        |program: &ProgramCounts| program.of_packets().is_some_and(|own| own.received.is_some());
    if let Some(program) = observation.program.as_ref().filter(|program| !is_in_ledger(program)) {
        text += &line("program", &own_counts(program), style);
    }
    text
}

/// Formats the program's own counters, leaving out missing ones.
fn own_counts(program: &ProgramCounts) -> String {
    let unit = &program.unit;
    let main = [
        (program.received, format!("{unit} received")),
        (program.sent, format!("{unit} sent")),
        (program.missed, format!("{unit} missed")),
        (program.bytes, "bytes received".to_owned()),
    ];
    let main = main.into_iter().filter_map(|(number, name)| Some((number?, name)));
    let others = program.others.iter().map(|(name, number)| (*number, name.replace('_', " ")));
    let parts: Vec<String> =
        main.chain(others).map(|(number, name)| format!("{} {name}", count(number))).collect();
    match parts.is_empty() {
        true => format!("counted nothing ({})", program.adapter),
        false => format!("counted {} ({})", parts.join(", "), program.adapter),
    }
}

fn costs(observation: &Observation, packets: f64) -> String {
    let threads = &observation.threads;
    let seconds: f64 =
        threads.iter().map(|t| t.share_of(|state| state.is_on_cpu()) * t.elapsed_s).sum();
    let ended = observation.ended_threads_cpus.unwrap_or(0.0) * observation.elapsed_s;
    let seconds = seconds + ended;
    let polls = threads.iter().any(|t| t.share(ThreadState::Polling).is_some());
    let may_poll = threads.iter().any(|t| t.share_of(|state| state == ThreadState::Asleep) < 0.01);
    let polling = match (polls, may_poll) {
        (true, _) => " with polling",
        (false, true) => " (may include polling)",
        (false, false) => "",
    };
    let mut parts = vec![format!("{} on CPU{polling}", per_packet_time(seconds * 1e9 / packets))];
    if let Some(calls) = threads.iter().map(|t| t.system_calls).sum::<Option<u64>>() {
        parts.push(format!("{} system calls", three_digits(calls as f64 / packets)));
    }
    let sum = |of: fn(&linerate_record::why::ThreadActivity) -> u64| -> f64 {
        threads.iter().map(of).sum::<u64>() as f64 / packets
    };
    let switches = sum(|t| t.voluntary_switches + t.involuntary_switches);
    let faults = sum(|t| t.minor_faults + t.major_faults);
    parts.push(format!("{} switches", three_digits(switches)));
    parts.push(format!("{} page faults", three_digits(faults)));
    if let Some(bytes) = observation.packets.as_ref().and_then(|count| count.bytes) {
        parts.push(format!("{} bytes", three_digits(bytes as f64 / packets)));
    }
    let counter = observation.packets.as_ref().map_or("-", |count| count.counter.as_str());
    format!("{} (packets counted by {counter})", parts.join(", "))
}

/// Formats a time per packet: in nanoseconds, like budgets, unless it is far longer than any
/// budget.
fn per_packet_time(ns: f64) -> String {
    const MOST_NS: f64 = 1e5;
    if ns < MOST_NS { format!("{} ns", three_digits(ns)) } else { Nanos(ns).to_string() }
}

/// Formats the time between packets of mean size at line rate, in nanoseconds, if a line rate was
/// given.
fn budget(observation: &Observation) -> Option<String> {
    let line = observation.watched.line_bits_per_s?;
    let count = observation.packets.as_ref();
    let Some(bytes) = count.and_then(PacketCount::wire_bytes) else {
        return Some(format!(
            "- (packet bytes are not counted, so the time per packet at {} is unknown)",
            BitsPerSecond(line)
        ));
    };
    Some(format!(
        "{} ns per packet at {}: packets take {} bytes on the wire on average",
        three_digits(8.0 * bytes / line * 1e9),
        BitsPerSecond(line),
        three_digits(bytes)
    ))
}

/// Lists what could not be read, on one line.
fn unread(observation: &Observation, style: &Style) -> String {
    let mut names: Vec<&str> = observation.unread.iter().map(|one| one.what.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let watching = match observation.observer.as_number() {
        Some(share) => line(
            "overhead",
            &format!("{} % of a CPU for `linerate why` itself", three_digits(share * 100.0)),
            style,
        ),
        None => String::new(),
    };
    match names.is_empty() {
        true => watching,
        false => {
            watching
                + &line("not read", &format!("{}: --details explains why", names.join(", ")), style)
        }
    }
}

/// Adds a row, replacing control characters because its texts may come from other programs.
fn put(grid: &mut Grid, cells: Vec<String>) {
    grid.row(cells.iter().map(|cell| clean(cell)).collect());
}

/// Formats a count, or `-`.
fn maybe(value: Option<u64>) -> String {
    value.map_or_else(|| crate::value::ABSENT.to_owned(), count)
}

#[cfg(test)]
mod tests {
    use super::gain_value;
    use linerate_record::{Figure, Tier};

    #[test]
    fn a_gain_between_nothing_and_a_multiple_has_no_middle() {
        let gain = |low: f64, value: f64, high: f64| {
            let figure = Figure::exact("percent", value, Tier::Model, "");
            gain_value(&Figure { low: Some(low), high: Some(high), ..figure })
        };
        assert_eq!(gain(47.0, 94.0, 103.0), "94 % (47 to 103 %)");
        assert_eq!(gain(0.0, 20.0, 62.0), "20 % (0 to 62 %)");
        assert_eq!(gain(0.0, 0.0, 2100.0), "up to 22 times the rate");
        let open = |low: f64, value: f64| {
            let figure = Figure::exact("percent", value, Tier::Model, "");
            gain_value(&Figure { low: Some(low), ..figure })
        };
        assert_eq!(open(220.0, 3200.0), "220 % or more");
        assert_eq!(open(1900.0, 9900.0), "20 times the rate or more");
        assert_eq!(gain(1900.0, 3200.0, 4900.0), "20 to 50 times the rate");
        assert_eq!(gain(567.0, 567.0, 567.2), "567 %");
        assert_eq!(gain(19.0, 182.0, 9900.0), "182 % (at least 19 %, upper bound unknown)");
        assert_eq!(gain(300.0, 1500.0, 1800.0), "1,500 % (300 to 1,800 %)");
        assert_eq!(gain(0.0, 0.0, 58.0), "0 to 58 %");
        assert_eq!(open(0.0, 3200.0), "possibly many times the rate");
    }
}
