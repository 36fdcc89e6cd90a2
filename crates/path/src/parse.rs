// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses rates and times in path files and on the command line.
//!
//! Error messages quote the text and show the correct form.

use crate::keys::MAX_SECONDS;
use crate::model::Rate;
use crate::problem::shown;
use crate::suggest;
use linerate_record::units::{self, UnitError};

/// Rates that are spelled as words.
const WORDS: [(&str, Rate); 3] =
    [("max", Rate::Max), ("line", Rate::Line), ("capture", Rate::Capture)];

/// Returns the words that [`rate`] accepts in place of a figure.
pub(crate) fn rate_words() -> [&'static str; 3] {
    WORDS.map(|(word, _)| word)
}

/// Parses the duration of a run, such as `2s`, in seconds. It must be above 0 and at most 30 days.
///
/// # Errors
/// Returns an error message that quotes the text and shows the correct form.
pub fn seconds(text: &str) -> Result<f64, String> {
    let seconds = units::parse_duration(text).map_err(sentence)?.as_secs_f64();
    if seconds > 0.0 && seconds <= MAX_SECONDS {
        return Ok(seconds);
    }
    Err(format!("{} must be above 0 and at most 30 days", shown(text)))
}

/// Parses a line rate, such as `10Gb/s`, in bits per second. It must be above 0.
///
/// # Errors
/// Returns an error message that quotes the text and shows the correct form.
pub fn bit_rate(text: &str) -> Result<f64, String> {
    units::parse_bit_rate(text).map(|rate| rate.0).map_err(sentence)
}

/// Parses an offered rate: `max`, `line`, `capture`, or a figure such as `1.5Mpps` or `5Gb/s`.
///
/// # Errors
/// Returns an error message that quotes the text and shows the correct form.
pub fn rate(text: &str) -> Result<Rate, String> {
    if let Some((_, rate)) = WORDS.iter().find(|(word, _)| *word == text) {
        return Ok(*rate);
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        let help = suggest::help(text, rate_words());
        let figures = "or a rate such as '1.5Mpps' or '5Gb/s'";
        return Err(format!("invalid rate {}; {help} ({figures})", shown(text)));
    }
    // A bit rate always contains a `b`, and a packet rate never does.
    if text.contains('b') {
        return bit_rate(text).map(Rate::BitsPerSecond);
    }
    let rate = units::parse_packet_rate(text).map_err(sentence)?;
    Ok(Rate::PacketsPerSecond(rate.per_second()))
}

/// Formats the error with the kind of quotation marks that this crate uses.
fn sentence(error: UnitError) -> String {
    error.to_string().replace('`', "'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_rates_and_times() {
        assert_eq!(rate("max"), Ok(Rate::Max));
        assert_eq!(rate("line"), Ok(Rate::Line));
        assert_eq!(rate("capture"), Ok(Rate::Capture));
        assert_eq!(rate("1.5Mpps"), Ok(Rate::PacketsPerSecond(1.5e6)));
        assert_eq!(rate("5Gb/s"), Ok(Rate::BitsPerSecond(5e9)));
        assert_eq!(bit_rate("10Gb/s"), Ok(1e10));
        assert_eq!(seconds("500ms"), Ok(0.5));
        for text in ["", "fast", "5", "5Mpp", "5Gb", "-1Mpps", "0pps", "nan", "1e999pps"] {
            assert!(rate(text).is_err(), "{text}");
        }
        for text in ["", "0s", "31 d", "2", "1e30s", "-1s", "inf", "721h"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        let error = rate("lien").expect_err("a slip of the pen");
        assert!(error.contains("did you mean 'line'?"), "{error}");
    }
}
