// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats the headlines of records about routines, machines, counts and imported profiles.

use super::{claim, share};
use crate::value::{cell, clean, cut, interval, percent, reason, significant};
use linerate_record::answers::{Answer, AnswerVerdict, AnswersReport};
use linerate_record::doctor::{DoctorReport, Verdict};
use linerate_record::kernels::KernelsReport;
use linerate_record::memory::{CurvePoint, MemoryLevel, MemoryReport};
use linerate_record::profile::ProfileReport;
use linerate_record::regions::{RegionTotal, RegionsReport};
use linerate_record::stat::{Judged, StatReport, StatTarget};
use linerate_record::strands::{Bound, CpiByCause, StrandsReport};
use linerate_record::tcp::{TcpLaw, TcpPattern, TcpReport, TcpStack};
use linerate_record::units::{Nanos, counted, grouped, memory_size, three_digits};
use linerate_record::{Figure, Tier};

pub(super) fn of_kernels(report: &KernelsReport) -> Vec<String> {
    match report.wrong.as_slice() {
        [] => crate::kernels::answer(report),
        [first, rest @ ..] => {
            let more = match rest.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            vec![format!("Wrong result: {} variant {}{more}", first.kernel, first.variant)]
        }
    }
}

/// The headline prints an interval instead of the value if its ends differ by more than this
/// factor.
const WIDE: f64 = 1.5;

/// Lists the cache and memory levels with size and latency, nearest to the core first.
pub(super) fn of_memory(report: &MemoryReport) -> Vec<String> {
    if report.levels.is_empty() {
        return vec!["Cannot tell: no cache level stands out from the noise".to_owned()];
    }
    let level = |level: &MemoryLevel| {
        let size = level.size_bytes.as_number().map(|bytes| {
            let ends = level.size_bytes.low.zip(level.size_bytes.high);
            match ends.filter(|(low, high)| *high > WIDE * low) {
                Some((low, high)) => format!(" {} to {}", memory_size(low), memory_size(high)),
                None => format!(" {}", memory_size(bytes)),
            }
        });
        let time = level.latency_ns.as_number();
        let time = time.map_or_else(|| "-".to_owned(), |ns| format!("{} ns", three_digits(ns)));
        format!("{}{} {time}", level.name, size.unwrap_or_default())
    };
    let levels = report.levels.iter().map(level).collect::<Vec<_>>().join(", ");
    vec![levels, longest_chain(report).unwrap_or_default()]
}

/// Formats the latency of the longest chain, if no level is known to be memory.
fn longest_chain(report: &MemoryReport) -> Option<String> {
    if report.levels.iter().any(|level| level.name == "memory") {
        return None;
    }
    let measured = |point: &CurvePoint| Some((point.bytes, point.latency_ns.as_number()?));
    let points = report.curves.first()?.points.iter().filter_map(measured);
    let (bytes, ns) = points.max_by_key(|(bytes, _)| *bytes)?;
    Some(format!("a chain of {} {} ns", memory_size(bytes as f64), three_digits(ns)))
}

/// For each stack, names the pattern in which the selected routines take the largest share of time.
pub(super) fn of_tcp(report: &TcpReport) -> Vec<String> {
    let most = |stack: &TcpStack| {
        let shares = stack.patterns.iter().filter_map(|p| Some((share_of_routines(report, p)?, p)));
        let (most, pattern) = shares.max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((share(most), format!("{} ({})", stack.name, pattern.name)))
    };
    let stacks: Vec<(String, String)> = report.stacks.iter().filter_map(most).collect();
    if let [(first, place), rest @ ..] = stacks.as_slice() {
        let rest = rest.iter().map(|(part, place)| format!(", {part} % in {place}"));
        let rest: String = rest.collect();
        return vec![format!(
            "Checksum and copy take up to {first} % of CPU time in {place}{rest}"
        )];
    }
    let law = |law: &TcpLaw| {
        let exponent = law.exponent_loss.as_number()?;
        Some(format!("{}: throughput scales as loss^{exponent:.2}", law.stack))
    };
    let laws: Vec<String> = report.laws.iter().filter_map(law).collect();
    if laws.is_empty() {
        vec!["The CPU time of checksum and copy was not measured".to_owned()]
    } else {
        laws
    }
}

fn share_of_routines(report: &TcpReport, pattern: &TcpPattern) -> Option<f64> {
    let set = pattern.sets.iter().find(|set| set.name == report.selected)?;
    let shares = [&set.share_checksum, &set.share_copy, &set.share_copy_checksum];
    let known: Vec<f64> = shares.into_iter().filter_map(Figure::as_number).collect();
    (!known.is_empty()).then(|| known.iter().sum())
}

pub(super) fn of_stat(report: &StatReport) -> Vec<String> {
    let time = |name: &str| report.times.get(name).and_then(Figure::as_number);
    let elapsed = Nanos(time("elapsed_s").unwrap_or(report.elapsed_s) * 1e9);
    // The counts of a killed command cover only part of its work, so the signal comes first.
    let signal = report.ended.and_then(|ended| ended.signal);
    let found = [baseline(report), hottest(report)];
    let used = match (signal, time("cpus_used"), &report.target) {
        (Some(signal), ..) => {
            format!("The command was {} after {elapsed}", crate::stat::killed_by(signal))
        }
        // The times are the simulator's, not the command's.
        _ if report.tier == Tier::Sim => simulated(report, elapsed),
        (None, Some(cpus), _) => format!("{} CPUs used for {elapsed}", significant(cpus)),
        (None, None, StatTarget::Command { .. }) => format!("The command took {elapsed}"),
        (None, None, _) => format!("Counted for {elapsed}"),
    };
    let ipc = report.metrics.iter().find(|metric| metric.name == "ipc");
    let ipc = ipc.and_then(|metric| metric.figure.as_number());
    let ipc = ipc.map_or_else(String::new, |ipc| format!("IPC {}", significant(ipc)));
    let counters = if report.tier == Tier::Sw { "no hardware counters" } else { "" };
    found.into_iter().chain([used, ipc, counters.to_owned()]).collect()
}

/// Formats the instructions of a simulated command and its misses of the first data cache; the
/// simulator's run time if neither was counted.
fn simulated(report: &StatReport, elapsed: Nanos) -> String {
    let count = |name: &str, unit: &str| {
        let event = report.events.iter().find(|event| event.name == name)?;
        Some(format!("{} {unit}", grouped(event.count.as_number()? as u64)))
    };
    let counts = [count("instructions", "instructions"), count("l1d_misses", "L1d misses")];
    match counts.into_iter().flatten().collect::<Vec<_>>().as_slice() {
        [] => format!("Simulated in {elapsed}"),
        counts => format!("{} (simulated)", counts.join(", ")),
    }
}

/// Names the function with the highest count of the requested event; empty if there are no counts.
fn hottest(report: &StatReport) -> String {
    let Some(hot) = &report.hot else { return String::new() };
    let count = |counts: &[u64]| hot.count(&hot.by, counts);
    let (total, first) = (count(&hot.totals), hot.functions.first());
    let Some(first) = first.filter(|_| total > 0) else { return String::new() };
    let share = percent(count(&first.counts) as f64 / total as f64);
    format!("Hottest: `{}`, {share} % of {}", clean(&first.name), clean(&hot.by))
}

/// Summarizes the comparison with the baseline, if there is one.
fn baseline(report: &StatReport) -> String {
    let worse = report.baseline.iter().filter(|one| one.is_regression);
    let worse: Vec<&str> = worse.map(|one| one.name.as_str()).collect();
    match worse.as_slice() {
        [] if report.baseline.is_empty() => String::new(),
        [] if !report.baseline.iter().any(|one| one.judged == Judged::Yes) => {
            "Cannot tell whether there is a regression".to_owned()
        }
        [] => "No regression".to_owned(),
        [first] => format!("Regression: {first}"),
        [first, rest @ ..] => format!("Regression: {first} and {} more", rest.len()),
    }
}

pub(super) fn of_doctor(report: &DoctorReport) -> Vec<String> {
    let best = report.best_tier;
    let better = report.tiers.iter().take_while(|tier| tier.tier != best);
    let mut missing: Vec<&str> =
        better.filter(|tier| !tier.works).map(|tier| tier.tier.name()).collect();
    missing.dedup();
    let missing = match missing.is_empty() {
        true => String::new(),
        false => format!(" ({} not available)", missing.join(", ")),
    };
    let is_wrong = |verdict| matches!(verdict, Verdict::Advice | Verdict::Missing);
    let wrong = report.observations.iter().filter(|one| is_wrong(one.verdict)).count();
    let settings = match wrong {
        0 => "all settings are good".to_owned(),
        1 => "1 setting costs accuracy or speed".to_owned(),
        n => format!("{n} settings cost accuracy or speed"),
    };
    vec![format!("Best evidence tier: {}{missing}", best.name()), settings]
}

/// Names the region with the most exclusive time.
pub(super) fn of_regions(report: &RegionsReport) -> Vec<String> {
    let totals = report.totals();
    let own = |total: &RegionTotal<'_>| total.own_ticks.as_number();
    let all: f64 = totals.iter().filter_map(own).sum();
    let most = totals.iter().filter_map(|total| Some((own(total)?, total)));
    match most.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((ticks, total)) if all > 0.0 => vec![
            format!(
                "Most time: `{}`, {} % of the time in all regions",
                total.name,
                share(ticks / all)
            ),
            format!("{} ticks in {}", significant(ticks), counted(total.visits, "visit")),
        ],
        _ => {
            let why = totals.iter().find_map(|total| total.own_ticks.reason.as_deref());
            vec![format!("Time unknown: {}", why.unwrap_or("no region was entered"))]
        }
    }
}

/// Names the function with the most self samples, and states how many others may be equally hot.
pub(super) fn of_profile(report: &ProfileReport) -> Vec<String> {
    const NAME_COLUMNS: usize = 40;
    /// Minimum number of samples: with fewer, every interval spans more than 35 percentage points.
    const MIN_SAMPLES: u64 = 30;
    let Some(first) = report.functions.first() else { return vec!["No samples".to_owned()] };
    if report.samples < MIN_SAMPLES {
        let samples = counted(report.samples, "sample");
        let cpu = Nanos(report.cpu_s * 1e9);
        let ended = report.sampled.ended.as_ref();
        return vec![
            format!("Cannot tell what is hottest: only {samples} in {cpu} of CPU time"),
            ended.map_or_else(String::new, |ended| crate::profile::it_ended(ended)),
        ];
    }
    let share = &first.share;
    let ties = report.ranks().iter().filter(|rank| **rank == 1).count();
    let interval = interval(share, percent).map_or_else(String::new, |ends| format!(" ({ends})"));
    let value = cell(share, percent);
    let name = cut(&clean(&first.name), NAME_COLUMNS);
    let tied = match ties {
        0 | 1 => String::new(),
        ties => format!("{} more may be as hot", ties - 1),
    };
    vec![format!("Hottest: `{name}`, {value} %{interval} of the CPU time"), tied]
}

/// Names the strand with the most ticks per packet.
pub(super) fn of_strands(report: &StrandsReport) -> Vec<String> {
    let strands = &report.strands;
    let count = match strands.len() {
        1 => "1 strand".to_owned(),
        n => format!("{n} strands"),
    };
    let known = strands.iter().filter_map(|one| Some((one.ticks_per_packet.as_number()?, one)));
    match (known.max_by(|a, b| a.0.total_cmp(&b.0)), strands.first()) {
        (Some((ticks, strand)), _) => {
            let bound =
                strand.cpi_by_cause.as_ref().map_or("", |causes| bound(causes, &strand.cpi));
            let (label, ticks) = (strand.label(), significant(ticks));
            vec![format!("Busiest: `{label}`, {ticks} ticks per packet{bound}"), count]
        }
        (None, Some(first)) => {
            vec![format!("Ticks per packet unknown: {}", reason(&first.ticks_per_packet)), count]
        }
        (None, None) => vec![format!("No strands in the input ({})", report.format)],
    }
}

/// Fraction of a strand's cycles above which no cause explains most of them.
const HALF: f64 = 0.5;

/// Formats whether a strand is compute-bound or memory-bound; if no cause explains most of its
/// cycles, by which rule.
fn bound(causes: &CpiByCause, cpi: &Figure) -> &'static str {
    let unexplained = causes.unexplained.as_number().zip(cpi.as_number());
    match causes.bound {
        Bound::Compute => ", compute-bound",
        Bound::Memory if unexplained.is_some_and(|(rest, all)| rest > HALF * all) => {
            ", memory-bound by rule of thumb"
        }
        Bound::Memory => ", memory-bound",
        Bound::CannotTell => "",
    }
}

/// Returns the first answer, and how many questions were answered.
pub(super) fn of_answers(report: &AnswersReport) -> Vec<String> {
    let answered = || report.answers.iter().filter(|one| one.verdict == AnswerVerdict::Answered);
    // The finding of an observed program is one long sentence: it is printed once, below.
    let is_observed = report.kind_of == "why";
    let first = answered().next().filter(|_| !is_observed);
    let first = first.map(|answer| claim(&answer.sentence).to_owned());
    let is_known = |one: &&Answer| one.verdict != AnswerVerdict::CannotTell;
    let (known, all) = (report.answers.iter().filter(is_known).count(), report.answers.len());
    let count = match (all, first.is_some() || is_observed && known == 1) {
        (1, true) => String::new(),
        _ => format!("{known} of {all} questions answered"),
    };
    vec![first.unwrap_or_default(), count]
}
