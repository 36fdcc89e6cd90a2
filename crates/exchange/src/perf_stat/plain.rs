// SPDX-License-Identifier: MIT OR Apache-2.0
//! Human-readable `perf stat` text: one event per line, with blanks between the fields.
//!
//! ```text
//!  Performance counter stats for './program':
//!
//!             765.43 msec task-clock          #    0.999 CPUs utilized
//!      2,345,678,901      cycles              #    3.06 GHz           ( +-  0.1% )  (83.32%)
//!    <not supported>      cache-misses
//!
//!        0.766123456 seconds time elapsed
//! ```
//!
//! A timestamp (`-I`), a CPU, core or thread, and the number of CPUs aggregated (`-A`,
//! `--per-core`, `--per-thread`) may precede the count. Digits may be grouped, depending on the
//! locale.

use super::{Row, count, is_event};
use crate::perf::UNITS;

/// First line of the plain text format.
const HEAD: &str = "Performance counter stats for ";

fn is_head(line: &str) -> bool {
    line.trim_start().starts_with(HEAD)
}

/// Returns whether perf counted whole CPUs (`-a`, `-C`) rather than a program, as the header says.
pub(super) fn counted_cpus(text: &str) -> bool {
    let of_cpus = |line: &str| {
        let what = line.trim_start().strip_prefix(HEAD)?;
        Some(what.starts_with("'system wide'") || what.starts_with("'CPU(s) "))
    };
    text.lines().find_map(of_cpus).unwrap_or(false)
}

/// Returns whether a line unmistakably belongs to the plain text format.
pub(super) fn is_its_own(line: &str) -> bool {
    is_head(line) || is_elapsed(line)
}

/// Returns whether a line is the total time below the events.
pub(super) fn is_elapsed(line: &str) -> bool {
    line.trim_end().ends_with("seconds time elapsed")
}

/// Returns whether a line is outside the list of events: the header above, or a time below.
fn is_prose(line: &str) -> bool {
    let line = line.trim();
    is_its_own(line) || line.ends_with("seconds user") || line.ends_with("seconds sys")
}

/// Reads the lines of a text in order.
pub(super) struct Reader {
    /// Whether the text is in the plain format.
    is_plain: bool,
    /// Whether the header has been read, or is missing. Lines above it are output of the measured
    /// program, which may look like an event: `100 requests`.
    is_below_head: bool,
}

impl Reader {
    pub(super) fn new(text: &str) -> Self {
        let is_plain = text.lines().any(is_its_own);
        Self { is_plain, is_below_head: !text.lines().any(is_head) }
    }

    /// Parses the next line: an event, or the total time.
    pub(super) fn row(&mut self, line: &str) -> Option<Row> {
        self.is_below_head |= is_head(line);
        row(line).filter(|_| self.is_plain && self.is_below_head)
    }

    /// Returns whether a line is outside the list of events.
    pub(super) fn is_prose(&self, line: &str) -> bool {
        self.is_plain && is_prose(line)
    }
}

/// Parses a line of the plain text format: an event, or the total time.
fn row(line: &str) -> Option<Row> {
    if let Some((seconds, _)) = line.split_once("seconds time elapsed") {
        let seconds: f64 = seconds.split_whitespace().next()?.replace(',', ".").parse().ok()?;
        return Some(Row {
            whose: String::new(),
            event: "duration_time".to_owned(),
            unit: "ns".to_owned(),
            count: Ok(seconds * 1e9).filter_finite()?,
            share: None,
        });
    }
    let (fields, share) = parts(line);
    let words = words(&fields);
    // Up to three words precede the count: timestamp; CPU, core or thread; number of CPUs.
    (0..=3).find_map(|at| row_at(&words, at, share))
}

/// Splits a line into the part before the comment and the share of the time during which the event
/// was counted, which is in the last parentheses.
fn parts(line: &str) -> (String, Option<f64>) {
    let fields = line.split('#').next().unwrap_or(line);
    let last = line.trim_end().rsplit_once('(').and_then(|(_, last)| last.strip_suffix("%)"));
    let share = last.filter(|last| !last.contains("+-")).and_then(|last| last.trim().parse().ok());
    let fields = fields.split(" (").next().unwrap_or(fields);
    (fields.to_owned(), share.map(|percent: f64| percent / 100.0))
}

/// Splits a line into words; `<not supported>` is one word.
fn words(fields: &str) -> Vec<String> {
    let joined = fields.replace("<not counted>", "<not_counted>");
    let joined = joined.replace("<not supported>", "<not_supported>");
    joined.split_whitespace().map(|word| word.replace("<not_", "<not ")).collect()
}

/// Parses a row whose count is the word at `at`; `None` if the word is not a count.
fn row_at(words: &[String], at: usize, share: Option<f64>) -> Option<Row> {
    let (number, rest) = (words.get(at)?, words.get(at + 1..)?);
    let (unit, event) = match rest {
        [unit, event] if UNITS.contains(&unit.as_str()) => (unit.as_str(), event),
        [event] => ("", event),
        _ => return None,
    };
    let whose = words[..at].iter().find(|word| ungrouped(word, "msec").is_none());
    is_event(event).then_some(())?;
    Some(Row {
        whose: whose.cloned().unwrap_or_default(),
        event: event.clone(),
        unit: unit.to_owned(),
        count: count(&ungrouped(number, unit).unwrap_or_else(|| number.clone()))?,
        share,
    })
}

/// Returns a number without digit grouping. Counts without a unit and those in `ns` are integers,
/// so all separators are digit grouping. In other counts with a unit, perf prints two decimals, or
/// six, or none: the last separator is a decimal one unless it occurs twice or groups three digits.
fn ungrouped(number: &str, unit: &str) -> Option<String> {
    let is_number = |c: char| c.is_ascii_digit() || ".,'\u{a0}\u{202f}".contains(c);
    if !number.starts_with(|c: char| c.is_ascii_digit()) || !number.chars().all(is_number) {
        return None;
    }
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    let Some(at) = number.rfind(['.', ',']).filter(|_| !matches!(unit, "" | "ns")) else {
        return Some(digits(number));
    };
    let (whole, decimals) = (&number[..at], &number[at + 1..]);
    let is_repeated = whole.contains(&number[at..=at]);
    let is_group = decimals.len() == 3 && !whole.starts_with('0');
    Some(match is_repeated || is_group {
        true => digits(number),
        false => format!("{}.{}", digits(whole), digits(decimals)),
    })
}

/// Rejects numbers that are not finite.
trait Finite: Sized {
    fn filter_finite(self) -> Option<Self>;
}

impl Finite for Result<f64, String> {
    fn filter_finite(self) -> Option<Self> {
        match &self {
            Ok(number) if !number.is_finite() => None,
            _ => Some(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf_stat::read;

    const TEXT: &str = "hello from the program\n\n\
        \x20Performance counter stats for './program':\n\n\
        \x20           765.43 msec task-clock          #    0.999 CPUs utilized\n\
        \x20                3      context-switches    #    3.919 /sec\n\
        \x20    2,345,678,901      cycles              #    3.06 GHz       ( +-  0.1% )  (83.32%)\n\
        \x20    1,000,000,000      instructions:u      #    0.43  insn per cycle\n\
        \x20  <not supported>      cache-misses\n\n\
        \x20      0.800000000 seconds time elapsed\n\n\
        \x20      0.700000000 seconds user\n       0.060000000 seconds sys\n";

    #[test]
    fn the_plain_text_has_the_counts_of_the_other_forms() {
        let report = read(TEXT, Some(1e6), Some("ll_misses")).expect("events");
        let [strand] = report.strands.as_slice() else { panic!("one strand") };
        let count = |name: &str| strand.event(name).and_then(|event| event.count.as_number());
        assert_eq!(count("task_clock_ns"), Some(765_430_000.0));
        assert_eq!(count("context_switches"), Some(3.0));
        assert_eq!(count("cycles"), Some(2_345_678_901.0));
        assert_eq!(count("duration_time_ns"), Some(8e8));
        let missing = &strand.event("ll_misses").expect("it is listed").count;
        assert_eq!(missing.reason.as_deref(), Some("perf does not support this event here"));
        let cycles = &strand.event("cycles").expect("it is there").count;
        assert!(cycles.method.contains("83 %"), "{}", cycles.method);
        let lines: Vec<u64> = report.faults.iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [1], "the program's own output");
        // With the user's packet count.
        assert_eq!(strand.packets, Some(1_000_000));
        assert_eq!(strand.instructions_per_packet.as_number(), Some(1000.0));
        assert_eq!(strand.kpps.as_number(), Some(1250.0));
        let clock = strand.event("task_clock_ns").expect("it is there");
        assert_eq!(clock.per_packet.as_number(), Some(765.43));
        let none = read(TEXT, None, None).expect("events");
        let why = none.strands[0].kpps.reason.clone().expect("a reason");
        assert!(why.contains("--packets"), "{why}");
    }

    #[test]
    fn processors_intervals_and_other_locales() {
        let text = " Performance counter stats for 'system wide':\n\n\
            CPU0            1.234.567      cycles\nCPU1                   75      cycles\n\
            S0-D0-C0   2   101,76 msec task-clock\n\n 1,0003 seconds time elapsed\n";
        let report = read(text, None, None).expect("events");
        let of = |at: usize, name: &str| {
            report.strands[at].event(name).and_then(|event| event.count.as_number())
        };
        assert_eq!((report.strands[0].cpu, of(0, "cycles")), (Some(0), Some(1_234_567.0)));
        assert_eq!(of(1, "cycles"), Some(75.0));
        assert_eq!(report.strands[2].name.as_deref(), Some("S0-D0-C0"));
        assert_eq!(of(2, "task_clock_ns"), Some(101.76e6));
        assert_eq!(report.strands.len(), 3, "the elapsed time belongs to no strand");
    }

    #[test]
    fn whole_machines_are_not_taken_for_programs() {
        for (what, name) in
            [("system wide", Some("system wide")), ("CPU(s) 0-3", Some("system wide"))]
        {
            let report = read(&TEXT.replace("./program", what), None, None).expect("events");
            assert_eq!(report.strands.len(), 1);
            assert_eq!(report.strands[0].name.as_deref(), name);
        }
        assert_eq!(read(TEXT, None, None).expect("events").strands[0].name, None);
    }

    #[test]
    fn whole_nanoseconds_are_grouped_and_the_time_is_counted_once() {
        let text = |user: &str, duration: &str| {
            format!(
                " Performance counter stats for 'x':\n\n {user} ns   user_time\n \
                 {duration} ns   duration_time\n 1,024 MiB  read\n 2,500,000 MiB  written\n \
                 12,25 Joules  power/energy-pkg/\n\n 1.000887494 seconds time elapsed\n"
            )
        };
        let english = text("29,968,686,000", "1,000,887,494");
        for text in [&english, &english.replace(',', "."), &text("29968686000", "1000887494")] {
            let report = read(text, Some(1e6), None).expect("events");
            let [strand] = report.strands.as_slice() else { panic!("one strand") };
            let count = |name: &str| strand.event(name).and_then(|event| event.count.as_number());
            assert_eq!(count("user_time_ns"), Some(29_968_686_000.0), "{text}");
            assert_eq!(count("duration_time_ns"), Some(1_000_887_494.0), "{text}");
            let kpps = strand.kpps.as_number().expect("a rate");
            assert!((kpps - 999.11).abs() < 0.01, "{kpps}");
            assert_eq!((count("read"), count("written")), (Some(1024.0), Some(2.5e6)));
            assert_eq!(count("power_energy_pkg"), Some(12.25));
        }
    }

    #[test]
    fn output_of_the_program_is_not_an_event() {
        let text = format!("received 1000 packets\n100 requests\n5 seconds user\n{TEXT}");
        let report = read(&text, None, None).expect("events");
        let lines: Vec<u64> = report.faults.iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [1, 2, 4], "{:?}", report.faults);
        assert_eq!(report.strands.len(), 1);
        assert!(report.strands[0].event("requests").is_none());
    }

    #[test]
    fn rejects_lines_without_a_count() {
        for line in ["", "3 blind mice ran", "a 1 b c", "nan cycles", "-3 cycles"] {
            assert_eq!(row(line), None, "{line}");
        }
        assert_eq!(row("inf seconds time elapsed"), None);
    }
}
