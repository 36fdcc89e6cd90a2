// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report in the layout of rpistat, which multiplexed nine ARM1176 events: raw counts, scaled
//! counts in brackets, and rates and ratios below each group of events.
//!
//! Three things are added: an error within the brackets, the tier unless it is `hw`, and a list of
//! missing events with reasons. Missing counts are shown as `-`. Dates are in UTC, as in the
//! record.

use super::events::Missing;
use super::{error, list};
use crate::value::{ABSENT, clean, count, cut, whole};
use linerate_record::shell::command_line;
use linerate_record::stat::{EventCount, StatReport, StatTarget};
use linerate_record::{Provenance, Tier};
use std::fmt::Write;

/// A line of the report.
enum Line {
    /// An event, counted or not.
    Event { label: &'static str, name: &'static str },
    /// Number of slices in which this event was counted.
    Periods { label: &'static str, of: &'static str },
    /// A metric with three decimals and a suffix.
    Metric { label: &'static str, name: &'static str, unit: &'static str },
    /// An empty line between groups.
    Blank,
}

const LINES: &[Line] = &[
    Line::Event { label: "Cycles", name: "cycles" },
    Line::Event { label: "Instructions", name: "instructions" },
    Line::Event { label: "IBUF stall cycles", name: "ibuf_stall_cycles" },
    Line::Periods { label: "Instr periods", of: "instructions" },
    Line::Metric { label: "CPI", name: "cpi", unit: "" },
    Line::Metric { label: "IBUF stall percent", name: "ibuf_stall_percent", unit: "%" },
    Line::Blank,
    Line::Event { label: "DC cached accesses", name: "l1d_accesses" },
    Line::Event { label: "DC misses", name: "l1d_misses" },
    Line::Periods { label: "DC periods", of: "l1d_accesses" },
    Line::Metric { label: "DC miss ratio", name: "l1d_miss_percent", unit: "%" },
    Line::Blank,
    Line::Event { label: "MicroTLB misses", name: "micro_tlb_misses" },
    Line::Event { label: "Main TLB misses", name: "main_tlb_misses" },
    Line::Periods { label: "TLB periods", of: "micro_tlb_misses" },
    Line::Metric { label: "Micro miss rate", name: "micro_tlb_miss_pti", unit: "PTI" },
    Line::Metric { label: "Main miss rate", name: "main_tlb_miss_pti", unit: "PTI" },
    Line::Blank,
    Line::Event { label: "Branches", name: "branches" },
    Line::Event { label: "Mispredicted BR", name: "branch_misses" },
    Line::Periods { label: "BR periods", of: "branches" },
    Line::Metric { label: "Branch rate", name: "branch_pti", unit: "PTI" },
    Line::Metric { label: "Mispredict ratio", name: "branch_miss_percent", unit: "%" },
];

/// Formats the report in rpistat's layout. Shows only the nine events of the metric set `rpistat`.
pub fn rpistat(report: &StatReport, provenance: &Provenance) -> String {
    let mut text = format!(
        "rpistat: {}\n{}\n\nSystem information\n",
        target(&report.target),
        date(provenance.unix_s)
    );
    let processors = provenance.cpus.len();
    text += &line("Number of processors", &format!("     {processors}"));
    text += "\nPerformance events\n  [ ... ] = scaled event count\n  PTI     = per thousand \
             instructions\n";
    text += match report.tier {
        Tier::Sim => "  tier    = sim: simulated, not counted on this processor\n",
        Tier::User => "  tier    = user: user mode only\n",
        Tier::Hw | Tier::Sw | Tier::Model => "",
    };
    let periods = report.rotation.as_ref().map_or(1, |rotation| rotation.slices);
    text += &line("Total periods", &count(periods));
    text.push('\n');
    for one in LINES {
        text += &shown(one, report);
    }
    text + &missing(report)
}

/// Formats `  label:   value` with the value in column 22, as rpistat does.
fn line(label: &str, value: &str) -> String {
    format!("  {:<20}{value}", format!("{label}:")).trim_end().to_owned() + "\n"
}

fn shown(one: &Line, report: &StatReport) -> String {
    let absent = || ABSENT.to_owned();
    match *one {
        Line::Event { label, name } => {
            line(label, &find(report, name).map_or_else(absent, counted))
        }
        Line::Periods { label, of } => line(label, &periods(report, of).map_or_else(absent, count)),
        Line::Metric { label, name, unit } => {
            let metric = report.metrics.iter().find(|metric| metric.name == name);
            let value = metric.and_then(|metric| metric.figure.as_number());
            line(label, &value.map_or_else(absent, |value| with_unit(value, unit)))
        }
        Line::Blank => "\n".to_owned(),
    }
}

fn find<'a>(report: &'a StatReport, name: &str) -> Option<&'a EventCount> {
    report.events.iter().find(|event| event.name == name)
}

/// Formats the raw count and, if the event was multiplexed, the scaled count with its error.
fn counted(event: &EventCount) -> String {
    let Some(value) = event.count.as_number() else { return ABSENT.to_owned() };
    match event.raw {
        Some(raw) if event.duty.is_some_and(|duty| duty < 1.0) => {
            let error =
                error(&event.count).map_or_else(String::new, |error| format!(" +- {error}"));
            format!("{}  [{}{error}]", count(raw), whole(value))
        }
        _ => whole(value),
    }
}

/// Returns the number of slices in which an event was counted: 1 without multiplexing, and `None`
/// if the event was not counted.
fn periods(report: &StatReport, name: &str) -> Option<u64> {
    let event = find(report, name)?;
    event.count.as_number()?;
    Some(event.periods.unwrap_or(1))
}

/// Formats a value and its unit in rpistat's columns, which are one narrower before `%`.
fn with_unit(value: f64, unit: &str) -> String {
    let columns = if unit == "%" { 6 } else { 7 };
    format!("{:<columns$} {unit}", format!("{value:.3}"))
}

/// Lists the reasons for missing events, without duplicates.
fn missing(report: &StatReport) -> String {
    let events = LINES.iter().filter_map(|line| match *line {
        Line::Event { label, name } => Some((label, find(report, name)?)),
        _ => None,
    });
    let mut text = String::new();
    for group in Missing::of(events) {
        let (labels, why) = (group.labels.join(", "), clean(group.why));
        // Writing to a String cannot fail.
        let _ = write!(text, "\n  - = not counted: {labels}\n      {why}\n");
        for fix in group.fixes() {
            let _ = writeln!(text, "      try: {}", clean(&fix));
        }
    }
    text
}

/// Maximum width of the command in columns; the layout itself has no fixed width.
const COMMAND_COLUMNS: usize = 80;

fn target(target: &StatTarget) -> String {
    match target {
        StatTarget::Command { argv } => clean(&cut(&command_line(argv), COMMAND_COLUMNS)),
        StatTarget::Process { pid } => format!("process {pid}"),
        StatTarget::Cpus { cpus } => format!("processors {}", list(cpus)),
    }
}

/// Formats a time as asctime(3) does, plus the time zone: `Thu Jun 27 09:58:08 2013`.
fn date(unix_s: u64) -> String {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, seconds) = (unix_s / 86_400, unix_s % 86_400);
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    // Any 400 calendar years have the same number of days, wherever they start.
    let (mut year, mut day) = (1970 + days / 146_097 * 400, days % 146_097);
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let weekday = WEEKDAYS[(days % 7) as usize];
    let month = MONTHS[month];
    format!("{weekday} {month} {:>2} {hour:02}:{minute:02}:{second:02} {year} UTC", day + 1)
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_are_those_of_date() {
        // Expected dates, from `date -u -d @N`.
        let table = [
            (0, "Thu Jan  1 00:00:00 1970 UTC"),
            (951_782_400, "Tue Feb 29 00:00:00 2000 UTC"),
            (951_868_799, "Tue Feb 29 23:59:59 2000 UTC"),
            (1_372_327_088, "Thu Jun 27 09:58:08 2013 UTC"),
            (1_798_761_599, "Thu Dec 31 23:59:59 2026 UTC"),
            (4_107_542_400, "Mon Mar  1 00:00:00 2100 UTC"),
            (13_574_563_200, "Tue Feb 29 00:00:00 2400 UTC"),
        ];
        for (seconds, text) in table {
            assert_eq!(date(seconds), text);
        }
    }
}
