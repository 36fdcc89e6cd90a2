// SPDX-License-Identifier: MIT OR Apache-2.0
//! `perf stat` output: one event per line, in JSON (`-j`), with separators (`-x`), or as plain
//! text.
//!
//! Whatever perf counted separately becomes a strand: a CPU (`-A`), a core, a thread, or the whole
//! command. The counts of intervals (`-I`) are added up. These fields are read:
//!
//! ```text
//! [timestamp] [CPU, core, thread [number of CPUs]] count unit event [variance] time share ...
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
use crate::{CYCLES, INSTRUCTIONS, NothingRead, numbered};
use linerate_record::Tier;
use linerate_record::strands::{ForeignFormat, InputFault, StrandsReport};
use serde_json::Value;

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
    /// Returns whether this is the wall time of the whole command.
    fn is_time_of_all(&self) -> bool {
        self.whose.is_empty() && self.event == "duration_time"
    }
}

/// Reads `perf stat` output. `packets` is the number of packets processed during the measurement,
/// if the user specified it; if perf counted several strands, it is not known how many of them each
/// one processed. `cache_misses` is linerate's name for what perf's generic event `cache-misses`
/// counts on that processor, such as `ll_misses`: perf counts misses of the last level on some, of
/// L2 or L1 on others. With `None`, the event keeps its name.
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
        let sentence = "no `perf stat` events".to_owned();
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

/// Returns whether the wall time of the whole command, in `line`, is to be ignored: if CPUs were
/// counted separately, it belongs to none of them; and if it was counted as an event as well, the
/// time elapsed below the events would be added to it.
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

/// On hybrid processors, perf counts an event for each type of core, and in each row only while the
/// program runs on cores of that type. If it ran on both types, the counts of the performance cores
/// keep their own names, since they are not those of the whole program.
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
    let (plain, modifier) = match row.event.rsplit_once(':') {
        // `tracepoint:name` and `cpu/event/` contain colons and slashes that are not modifiers.
        Some((plain, modifier)) if modifier.chars().all(|c| "ukhHGpPSDIW".contains(c)) => {
            (plain, modifier)
        }
        _ => (&row.event[..], ""),
    };
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
        "<not counted>" => Some(Err("perf: not counted".to_owned())),
        "<not supported>" => Some(Err("perf: not supported here".to_owned())),
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
    let whose = ["thread", "cpu", "core", "die", "socket", "node"].into_iter().find_map(text);
    let share = of.get("pcnt-running").and_then(Value::as_f64).map(|percent| percent / 100.0);
    let unit = text("unit").unwrap_or_default();
    Some(Row { whose: whose.unwrap_or_default(), event, unit, count, share })
}

fn fields(line: &str, separator: char) -> Option<Row> {
    let fields: Vec<&str> = line.split(separator).map(str::trim).collect();
    // Up to three fields precede the count: timestamp; CPU, core or thread; number of CPUs.
    (0..=3).find_map(|at| row_at(&fields, at))
}

/// Parses a row whose count is the field at `at`; `None` if the field is not a count.
fn row_at(fields: &[&str], at: usize) -> Option<Row> {
    let count = count(fields.get(at)?)?;
    let (unit, event) = (fields.get(at + 1)?, fields.get(at + 2)?);
    if number(unit).is_some() || !is_event(event) {
        return None;
    }
    let has_variance = fields.get(at + 3)?.ends_with('%');
    let [time, share] = [3, 4].map(|behind| fields.get(at + behind + usize::from(has_variance)));
    let is_whole = |text: &&&str| text.bytes().all(|byte| byte.is_ascii_digit());
    time.filter(is_whole).filter(|text| !text.is_empty())?;
    let share = number(share?)? / 100.0;
    let whose = fields[..at].iter().find(|field| number(field).is_none());
    Some(Row {
        whose: whose.map_or(String::new(), |whose| (*whose).to_owned()),
        event: (*event).to_owned(),
        unit: (*unit).to_owned(),
        count,
        share: Some(share),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::strands::StrandCounts;

    fn value(strand: &StrandCounts, name: &str) -> Option<f64> {
        strand.event(name).unwrap_or_else(|| panic!("no {name}")).count.as_number()
    }

    #[test]
    fn counts_of_one_type_of_core_are_not_those_of_the_program() {
        let rows = |atom: &str| {
            format!(
                "{atom},,cpu_atom/cycles/,300,30.00,,\n2000,,cpu_core/cycles/,700,70.00,,\n\
                 {atom},,cpu_atom/instructions/,300,30.00,,\n\
                 1000,,cpu_core/instructions/,700,70.00,,\n"
            )
        };
        let both = read(&rows("500"), Some(10.0), None).expect("events");
        let [strand] = both.strands.as_slice() else { panic!("one strand") };
        assert_eq!((strand.cpi.as_number(), strand.ipc.as_number()), (None, None));
        assert!(strand.event("cycles").is_none() && strand.event("instructions").is_none());
        assert_eq!(value(strand, "cpu_core_cycles"), Some(2000.0));
        assert_eq!(value(strand, "cpu_atom_cycles"), Some(500.0));
        for unused in ["<not counted>", "0"] {
            let one = read(&rows(unused), Some(10.0), None).expect("events");
            assert_eq!(one.strands[0].cpi.as_number(), Some(2.0), "{unused}");
        }
    }

    /// JSON and separator formats as printed by perf 6.1, with and without hardware counters.
    #[test]
    fn one_strand_in_both_forms() {
        let json = "{\"counter-value\" : \"0.765429\", \"unit\" : \"msec\", \
            \"event\" : \"task-clock\", \"event-runtime\" : 765429, \"pcnt-running\" : 100.00, \
            \"metric-value\" : 0.485035, \"metric-unit\" : \"CPUs utilized\"}\n\
            {\"counter-value\" : \"2000.000000\", \"unit\" : \"\", \"event\" : \"cycles:u\", \
            \"event-runtime\" : 765429, \"pcnt-running\" : 50.00}\n\
            {\"counter-value\" : \"1000.000000\", \"unit\" : \"\", \"event\" : \
            \"instructions:u\", \"event-runtime\" : 765429, \"pcnt-running\" : 100.00}\n\
            {\"counter-value\" : \"<not supported>\", \"unit\" : \"\", \"event\" : \
            \"cache-misses\", \"event-runtime\" : 0, \"pcnt-running\" : 100.00}\n";
        let csv = "# started on a day\n\n0.765429,msec,task-clock,765429,100.00,0.130,CPUs used\n\
            2000,,cycles:u,765429,50.00,,\n1000,,instructions:u,765429,100.00,0.5,insn per cycle\n\
            ,,,,,0.7,stalled cycles per insn\n<not supported>,,cache-misses,0,100.00,,\n";
        for text in [json.to_owned(), csv.to_owned(), csv.replace(',', ";")] {
            let report = read(&text, None, Some("ll_misses")).expect("events");
            assert_eq!((report.lines, report.faults.len()), (4, 0), "{text}");
            let [strand] = report.strands.as_slice() else { panic!("one strand") };
            assert_eq!(value(strand, "task_clock_ns"), Some(765_429.0));
            assert_eq!(strand.cpi.as_number(), Some(2.0));
            assert_eq!(strand.ipc.as_number(), Some(0.5));
            let missing = strand.event("ll_misses").expect("it is listed");
            assert_eq!(missing.count.reason.as_deref(), Some("perf: not supported here"));
            assert_eq!(missing.pti.as_number(), None);
            let cycles = &strand.event("cycles").expect("they are counted").count;
            assert_eq!((cycles.low, cycles.high), (Some(1000.0), None), "counted half of the time");
            assert_eq!((strand.cpi.low, strand.cpi.high), (Some(1.0), None));
            assert_eq!((strand.ipc.low, strand.ipc.high), (None, Some(1.0)));
            assert_eq!(cycles.tier, Tier::User);
            assert!(cycles.method.contains("50 %"), "{}", cycles.method);
            assert!(strand.kpps.reason.as_deref().is_some_and(|why| why.contains("packets")));
        }
    }

    #[test]
    fn intervals_add_up_and_strands_are_kept_apart() {
        let text = "     0.100187034,CPU0,107,,cycles,1072701,100.00,0.011,GHz\n\
                    \x20    0.100187034,CPU1,75,,cycles,1072701,100.00,,\n\
                    \x20    0.155826408,CPU0,6,,cycles,61242,100.00,,\n\
                    \x20    0.155826408,CPU1,<not counted>,,cycles,0,0.00,,\n";
        let report = read(text, None, None).expect("events");
        assert_eq!(report.strands.len(), 2);
        assert_eq!(report.strands[0].cpu, Some(0));
        assert_eq!(value(&report.strands[0], "cycles"), Some(113.0));
        assert_eq!(value(&report.strands[1], "cycles"), None, "an interval has no count");
        let text = "S0-D0-C0,1,101.76,msec,task-clock,101761269,100.00,1.000,CPUs utilized\n\
                    S0-D0-C1,1,20,msec,task-clock,101761269,100.00,1.000,CPUs utilized\n";
        let report = read(text, None, None).expect("events");
        assert_eq!(report.strands[0].name.as_deref(), Some("S0-D0-C0"));
        assert_eq!(value(&report.strands[1], "task_clock_ns"), Some(20e6));
        let text = "0.56,msec,task-clock,20.19%,562785,100.00,0.179,CPUs utilized\n";
        assert_eq!(
            value(&read(text, None, None).expect("an event").strands[0], "task_clock_ns"),
            Some(56e4)
        );
    }

    /// Two intervals, with an event that is counted throughout the first and for a tenth of the
    /// second.
    #[test]
    fn what_was_counted_of_intervals_adds_up() {
        let text = "0.1,100,,cycles,1000,100.00,,\n0.2,300,,cycles,1000,10.00,,\n\
                    0.1,50,,instructions,1000,100.00,,\n0.2,50,,instructions,1000,100.00,,\n";
        let report = read(text, None, None).expect("events");
        let count = &report.strands[0].event("cycles").expect("they are counted").count;
        assert_eq!((count.as_number(), count.low), (Some(400.0), Some(130.0)));
        assert!(count.method.contains("32 %"), "{}", count.method);
        let exact = &report.strands[0].event("instructions").expect("they are, too").count;
        assert_eq!((exact.as_number(), exact.low), (Some(100.0), None));
        assert_eq!(report.strands[0].cpi.low, Some(1.3));
    }

    #[test]
    fn cache_misses_are_those_of_the_level_that_the_processor_counts() {
        let text = "9,,cache-misses,73,100.00\n";
        let name = |text: &str, level| {
            let report = read(text, None, level).expect("events");
            let names = report.strands[0].events.iter().map(|event| event.name.clone());
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(name(text, None), "cache_misses");
        assert_eq!(name(text, Some("l2_misses")), "l2_misses");
        let both = "9,,cache-misses,73,100.00\n8,,L1-dcache-load-misses,73,100.00\n\
                    3,,LLC-load-misses,73,100.00\n";
        assert_eq!(name(both, Some("l1d_misses")), "cache_misses l1d_misses ll_misses");
    }

    #[test]
    fn packets_are_those_of_all_strands_together() {
        let text = "CPU0,107,,instructions,1072701,100.00\nCPU1,75,,instructions,9,100.00\n";
        let report = read(text, Some(10.0), None).expect("events");
        for strand in &report.strands {
            assert_eq!(strand.packets, None);
            let why = strand.instructions_per_packet.reason.clone().expect("a reason");
            assert!(why.contains("all strands together"), "{why}");
        }
    }

    #[test]
    fn damage_is_named_by_line() {
        let text = "50,,page-faults,73,100.00\n50,,page-fau\nhello\n12,,cycles,9,100.00\n";
        let report = read(text, None, None).expect("two events");
        let lines: Vec<u64> = report.faults.iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [2, 3]);
        assert_eq!(value(&report.strands[0], "cycles"), Some(12.0));
        assert_eq!(read("hello\n", None, None).expect_err("nothing").line, Some(1));
        assert_eq!(read("", None, None).expect_err("nothing").line, None);
        for text in ["inf,,cycles,1,100.00\n", "nan,,cycles,1,100.00\n", "-5,,cycles,1,100.00\n"] {
            assert!(read(text, None, None).is_err(), "{text}");
        }
    }
}
