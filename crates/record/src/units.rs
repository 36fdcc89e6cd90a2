// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quantities with units, and how to parse and format them.
//!
//! Only units used in profiles of packet software are covered. Prefixes are decimal, as in line
//! rates: 1 kpps is 1000 packets per second. These types are not serialised; JSON holds bare
//! numbers with the unit in the field name or the figure.

use std::fmt;
use std::time::Duration;

/// A time in nanoseconds. Whole nanoseconds are exact up to 2^53 (104 days).
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Nanos(pub f64);

/// A packet rate in kpps (thousand packets per second).
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Kpps(pub f64);

/// A size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// A bit rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct BitsPerSecond(pub f64);

impl Kpps {
    /// Returns the rate in packets per second.
    pub fn per_second(self) -> f64 {
        self.0 * 1e3
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&scaled(self.0, &[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")]))
    }
}

impl fmt::Display for Kpps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = [(1.0, "pps"), (1e3, "kpps"), (1e6, "Mpps"), (1e9, "Gpps")];
        f.pad(&scaled(self.per_second(), &steps))
    }
}

impl fmt::Display for BitsPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = [(1.0, "b/s"), (1e3, "kb/s"), (1e6, "Mb/s"), (1e9, "Gb/s"), (1e12, "Tb/s")];
        f.pad(&scaled(self.0, &steps))
    }
}

/// Formats `value` to three significant digits in the largest unit of `steps` (ascending) in which
/// it is at least 1. Rounds before choosing the unit, so that 999.9 kpps becomes `1 Mpps`.
fn scaled(value: f64, steps: &[(f64, &str)]) -> String {
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    let fits = steps.iter().rev().find(|(size, _)| rounded.abs() >= *size);
    let (size, unit) = fits.unwrap_or(&steps[0]);
    format!("{} {unit}", three_digits(rounded / size))
}

/// Formats a count with its noun, pluralised as needed: `1 packet`, `2 packets`.
pub fn counted(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ if noun.ends_with("ss") => format!("{number} {noun}es"),
        _ => format!("{number} {noun}s"),
    }
}

/// Formats a CPU time or quota in CPUs: `1 CPU`, `1.5 CPUs`.
pub fn cpus(number: f64) -> String {
    let text = three_digits(number);
    if text == "1" { "1 CPU".to_owned() } else { format!("{text} CPUs") }
}

/// Formats a count with digits grouped in threes: `61,893`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats ascending numbers, such as CPUs, abbreviating runs of three or more: `0-3,8` with a
/// comma as separator.
pub fn ranges(numbers: &[u32], separator: &str) -> String {
    let runs = numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let text = |run: &[u32]| match run {
        [first, _, .., last] => format!("{first}-{last}"),
        run => run.iter().map(u32::to_string).collect::<Vec<_>>().join(separator),
    };
    runs.map(text).collect::<Vec<_>>().join(separator)
}

/// Formats `value` to three significant digits, or to an integer if that has more digits. Writes at
/// most three decimals and drops trailing zeros.
pub fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        x if x >= 99.95 => 0,
        x if x >= 9.995 => 1,
        x if x >= 0.9995 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    if decimals == 0 {
        return text;
    }
    let cut = text.trim_end_matches('0').trim_end_matches('.');
    if cut == "-0" { "0".to_owned() } else { cut.to_owned() }
}

/// Error returned when a quantity cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitError {
    /// The text does not begin with a decimal number.
    NoNumber {
        /// Text that was parsed.
        text: String,
        /// An example of valid input.
        example: &'static str,
    },
    /// The unit is missing.
    NoUnit {
        /// Text that was parsed.
        text: String,
        /// An example of valid input.
        example: &'static str,
    },
    /// Unknown unit for this quantity.
    UnknownUnit {
        /// Text that was parsed.
        text: String,
        /// The unknown unit.
        unit: String,
        /// Valid units, as a list in words.
        units: &'static str,
    },
    /// The rate is 0, or the number is out of range.
    OutOfRange {
        /// Text that was parsed.
        text: String,
    },
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNumber { text, example } => {
                write!(f, "`{text}` does not begin with a number; write, e.g., `{example}`")
            }
            Self::NoUnit { text, example } => {
                write!(f, "`{text}` has no unit; write, e.g., `{example}`")
            }
            Self::UnknownUnit { text, unit, units } => {
                write!(f, "`{text}` has an unknown unit, `{unit}`; valid units: {units}")
            }
            Self::OutOfRange { text } => {
                write!(
                    f,
                    "`{text}` is out of range: a rate must be above 0, a size below 2^64, and a \
                     quantity finite"
                )
            }
        }
    }
}

impl std::error::Error for UnitError {}

/// How a quantity is written: an example, the valid units, and the factor of each unit.
struct Notation {
    example: &'static str,
    units: &'static str,
    scale: fn(&str) -> Option<f64>,
}

const BIT_RATE: Notation = Notation {
    example: "10Gb/s",
    units: "b/s, kb/s, Mb/s, Gb/s, Tb/s (bits; also bit/s and bps)",
    scale: |unit| {
        let prefix = ["bit/s", "b/s", "bps"].iter().find_map(|ending| unit.strip_suffix(ending))?;
        decimal_prefix(prefix)
    },
};

const PACKET_RATE: Notation = Notation {
    example: "1.5Mpps",
    units: "pps, kpps, Mpps, Gpps",
    scale: |unit| decimal_prefix(unit.strip_suffix("pps")?),
};

const DURATION: Notation = Notation {
    example: "2s",
    units: "ns, us, ms, s, min, h",
    scale: |unit| match unit {
        "ns" => Some(1e-9),
        "us" | "µs" | "μs" => Some(1e-6),
        "ms" => Some(1e-3),
        "s" => Some(1.0),
        "min" => Some(60.0),
        "h" => Some(3600.0),
        _ => None,
    },
};

/// Returns the factor of a decimal prefix. Case-insensitive: `m` means mega, as a millibit per
/// second makes no sense.
fn decimal_prefix(prefix: &str) -> Option<f64> {
    match prefix {
        "" => Some(1.0),
        "k" | "K" => Some(1e3),
        "M" | "m" => Some(1e6),
        "G" | "g" => Some(1e9),
        "T" | "t" => Some(1e12),
        _ => None,
    }
}

/// Parses `NUMBER[ ]UNIT`, where the number consists of digits with an optional decimal point.
fn parse(text: &str, notation: &Notation) -> Result<f64, UnitError> {
    let owned = || text.to_owned();
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..end], trimmed[end..].trim_start());
    let number: f64 = number
        .parse()
        .map_err(|_| UnitError::NoNumber { text: owned(), example: notation.example })?;
    if unit.is_empty() {
        return Err(UnitError::NoUnit { text: owned(), example: notation.example });
    }
    let scale = (notation.scale)(unit).ok_or_else(|| UnitError::UnknownUnit {
        text: owned(),
        unit: unit.to_owned(),
        units: notation.units,
    })?;
    let value = number * scale;
    if value.is_finite() { Ok(value) } else { Err(UnitError::OutOfRange { text: owned() }) }
}

fn parse_rate(text: &str, notation: &Notation) -> Result<f64, UnitError> {
    let value = parse(text, notation)?;
    if value > 0.0 { Ok(value) } else { Err(UnitError::OutOfRange { text: text.to_owned() }) }
}

/// Parses a bit rate such as `10Gb/s`, `2.5 Gbit/s` or `100Mbps`. The rate must be above 0. Bytes
/// per second (`GB/s`) are rejected, as they are usually a mistake in a line rate.
///
/// # Errors
/// Returns an error if the text is not a valid bit rate; see [`UnitError`].
pub fn parse_bit_rate(text: &str) -> Result<BitsPerSecond, UnitError> {
    parse_rate(text, &BIT_RATE).map(BitsPerSecond)
}

/// Parses a packet rate such as `1.5Mpps` or `250kpps`. The rate must be above 0.
///
/// # Errors
/// Returns an error if the text is not a valid packet rate; see [`UnitError`].
pub fn parse_packet_rate(text: &str) -> Result<Kpps, UnitError> {
    parse_rate(text, &PACKET_RATE).map(|pps| Kpps(pps / 1e3))
}

/// Parses a duration such as `2s` or `500ms`, with nanosecond resolution. 0 is valid.
///
/// # Errors
/// Returns an error if the text is not a valid duration; see [`UnitError`].
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let seconds = parse(text, &DURATION)?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| UnitError::OutOfRange { text: text.to_owned() })
}

/// Parses a memory size such as `65536`, `64K`, `256MiB` or `2G`. Units are powers of 1024; 0 is
/// valid.
///
/// # Errors
/// Returns an error if the text is not a valid memory size; see [`UnitError`].
pub fn parse_memory_size(text: &str) -> Result<Bytes, UnitError> {
    let owned = || text.to_owned();
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..end], trimmed[end..].trim_start());
    if number.is_empty() {
        return Err(UnitError::NoNumber { text: owned(), example: "256M" });
    }
    let shift = match unit {
        "" | "B" => 0,
        "K" | "k" | "KiB" => 10,
        "M" | "m" | "MiB" => 20,
        "G" | "g" | "GiB" => 30,
        "T" | "t" | "TiB" => 40,
        _ => {
            let units = "K, M, G, T (powers of 1024, also written KiB etc.); decimal units are not \
                         supported";
            return Err(UnitError::UnknownUnit { text: owned(), unit: unit.to_owned(), units });
        }
    };
    let bytes = number.parse::<u64>().ok().and_then(|count| count.checked_mul(1 << shift));
    bytes.map(Bytes).ok_or_else(|| UnitError::OutOfRange { text: owned() })
}

/// Binary units, largest first, as exponent of 2 and name.
const MEMORY_UNITS: [(i32, &str); 5] =
    [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B")];

/// Returns the size and name of the largest binary unit in which `bytes`, rounded as by
/// [`three_digits`], is at least 1.
pub fn memory_unit(bytes: f64) -> (f64, &'static str) {
    // Values from 1023.5 up round to 1024.
    let rounded = bytes.abs() * (1024.0 / 1023.5);
    let unit = MEMORY_UNITS.iter().find(|(power, _)| rounded >= 2f64.powi(*power));
    let (power, name) = unit.unwrap_or(&(0, "B"));
    (2f64.powi(*power), name)
}

/// Formats a memory size in bytes with a binary unit: `48 KiB`, `1.25 MiB`.
pub fn memory_size(bytes: f64) -> String {
    let (size, unit) = memory_unit(bytes);
    format!("{} {unit}", three_digits(bytes / size))
}

/// Returns the name of a signal that terminates programs; `None` for any other number. These
/// numbers are the same on all Linux architectures except Alpha, MIPS and SPARC.
pub fn signal_name(signal: i32) -> Option<&'static str> {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => return None,
    };
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_of_memory_are_bytes_or_powers_of_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("65536", 65_536),
            ("64K", 65_536),
            (" 64 KiB ", 65_536),
            ("3m", 3 << 20),
            ("2G", 2 << 30),
            ("1T", 1 << 40),
            ("9223372036854775808", 1 << 63),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_memory_size(text), Ok(Bytes(bytes)), "{text}");
        }
        for bad in
            ["", "K", "-1", "+1", "1.5G", "64MB", "1e9", "\u{e9}", "K1", "18446744073709551616"]
        {
            assert!(parse_memory_size(bad).is_err(), "{bad}");
        }
        let error = parse_memory_size("16777216T").unwrap_err().to_string();
        assert!(error.contains("`16777216T` is out of range"), "{error}");
        for (bytes, text) in [
            (0.0, "0 B"),
            (1023.4, "1023 B"),
            (1023.5, "1 KiB"),
            (48.0 * 1024.0, "48 KiB"),
            (1000.0 * 1024.0, "1000 KiB"),
            (1_073_741_823.0, "1 GiB"),
            (1e15, "909 TiB"),
            (1.25 * 1024.0 * 1024.0, "1.25 MiB"),
            (33.4e9, "31.1 GiB"),
        ] {
            assert_eq!(memory_size(bytes), text);
        }
    }

    #[test]
    fn prints_three_digits_in_a_fitting_unit() {
        assert_eq!(Kpps(1340.0).to_string(), "1.34 Mpps");
        assert_eq!(Kpps(999.4).to_string(), "999 kpps");
        assert_eq!(Kpps(999.9).to_string(), "1 Mpps");
        assert_eq!(Kpps(0.25).to_string(), "250 pps");
        assert_eq!(Kpps(0.0).to_string(), "0 pps");
        assert_eq!(Kpps(12_345_678.0).to_string(), "12.3 Gpps");
        assert_eq!(Nanos(812.0).to_string(), "812 ns");
        assert_eq!(Nanos(0.4567).to_string(), "0.457 ns");
        assert_eq!(Nanos(12_340.0).to_string(), "12.3 µs");
        assert_eq!(Nanos(7.2e12).to_string(), "7200 s");
        assert_eq!(BitsPerSecond(9.8e9).to_string(), "9.8 Gb/s");
        assert_eq!(BitsPerSecond(1e10).to_string(), "10 Gb/s");
        assert_eq!(format!("{:>12}", Kpps(1340.0)), "   1.34 Mpps");
        assert_eq!(three_digits(-0.0001), "0");
        assert_eq!(three_digits(100.0), "100");
    }

    #[test]
    fn reads_what_people_write() {
        assert_eq!(parse_bit_rate("10Gb/s"), Ok(BitsPerSecond(1e10)));
        assert_eq!(parse_bit_rate(" 2.5 Gbit/s "), Ok(BitsPerSecond(2.5e9)));
        assert_eq!(parse_bit_rate("100mbps"), Ok(BitsPerSecond(1e8)));
        assert_eq!(parse_packet_rate("1.5Mpps"), Ok(Kpps(1500.0)));
        assert_eq!(parse_packet_rate("250kpps"), Ok(Kpps(250.0)));
        assert_eq!(parse_duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("1.5 min"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("7µs"), Ok(Duration::from_micros(7)));
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
    }

    #[test]
    fn says_what_is_wrong() {
        let message = |text| parse_bit_rate(text).unwrap_err().to_string();
        assert_eq!(message("fast"), "`fast` does not begin with a number; write, e.g., `10Gb/s`");
        assert_eq!(message("10"), "`10` has no unit; write, e.g., `10Gb/s`");
        assert!(
            message("10GB/s").starts_with("`10GB/s` has an unknown unit, `GB/s`; valid units:")
        );
        assert!(message("0Gb/s").contains("out of range"));
        assert!(matches!(parse_bit_rate(""), Err(UnitError::NoNumber { .. })));
        assert!(matches!(parse_packet_rate("-1Mpps"), Err(UnitError::NoNumber { .. })));
        assert!(matches!(parse_packet_rate("1.2.3Mpps"), Err(UnitError::NoNumber { .. })));
        assert!(matches!(parse_packet_rate("1Gb/s"), Err(UnitError::UnknownUnit { .. })));
        assert!(matches!(parse_duration("9e9s"), Err(UnitError::UnknownUnit { .. })));
        let huge = format!("{}h", "9".repeat(30));
        assert_eq!(parse_duration(&huge), Err(UnitError::OutOfRange { text: huge.clone() }));
    }

    #[test]
    fn runs_of_numbers_are_abbreviated() {
        let table: [(&[u32], &str); 5] = [
            (&[], ""),
            (&[3], "3"),
            (&[0, 1], "0, 1"),
            (&[0, 1, 2, 3, 8, 10, 11, 12], "0-3, 8, 10-12"),
            (&[u32::MAX, 0], "4294967295, 0"),
        ];
        for (numbers, text) in table {
            assert_eq!(ranges(numbers, ", "), text);
        }
        assert_eq!(ranges(&[0, 2, 3, 4], ","), "0,2-4");
    }

    #[test]
    fn one_of_a_thing_is_singular() {
        let all = [0, 1, 2].map(|number| counted(number, "packet"));
        assert_eq!(all, ["0 packets", "1 packet", "2 packets"]);
        assert_eq!([1.0, 1.5, 0.0].map(cpus), ["1 CPU", "1.5 CPUs", "0 CPUs"]);
        assert_eq!(counted(2, "process"), "2 processes");
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "\\PC{0,12}|[0-9. ]{0,5}[kMGbps/unmsh]{0,4}") {
            for message in [
                parse_bit_rate(&text).err(),
                parse_packet_rate(&text).err(),
                parse_duration(&text).err(),
            ].into_iter().flatten() {
                prop_assert!(message.to_string().contains(&text));
            }
        }

        #[test]
        fn what_is_printed_can_be_read_back(kpps in 1e-3f64..1e9) {
            let read = parse_packet_rate(&Kpps(kpps).to_string()).unwrap();
            prop_assert!((read.0 / kpps - 1.0).abs() < 0.006);
        }
    }
}
