// SPDX-License-Identifier: MIT OR Apache-2.0
//! `perf stat` output: one event per line, in JSON (`-j`), with separators (`-x`), or as plain
//! text.
//!
//! Whatever perf counted separately becomes a strand: a CPU (`-A`), a core, a thread, a control
//! group (`-G`), or the whole command. The counts of intervals (`-I`) are added up. These fields
//! are read:
//!
//! ```text
//! [timestamp] [CPU, core, thread [number of CPUs]] count unit event [cgroup] [variance] time share
//! ```
//!
//! With `-x`, the output does not indicate which of the first three fields are present. They are
//! inferred from the columns that follow, since only a count is followed by a non-numeric unit, an
//! event name, and the time and share for which it was counted.
//!
//! Counts that perf scaled, because the event was on a counter for only part of the time, are used
//! as printed, and marked. perf does not report the scaling error, which cannot be derived from a
//! single total. Only the raw count is certain; it serves as a lower bound:
//!
//! ```text
//! counted = count * share of the time that it was counted
//! ```
//!
//! The metrics that perf prints are ignored, because linerate computes metrics from the counts.

mod plain;

use crate::derive::{Sum, from_sums};
use crate::perf::{UNITS, split_modifiers};
use crate::{CYCLES, INSTRUCTIONS, NothingRead, numbered};
use linerate_record::Tier;
use linerate_record::strands::{ForeignFormat, InputFault, StrandsReport};
use serde_json::Value;

/// Prefix of the names of strands that are control groups. One group may contain another.
const CGROUP: &str = "cgroup ";

/// Name of the only strand if perf counted all programs on CPUs.
const SYSTEM_WIDE: &str = "system wide";

/// Field separators, most likely first.
const SEPARATORS: [char; 5] = [',', ';', '\t', '|', ':'];

/// Software events, whose names do not depend on the processor.
const SOFTWARE: [&str; 12] = [
    "task_clock",
    "cpu_clock",
    "duration_time",
    "user_time",
    "system_time",
    "page_faults",
    "minor_faults",
    "major_faults",
    "context_switches",
    "cpu_migrations",
    "alignment_faults",
    "emulation_faults",
];

/// Returns whether a line unmistakably comes from perf.
pub(crate) fn is_its_own(line: &str) -> bool {
    plain::is_its_own(line)
        || json(line).is_some()
        || SEPARATORS.iter().any(|&separator| fields(line, separator).is_some())
}

/// One parsed line: an event with its count.
#[derive(Debug, PartialEq)]
struct Row {
    /// CPU, core or thread to which the count belongs; empty if perf counted all of them together.
    whose: String,
    event: String,
    unit: String,
    count: Result<f64, String>,
    /// Fraction of the time (0 to 1) during which the event was counted.
    share: Option<f64>,
}

impl Row {
    /// Returns whether this row is the wall time of the whole command.
    fn is_time_of_all(&self) -> bool {
        self.whose.is_empty() && self.event == "duration_time"
    }
}

/// Reads `perf stat` output. `packets` is the number of packets processed during the measurement,
/// if the user specified it; if perf counted several strands, it is not known how many of them each
/// one processed. `cache_misses` is linerate's name for what perf's generic event `cache-misses`
/// counts on the measured processor, such as `ll_misses`: on some processors, perf counts misses of
/// the last level, on others those of L2 or L1. With `None`, the event keeps its name.
///
/// Every line that perf did not print is a fault, including output of the measured command; `perf
/// stat -o` keeps the two separate.
///
/// # Errors
/// Returns an error if no line was usable.
pub fn read(
    text: &str,
    packets: Option<f64>,
    cache_misses: Option<&str>,
) -> Result<StrandsReport, NothingRead> {
    let (mut strands, lines, faults) = rows(text);
    if strands.is_empty() {
        let line = faults.first().map(|fault: &InputFault| fault.line);
        let sentence = "no `perf stat` event found".to_owned();
        return Err(NothingRead { sentence, line });
    }
    let packets = match (packets, strands.len()) {
        (None, _) => Err("the input has no packet count: pass one with --packets"),
        (Some(packets), 1) => Ok(packets),
        (Some(_), _) => Err("packets per strand are unknown: --packets gives the total of all \
                             strands"),
    };
    for (_, sums) in &mut strands {
        sums.iter_mut().for_each(note_scaling);
        rename_cache_misses(sums, cache_misses);
        separate_core_types(sums);
    }
    if let [(whose, _)] = strands.as_mut_slice()
        && whose.is_empty()
        && plain::counted_cpus(text)
    {
        SYSTEM_WIDE.clone_into(whose);
    }
    let strands = strands.iter().map(|(whose, sums)| {
        let cpu = whose.strip_prefix("CPU").unwrap_or(whose).parse().ok();
        let name = (cpu.is_none() && !whose.is_empty()).then(|| whose.clone());
        from_sums(name, cpu, sums, packets)
    });
    Ok(StrandsReport {
        format: ForeignFormat::PerfStat,
        format_version: None,
        machine: None,
        strands: strands.collect(),
        lines,
        faults,
    })
}

/// The counts of each strand, by its name in the input.
type Strands = Vec<(String, Vec<Sum>)>;

/// Reads all rows. Returns the counts, the number of lines that should contain an event, and those
/// that do not.
fn rows(text: &str) -> (Strands, u64, Vec<InputFault>) {
    let mut strands = Strands::new();
    let (mut faults, mut lines) = (Vec::new(), 0);
    let separator = SEPARATORS
        .into_iter()
        .find(|&separator| text.lines().any(|line| fields(line, separator).is_some()));
    let mut plain = plain::Reader::new(text);
    for (line, text) in numbered(text) {
        if text.trim().is_empty() || text.trim_start().starts_with('#') {
            continue;
        }
        lines += 1;
        let row = json(text).or_else(|| fields(text, separator?)).or_else(|| plain.row(text));
        match row {
            Some(row) if row.is_time_of_all() && has_time_of_all(&strands, text) => {}
            Some(row) => add(&mut strands, row),
            None if is_metric(text, separator) => lines -= 1,
            None if plain.is_prose(text) => lines -= 1,
            None => faults.push(InputFault {
                line,
                sentence: "not a `perf stat` event; line skipped".to_owned(),
            }),
        }
    }
    (strands, lines, faults)
}

/// Returns whether to ignore the wall time of the whole command, which `line` contains. If CPUs
/// were counted separately, it belongs to none of them. If `duration_time` was counted as an event,
/// the elapsed time below the events would be added to the same total.
fn has_time_of_all(strands: &[(String, Vec<Sum>)], line: &str) -> bool {
    let of_all = strands.iter().find(|(whose, _)| whose.is_empty());
    let is_counted = |(_, sums): &(String, Vec<Sum>)| {
        plain::is_elapsed(line) && sums.iter().any(|sum| sum.native == "duration_time")
    };
    of_all.is_none_or(is_counted)
}

/// Names perf's generic event `cache-misses` after what it counts, unless the level's own event was
/// counted as well.
fn rename_cache_misses(sums: &mut [Sum], name: Option<&str>) {
    let Some(name) = name.filter(|name| sums.iter().all(|sum| sum.name != *name)) else { return };
    for sum in sums.iter_mut().filter(|sum| sum.name == "cache_misses") {
        name.clone_into(&mut sum.name);
    }
}

/// On hybrid processors, perf prints a row for each event and type of core, which counts only while
/// the program runs on cores of that type. If it ran on both types, the performance cores' counts
/// do not cover the whole program, so they get names of their own, such as `cpu_core_cycles`.
fn separate_core_types(sums: &mut [Sum]) {
    for name in [CYCLES, INSTRUCTIONS] {
        let others = format!("cpu_atom_{name}");
        let ran_on_others = |sum: &Sum| sum.name == others && sum.count.iter().any(|n| *n > 0.0);
        if !sums.iter().any(ran_on_others) {
            continue;
        }
        let of_performance = |sum: &&mut Sum| sum.name == name && sum.native.contains("cpu_core");
        for sum in sums.iter_mut().filter(of_performance) {
            sum.name = format!("cpu_core_{name}");
        }
    }
}

/// Returns whether a line contains a metric of the preceding event. The first fields of such a line
/// are empty.
fn is_metric(line: &str, separator: Option<char>) -> bool {
    let empty = |separator| line.split(separator).filter(|field| field.trim().is_empty()).count();
    separator.is_some_and(|separator| empty(separator) >= 4)
        || line.trim_start().starts_with("{")
            && line.contains("\"metric-value\"")
            && !line.contains("\"event\"")
}

fn add(strands: &mut Vec<(String, Vec<Sum>)>, row: Row) {
    let at = strands.iter().position(|(whose, _)| *whose == row.whose).unwrap_or_else(|| {
        strands.push((row.whose.clone(), Vec::new()));
        strands.len() - 1
    });
    let sums = &mut strands[at].1;
    let sum = sum_of(row);
    match sums.iter_mut().find(|known| known.native == sum.native) {
        // If the count of one interval is missing, the total is omitted: it would be too small.
        Some(known) => match (&mut known.count, sum.count) {
            (Ok(count), Ok(more)) => {
                *count += more;
                known.least += sum.least;
            }
            (count, Err(why)) => *count = Err(why),
            (Err(_), Ok(_)) => {}
        },
        None => sums.push(sum),
    }
}

fn sum_of(row: Row) -> Sum {
    let (plain, modifier) = split_modifiers(&row.event);
    let word: String = plain
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    let name = match word.trim_matches('_') {
        "cycles" | "cpu_cycles" | "cpu_core_cycles" => CYCLES.to_owned(),
        "instructions" | "cpu_core_instructions" => INSTRUCTIONS.to_owned(),
        "l1_dcache_load_misses" => "l1d_misses".to_owned(),
        "llc_load_misses" => "ll_misses".to_owned(),
        "dtlb_load_misses" => "dtlb_misses".to_owned(),
        other => other.to_owned(),
    };
    let tier = match () {
        () if SOFTWARE.contains(&name.as_str()) => Tier::Sw,
        () if modifier.contains('u') && !modifier.contains('k') => Tier::User,
        () => Tier::Hw,
    };
    // perf prints times in ms; linerate's event names end in the unit of their counts.
    let (name, count) = match (row.unit.as_str(), row.count) {
        ("msec", count) => (format!("{name}_ns"), count.map(|ms| ms * 1e6)),
        ("ns", count) => (format!("{name}_ns"), count),
        (_, count) => (name, count),
    };
    let share = row.share.unwrap_or(1.0).clamp(0.0, 1.0);
    let least = count.as_ref().map_or(0.0, |count| count * share);
    Sum { name, native: row.event, count, least, tier, method: "perf stat".to_owned() }
}

/// Adds to the method of a scaled count the share of the time during which the event was counted.
fn note_scaling(sum: &mut Sum) {
    if let (true, Ok(count)) = (sum.is_scaled(), &sum.count) {
        let percent = 100.0 * sum.least / count;
        sum.method = format!("perf stat, scaled up: counted {percent:.0} % of the time");
    }
}

/// Parses a count or the reason why it is missing; `None` if the text is neither a count nor a
/// reason.
fn count(text: &str) -> Option<Result<f64, String>> {
    let text = text.trim();
    match text {
        "<not counted>" => Some(Err("perf did not count this event".to_owned())),
        "<not supported>" => Some(Err("perf does not support this event here".to_owned())),
        _ => number(text).map(Ok),
    }
}

/// Parses digits with a decimal point or an exponent; rejects `inf`, `nan`, signs and blanks.
fn number(text: &str) -> Option<f64> {
    let is_digit = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-');
    let text = text.trim();
    let number: f64 = text.parse().ok()?;
    (text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(is_digit)
        && number.is_finite())
    .then_some(number)
}

fn is_event(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '{') && !text.contains(' ')
}

fn json(line: &str) -> Option<Row> {
    let Value::Object(of) = serde_json::from_str(line.trim()).ok()? else { return None };
    let text = |name: &str| match of.get(name) {
        Some(Value::String(text)) => Some(text.trim().to_owned()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let event = text("event").filter(|event| !event.is_empty())?;
    let count = count(&text("counter-value")?)?;
    let parts = ["thread", "cpu", "core", "die", "cluster", "cache", "socket", "node"];
    let whose = parts.into_iter().find_map(text).filter(|whose| !whose.is_empty());
    let whose = in_group(whose, text("cgroup").filter(|cgroup| !cgroup.is_empty()));
    let share = of.get("pcnt-running").and_then(Value::as_f64).map(|percent| percent / 100.0);
    let unit = text("unit").unwrap_or_default();
    Some(Row { whose, event, unit, count, share })
}

/// Returns the name of a strand: the CPU, core or thread, and the control group, if any.
fn in_group(whose: Option<String>, cgroup: Option<String>) -> String {
    match (whose, cgroup) {
        (whose, None) => whose.unwrap_or_default(),
        (None, Some(cgroup)) => format!("{CGROUP}{cgroup}"),
        (Some(whose), Some(cgroup)) => format!("{CGROUP}{cgroup} {whose}"),
    }
}

fn fields(line: &str, separator: char) -> Option<Row> {
    let fields: Vec<&str> = line.split(separator).map(str::trim).collect();
    // Up to three fields precede the count: timestamp; CPU, core or thread; number of CPUs.
    (0..=3).find_map(|at| row_at(&fields, at))
}

/// Returns whether a field behind the event is the name of a control group rather than a variance
/// or a time. The unit must be one of perf's, because the measured program may print rows of its
/// own.
fn is_cgroup(field: &str, unit: &str) -> bool {
    let is_name = field == "/" || field.contains(|c: char| c.is_alphabetic());
    let is_unit = unit.is_empty() || UNITS.contains(&unit);
    is_unit && is_name && !field.contains('%') && number(field).is_none()
}

/// Parses a row whose count is the field at `at`; `None` if the field is not a count.
fn row_at(fields: &[&str], at: usize) -> Option<Row> {
    let count = count(fields.get(at)?)?;
    let (unit, event) = (fields.get(at + 1)?, fields.get(at + 2)?);
    if number(unit).is_some() || !is_event(event) {
        return None;
    }
    let cgroup =
        fields.get(at + 3).filter(|field| is_cgroup(field, unit)).map(|&name| name.to_owned());
    let behind = at + 3 + usize::from(cgroup.is_some());
    let has_variance = fields.get(behind)?.ends_with('%');
    let [time, share] = [0, 1].map(|next| fields.get(behind + next + usize::from(has_variance)));
    let is_whole = |text: &&&str| text.bytes().all(|byte| byte.is_ascii_digit());
    time.filter(is_whole).filter(|text| !text.is_empty())?;
    let share = number(share?)? / 100.0;
    let whose = fields[..at].iter().find(|field| number(field).is_none());
    Some(Row {
        whose: in_group(whose.map(|&whose| whose.to_owned()), cgroup),
        event: (*event).to_owned(),
        unit: (*unit).to_owned(),
        count,
        share: Some(share),
    })
}

#[cfg(test)]
mod tests;
