// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parsers for command-line values. Their errors include an example of a valid value.

use linerate_kernelbench::cases::SIZE_MAX;
use linerate_machine::{parse_cpu, parse_cpus};
use linerate_path::model::{IdlePolicy, Rate};
use linerate_record::kernels::{Kernel, State};
use linerate_record::units::UnitError::{NoNumber, NoUnit, UnknownUnit};
use linerate_record::units::{UnitError, parse_bit_rate, parse_duration, parse_packet_rate};
use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Largest process ID that the kernel assigns.
const PID_MAX: u32 = 4_194_304;

/// Hidden aliases of `--time`.
pub(crate) const TIME_SYNONYMS: [&str; 2] = ["duration", "seconds"];

/// Logical CPUs in the order given, without duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuList(pub(crate) Vec<u32>);

/// Rate goal of the path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    /// The path file's line rate.
    Line,
    /// Packets per second.
    PacketsPerSecond(f64),
}

/// Appends the unit `s` to `text` if it is a plain number, because seconds are the default unit of
/// options that set the measurement time.
fn in_seconds(text: &str) -> Cow<'_, str> {
    let is_plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    if is_plain { Cow::Owned(format!("{text}s")) } else { Cow::Borrowed(text) }
}

/// Parses a duration of at least 50 ms. Returns seconds, the default unit.
pub(crate) fn duration(text: &str) -> Result<f64, String> {
    let seconds = linerate_path::parse::seconds(&in_seconds(text))?;
    if seconds < 0.05 { Err("shorter than 50ms".to_owned()) } else { Ok(seconds) }
}

/// Parses a duration in `range`. The default unit is the second.
pub(crate) fn duration_in(text: &str, range: RangeInclusive<Duration>) -> Result<Duration, String> {
    time_in(&in_seconds(text), range, "2s")
}

/// Parses a time in `range` whose unit must be given, because a plain number would be taken for
/// milliseconds or microseconds as easily as for seconds. Errors show `example`.
pub(crate) fn time_in(
    text: &str,
    range: RangeInclusive<Duration>,
    example: &'static str,
) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| spoken(error, example))?;
    match time {
        time if time < *range.start() => Err(format!("shorter than {:?}", range.start())),
        time if time > *range.end() => Err(format!("longer than {:?}", range.end())),
        time => Ok(time),
    }
}

/// Formats the parse error of a quantity, with `example` as a valid value of the option.
fn spoken(error: UnitError, example: &'static str) -> String {
    let error = match error {
        NoUnit { text, .. } => NoUnit { text, example },
        NoNumber { text, .. } => NoNumber { text, example },
        error => error,
    };
    quoted(&error)
}

/// Formats the parse error of a quantity, with the same quotation marks as in the command line's
/// other errors.
pub(crate) fn quoted(error: &UnitError) -> String {
    error.to_string().replace('`', "'")
}

/// Parses a latency limit. Returns nanoseconds.
pub(crate) fn latency(text: &str) -> Result<f64, String> {
    const MAX: Duration = Duration::from_secs(30 * 86_400);
    let limit = time_in(text, Duration::ZERO..=MAX, "50us")?;
    if limit.is_zero() {
        return Err("must be greater than 0, e.g. 50us".to_owned());
    }
    Ok(limit.as_secs_f64() * 1e9)
}

/// Parses an offered rate. If its unit is wrong or missing, the error lists the units of packet
/// rates and of bit rates, because both are accepted.
pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    linerate_path::parse::rate(text).map_err(|why| {
        match (parse_packet_rate(text), parse_bit_rate(text)) {
            (Err(UnknownUnit { unit, units: packets, .. }), Err(UnknownUnit { units, .. })) => {
                format!("unknown unit '{unit}'; valid units: {packets}, or {units}")
            }
            (Err(NoUnit { example: packets, .. }), Err(NoUnit { example: bits, .. })) => {
                format!("missing unit; write, e.g., {packets} or {bits}")
            }
            _ => why,
        }
    })
}

pub(crate) fn goal(text: &str) -> Result<Goal, String> {
    match (linerate_path::parse::rate(text), parse_packet_rate(text)) {
        (Ok(Rate::Line), _) => Ok(Goal::Line),
        (Ok(Rate::PacketsPerSecond(packets)), _) => Ok(Goal::PacketsPerSecond(packets)),
        (Err(_), Err(UnknownUnit { unit, units, .. })) => {
            Err(format!("unknown unit '{unit}'; valid units: {units}, or the word 'line'"))
        }
        (Ok(_), _) => Err("expected 'line' or a packet rate, e.g. 1.5Mpps".to_owned()),
        (Err(why), _) => Err(why),
    }
}

/// Finds a list item by name.
fn named<T: Copy>(text: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, String> {
    let found = all.iter().copied().find(|&item| name(item) == text);
    found.ok_or_else(|| {
        let names: Vec<&str> = all.iter().copied().map(name).collect();
        format!("choose from {}", names.join(", "))
    })
}

pub(crate) fn size(text: &str) -> Result<u32, String> {
    let size = text.parse().ok().filter(|size| (1..=SIZE_MAX).contains(size));
    size.ok_or_else(|| format!("expected a size of 1 to {SIZE_MAX} bytes"))
}

/// Parses a process ID. A program name is the most common mistake, so the error suggests `--name`.
pub(crate) fn pid(text: &str) -> Result<u32, String> {
    let pid = text.parse().ok().filter(|pid| (1..=PID_MAX).contains(pid));
    pid.ok_or_else(|| match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => format!("expected a process ID of 1 to {PID_MAX}"),
        false => format!("expected a process ID; to watch a program by name, use --name {text}"),
    })
}

pub(crate) fn cpu(text: &str) -> Result<u32, String> {
    parse_cpu(text)
}

pub(crate) fn kernel(text: &str) -> Result<Kernel, String> {
    named(text, &Kernel::ALL, Kernel::name)
}

pub(crate) fn idle_policy(text: &str) -> Result<IdlePolicy, String> {
    named(text, &IdlePolicy::ALL, IdlePolicy::word)
}

pub(crate) fn state(text: &str) -> Result<State, String> {
    named(text, &State::ALL, State::name)
}

pub(crate) fn cpu_list(text: &str) -> Result<CpuList, String> {
    parse_cpus(text).map(CpuList)
}

#[cfg(test)]
mod tests {
    use super::{duration, duration_in, goal, latency, rate, time_in};
    use std::time::Duration;

    #[test]
    fn a_wrong_unit_is_answered_with_all_that_are_accepted() {
        for text in ["5Mbp", "1Mp", "10GB/s"] {
            let why = rate(text).expect_err("no such unit");
            assert!(why.contains("Mpps") && why.contains("Gb/s"), "{why}");
            let why = goal(text).expect_err("no such unit");
            assert!(why.contains("Mpps") && !why.contains("Mb/s"), "{why}");
        }
        let why = rate("5").expect_err("no unit");
        assert!(why.contains("Mpps") && why.contains("Gb/s"), "{why}");
        for text in ["lien", "-1Mpps", "0pps"] {
            assert_eq!(rate(text).err(), linerate_path::parse::rate(text).err());
        }
        assert!(goal("5Gb/s").is_err_and(|why| why.contains("'line'")));
    }

    #[test]
    fn a_duration_without_a_unit_is_in_seconds() {
        assert_eq!(duration("5"), Ok(5.0));
        assert_eq!(duration("0.5"), Ok(0.5));
        assert_eq!(duration("500ms"), Ok(0.5));
        for text in ["0.01", "", ".", "1.2.3", "-5", "5 5", "inf", "99999999999999999999999"] {
            assert!(duration(text).is_err(), "{text}");
        }
        let day = Duration::from_secs(86400);
        let all = Duration::ZERO..=day;
        assert_eq!(duration_in("5", all.clone()), Ok(Duration::from_secs(5)));
        assert_eq!(duration_in("5ms", all.clone()), Ok(Duration::from_millis(5)));
        assert_eq!(duration_in("2", day..=day), Err("shorter than 86400s".to_owned()));
        let wanted =
            |text: &str, example| format!("'{text}' has no unit; write, e.g., '{example}'");
        assert_eq!(time_in("200", all, "100ms"), Err(wanted("200", "100ms")));
        assert_eq!(latency("50"), Err(wanted("50", "50us")));
        assert_eq!(latency("50us"), Ok(50e3));
        assert!(latency("0us").is_err() && latency("999999h").is_err());
    }
}
