// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formatting of values.

use linerate_plan::verdict::MIN_GAIN;
use linerate_record::units::{memory_unit, three_digits};
use linerate_record::{Figure, Scalar, Tier};
use std::collections::BTreeSet;

/// Placeholder for absent values.
pub(crate) const ABSENT: &str = "-";

/// Returns `text` with each control character replaced by U+FFFD.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Truncates `text` to at most `columns` columns: at a word boundary, unless that would drop half
/// of what fits.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    const MORE: &str = " ...";
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let kept: String = text.chars().take(columns.saturating_sub(MORE.len())).collect();
    let whole = kept.rsplit_once(' ').map_or(kept.as_str(), |(words, _)| words);
    let kept = if 2 * whole.len() >= kept.len() { whole } else { kept.as_str() };
    kept.trim_end_matches([',', ':', ';']).to_owned() + MORE
}

/// Formats a count with digit grouping: `1234567` becomes `1,234,567`.
pub(crate) fn count(n: u64) -> String {
    linerate_record::units::grouped(n)
}

/// Formats a count that may be an estimate, rounded to an integer, with digit grouping.
pub(crate) fn whole(x: f64) -> String {
    let sign = if x <= -0.5 { "-" } else { "" };
    // Saturates at 2^64 - 1, which no counter reaches.
    format!("{sign}{}", count(x.abs().round() as u64))
}

/// Formats a number with up to three significant digits; from 1000 upwards, as an integer with
/// digit grouping.
pub(crate) fn significant(x: f64) -> String {
    let size = x.abs();
    if size == 0.0 || size >= 1000.0 {
        return whole(x);
    }
    // Exponent of the first digit after rounding to three digits.
    let exponent = format!("{size:.2e}");
    let exponent = exponent.rsplit('e').next().and_then(|text| text.parse().ok()).unwrap_or(0);
    match exponent {
        i32::MIN..-9 => format!("{x:.2e}"),
        3.. => whole(x),
        _ => {
            let decimals = usize::try_from(2 - exponent).unwrap_or(0);
            let text = format!("{x:.decimals$}");
            match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                false => text,
            }
        }
    }
}

/// Formats a byte count with its noun: `1 byte`, `1460 bytes`.
pub(crate) fn bytes(n: u64) -> String {
    if n == 1 { "1 byte".to_owned() } else { format!("{n} bytes") }
}

/// Formats the value of a figure for a table cell, without its interval.
pub(crate) fn cell(figure: &Figure, show: impl Fn(f64) -> String) -> String {
    figure.as_number().map_or_else(|| ABSENT.to_owned(), show)
}

/// Formats a figure in bytes and its interval in the same unit: `7.3 MiB (6.1 to 8.9)`.
pub(crate) fn ranged_binary(figure: &Figure) -> String {
    let (size, unit) = memory_unit(figure.as_number().unwrap_or(1.0));
    let in_unit = |bytes: f64| three_digits(bytes / size);
    ranged_as(figure, |bytes| format!("{} {unit}", in_unit(bytes)), in_unit)
}

/// Formats a figure with its interval for a table cell: `1.08 (1.07 to 1.1)`. Omits an interval
/// that rounds to the value.
pub(crate) fn ranged(figure: &Figure, show: impl Fn(f64) -> String) -> String {
    ranged_as(figure, &show, &show)
}

/// Formats a figure for a sentence, without confidence level: `98.3 ns (95.4 to 101)`, or why it is
/// absent.
pub(crate) fn in_sentence(figure: &Figure, unit: &str, show: impl Fn(f64) -> String) -> String {
    match figure.as_number() {
        Some(_) => ranged_as(figure, |value| format!("{} {unit}", show(value)), &show),
        None => format!("{ABSENT} ({})", reason(figure)),
    }
}

fn ranged_as(
    figure: &Figure,
    show: impl Fn(f64) -> String,
    show_end: impl Fn(f64) -> String,
) -> String {
    let Some(value) = figure.as_number() else { return ABSENT.to_owned() };
    let is_value = |end: Option<f64>| end.is_some_and(|end| show_end(end) == show_end(value));
    let ends = match is_value(figure.low) && is_value(figure.high) {
        true => None,
        false => interval(figure, &show_end),
    };
    show(value) + &ends.map_or(String::new(), |ends| format!(" ({ends})"))
}

/// Formats a fraction as a percentage with one decimal.
pub(crate) fn percent(share: f64) -> String {
    let text = format!("{:.1}", share * 100.0);
    if text == "-0.0" { "0.0".to_owned() } else { text }
}

/// Formats the minimum gain for a change: `2 %`.
pub(crate) fn min_gain() -> String {
    format!("{} %", three_digits(100.0 * MIN_GAIN))
}

/// Formats a figure's value without its unit and interval.
pub(crate) fn number(figure: &Figure) -> String {
    match &figure.value {
        Scalar::Number(x) => three_digits(*x),
        Scalar::Text(text) => text.clone(),
        Scalar::Absent => ABSENT.to_owned(),
    }
}

/// Formats a figure for a sentence: the value formatted by `show` and its interval, or why it is
/// absent.
pub(crate) fn quoted(figure: &Figure, show: impl Fn(f64) -> String) -> String {
    let Some(value) = figure.as_number() else {
        return format!("{ABSENT} ({})", reason(figure));
    };
    let confidence = figure.confidence.map(|c| format!(", {} %", three_digits(c * 100.0)));
    match (interval(figure, &show), confidence) {
        (Some(interval), Some(confidence)) => format!("{} ({interval}{confidence})", show(value)),
        (Some(interval), None) => format!("{} ({interval})", show(value)),
        (None, _) => show(value),
    }
}

/// Formats the interval in words; `None` if there is none.
pub(crate) fn interval(figure: &Figure, show: impl Fn(f64) -> String) -> Option<String> {
    match (figure.low, figure.high) {
        (Some(low), Some(high)) => Some(format!("{} to {}", show(low), show(high))),
        (Some(low), None) => Some(format!("at least {}", show(low))),
        (None, Some(high)) => Some(format!("at most {}", show(high))),
        (None, None) => None,
    }
}

pub(crate) fn reason(figure: &Figure) -> &str {
    figure.reason.as_deref().unwrap_or("no reason given")
}

/// Lists the tiers of the `figures` that have a value, for printing next to them. Omits `hw`.
pub(crate) fn tiers<'a>(figures: impl IntoIterator<Item = &'a Figure>) -> String {
    let present = figures.into_iter().filter(|figure| figure.value != Scalar::Absent);
    let tiers: BTreeSet<Tier> = present.map(|figure| figure.tier).collect();
    let others = tiers.into_iter().filter(|tier| *tier != Tier::Hw);
    others.map(Tier::name).collect::<Vec<_>>().join(", ")
}

/// Draws one character per bucket, with a height relative to the fullest; blank for 0.
pub(crate) fn sparkline(buckets: &[u64]) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = buckets.iter().copied().max().unwrap_or(0);
    let height = |n: u64| match n {
        0 => ' ',
        n => HEIGHTS[((n as f64 / most as f64 * 8.0).ceil() as usize).clamp(1, 8) - 1],
    };
    buckets.iter().map(|&n| height(n)).collect()
}

/// Formats the range of the bucket in `sizes` that contains the median burst; `None` without
/// bursts. Bucket `i` counts bursts of `2^i` to `2^(i+1) - 1` packets.
pub(crate) fn median_burst(sizes: &[u64]) -> Option<String> {
    let total: u64 = sizes.iter().sum();
    let mut seen = 0;
    let bucket = sizes.iter().position(|n| {
        seen += n;
        total > 0 && 2 * seen >= total
    })?;
    let low = 1u64.checked_shl(u32::try_from(bucket).ok()?)?;
    let high = low.saturating_mul(2) - 1;
    Some(if low == high { low.to_string() } else { format!("{low}-{high}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::stats::Estimate;

    fn figure(value: f64, low: f64, high: f64) -> Figure {
        let estimate = Estimate { value, low, high, confidence: 0.9, n: 9 };
        Figure::number("ratio", estimate, Tier::Sw, "test")
    }

    #[test]
    fn numbers_are_grouped_and_rounded() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1000), "1,000");
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!((bytes(0), bytes(1)), ("0 bytes".to_owned(), "1 byte".to_owned()));
        assert_eq!(percent(0.31249), "31.2");
        assert_eq!(percent(-0.0001), "0.0");
    }

    #[test]
    fn small_numbers_keep_three_digits() {
        let table = [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (9.474, "9.47"),
            (0.000_412_3, "0.000412"),
            (0.9996, "1"),
            (999.4, "999"),
            (999.7, "1,000"),
            (1_234_567.5, "1,234,568"),
            (-0.25, "-0.25"),
            (1.5e-12, "1.50e-12"),
            (-2_000.0, "-2,000"),
            (0.1 + 0.2, "0.3"),
        ];
        for (x, text) in table {
            assert_eq!(significant(x), text);
        }
        assert_eq!((whole(1e30), whole(0.4)), (count(u64::MAX), "0".to_owned()));
    }

    #[test]
    fn cells_have_the_interval_next_to_the_value() {
        let (kib, mib) = (1024.0, 1_048_576.0);
        assert_eq!(ranged_binary(&figure(mib, 900.0 * kib, 1.5 * mib)), "1 MiB (0.879 to 1.5)");
        let absent = Figure::absent("bytes", Tier::Sw, "test", "no step");
        assert_eq!(ranged_binary(&absent), "-");
        assert_eq!(cell(&absent, whole), "-");
        assert_eq!(cell(&figure(2.0, 1.5, 2.5), whole), "2");
        assert_eq!(in_sentence(&absent, "ns", three_digits), "- (no step)");
        assert_eq!(in_sentence(&figure(2.0, 1.5, 2.5), "ns", three_digits), "2 ns (1.5 to 2.5)");
        assert_eq!(ranged(&figure(2.0, 1.5, f64::INFINITY), three_digits), "2 (at least 1.5)");
        assert_eq!(ranged(&figure(2.0, 1.99, 2.001), three_digits), "2 (1.99 to 2)");
        assert_eq!(ranged(&figure(72.0, 72.0, 72.4), whole), "72");
    }

    #[test]
    fn an_interval_is_shown_as_far_as_it_is_known() {
        let inf = f64::INFINITY;
        assert_eq!(quoted(&figure(2.0, 1.5, 2.5), three_digits), "2 (1.5 to 2.5, 90 %)");
        assert_eq!(quoted(&figure(2.0, 1.5, inf), three_digits), "2 (at least 1.5, 90 %)");
        assert_eq!(quoted(&figure(2.0, -inf, 2.5), three_digits), "2 (at most 2.5, 90 %)");
        assert_eq!(quoted(&figure(2.0, -inf, inf), three_digits), "2");
        let absent = Figure::absent("ratio", Tier::Sw, "test", "no rounds");
        assert_eq!(quoted(&absent, three_digits), "- (no rounds)");
        assert_eq!(number(&absent), "-");
    }

    #[test]
    fn only_tiers_of_present_figures_count() {
        let absent = Figure::absent("", Tier::Sim, "", "");
        let model = Figure::exact("", 1.0, Tier::Model, "");
        let hw = Figure::exact("", 1.0, Tier::Hw, "");
        assert_eq!(tiers([&model, &absent, &figure(1.0, 1.0, 1.0), &hw]), "sw, model");
        assert_eq!(tiers([&hw]), "");
    }

    #[test]
    fn sparklines_tell_nothing_from_little() {
        assert_eq!(sparkline(&[0, 1, 500, 1000]), " ▁▄█");
        assert_eq!(sparkline(&[]), "");
        assert_eq!(sparkline(&[0, 0]), "  ");
    }

    #[test]
    fn the_median_burst_is_the_bucket_it_falls_into() {
        assert_eq!(median_burst(&[5]), Some("1".to_owned()));
        assert_eq!(median_burst(&[4, 0, 1, 6]), Some("8-15".to_owned()));
        assert_eq!(median_burst(&[6, 1, 4]), Some("1".to_owned()));
        assert_eq!(median_burst(&[0, 0]), None);
        assert_eq!(median_burst(&[]), None);
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(clean("a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
    }
}
