// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms: bars drawn to scale, and the total.

use super::{Glyphs, Page};
use crate::layout::fenced;
use crate::value::{count, in_sentence, percent};
use linerate_record::memory::{Bin, Histogram, Mode};
use linerate_record::stats::Estimate;
use linerate_record::units::{memory_size, three_digits};
use linerate_record::{Figure, Tier};

/// Formats histograms of single-load times, one per chain size.
pub(super) fn histograms(page: &Page) -> String {
    let all = &page.report.histograms;
    if all.is_empty() {
        return String::new();
    }
    let each: Vec<String> = all.iter().map(|histogram| one(page, histogram)).collect();
    let is_below = |bin: &Bin| bin.count > 0 && bin.from_ns < 0.0;
    let below = match all.iter().flat_map(|histogram| &histogram.bins).any(is_below) {
        true => "\n".to_owned() + &page.note(BELOW),
        false => String::new(),
    };
    page.title("individual loads") + &each.join("\n") + &below
}

const BELOW: &str = "bins are at least one timer step wide; a bin that starts below 0 contains \
                     loads that took less than one step after the overhead was subtracted";

fn one(page: &Page, histogram: &Histogram) -> String {
    let ns = |figure| in_sentence(figure, "ns", three_digits);
    let level = histogram.level.as_ref().map_or(String::new(), |level| format!(" ({level})"));
    let mut text = format!(
        "{} loads; {} per load in chains; {} of timing overhead subtracted",
        count(histogram.samples),
        ns(&histogram.slope_ns),
        ns(&histogram.bias_ns)
    );
    let step = step_of(&histogram.bins);
    let modes: Vec<String> = histogram.modes.iter().map(|place| mode(place, step)).collect();
    if !modes.is_empty() {
        text += &format!("; peaks: {}", modes.join("; "));
    }
    let label = format!("{}{level}", memory_size(histogram.bytes as f64));
    page.note(&format!("{label}: {text}"))
        + &bars(page, &LOADS, &histogram.bins, Some(histogram.samples))
}

/// Describes a mode (peak) of the distribution: share of loads, time with range, and the level with
/// that latency. A range missing from the record is assumed to extend half a timer `step` to either
/// side.
fn mode(mode: &Mode, step: f64) -> String {
    let name = mode.name.as_ref().map_or(String::new(), |name| format!(", as in {name}"));
    let low = mode.low_ns.unwrap_or_else(|| (mode.ns - step / 2.0).max(0.0));
    let high = mode.high_ns.unwrap_or(mode.ns + step / 2.0);
    let at = Estimate { value: mode.ns, low, high, confidence: 1.0, n: 1 };
    let at = in_sentence(&Figure::number("ns", at, Tier::Sw, "bins"), "ns", three_digits);
    format!("{} % at {at}{name}", percent(mode.share))
}

/// Returns the width of the narrowest bin, which is at least a timer step and limits how precisely
/// a mode can be located; 0 if all bins are open-ended.
fn step_of(bins: &[Bin]) -> f64 {
    let widths = bins.iter().filter_map(|bin| Some(bin.to_ns? - bin.from_ns));
    widths.min_by(f64::total_cmp).unwrap_or(0.0)
}

/// Maximum number of lines in a histogram; neighbouring bins are merged beyond that.
const MOST_LINES: usize = 40;

/// Minimum and maximum length of the longest bar.
const BAR_COLUMNS: (usize, usize) = (8, 60);

/// A line of a histogram.
struct Bar {
    from: f64,
    count: u64,
    /// Whether empty bins before this one were omitted.
    is_after_gap: bool,
    /// Whether the bin is open-ended and counts everything from its lower end upwards.
    is_open: bool,
}

/// Labels of a histogram.
pub(super) struct Shown {
    /// Headings for the lower ends of bins and for the counts.
    pub(super) heads: [&'static str; 2],
    /// Formats the lower end of a bin, given in ns.
    pub(super) from: fn(f64) -> String,
}

const LOADS: Shown = Shown { heads: ["ns from", "loads"], from: three_digits };

/// Formats the bins and their total, with a note if the total is not `expected`. Empty if there are
/// no bins.
pub(super) fn bars(page: &Page, shown: &Shown, bins: &[Bin], expected: Option<u64>) -> String {
    let heads = shown.heads;
    let bars = condensed(bins);
    let Some(most) = bars.iter().map(|bar| bar.count).max() else { return String::new() };
    let sum = bins.iter().fold(0u64, |sum, bin| sum.saturating_add(bin.count));
    let open = |bar: &Bar| if bar.is_open { "+" } else { "" };
    let label = |bar: &Bar| [(shown.from)(bar.from) + open(bar), count(bar.count)];
    let mut lines: Vec<[String; 2]> = bars.iter().map(label).collect();
    lines.push(["sum".to_owned(), count(sum)]);
    let width = |column: usize| {
        let cells = lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        cells.max(heads[column].len())
    };
    let (left, right) = (width(0), width(1));
    let taken = INDENT + left + GAP + right + GAP;
    let room = page.style.width.saturating_sub(taken).clamp(BAR_COLUMNS.0, BAR_COLUMNS.1);
    let line = |cells: [&str; 2], bar: &str| {
        let text = format!("{:INDENT$}{:>left$}  {:>right$}  {bar}", "", cells[0], cells[1]);
        text.trim_end().to_owned() + "\n"
    };
    let mut text = line(heads, "");
    for (bar, [from, n]) in bars.iter().zip(&lines) {
        if bar.is_after_gap {
            text += &line(["...", ""], "");
        }
        text += &line([from, n], &drawn(bar.count, most, room, page.glyphs));
    }
    text += &line(["sum", &count(sum)], "");
    let text = fenced(&text, page.style);
    match expected {
        Some(expected) if expected != sum => {
            text + &page.note(&format!("the bins contain {sum} of {expected} loads"))
        }
        _ => text,
    }
}

const INDENT: usize = 12;
const GAP: usize = 2;

/// Returns the bins from the first to the last non-empty one, merging them if there are too many.
/// Empty bins are left out; the bar after a run of them is marked.
fn condensed(bins: &[Bin]) -> Vec<Bar> {
    let is_full = |bin: &Bin| bin.count > 0;
    let Some(first) = bins.iter().position(is_full) else { return Vec::new() };
    let last = bins.iter().rposition(is_full).unwrap_or(first);
    let used = &bins[first..=last];
    let group = used.len().div_ceil(MOST_LINES);
    let mut bars = Vec::new();
    let mut is_after_gap = false;
    for bins in used.chunks(group) {
        let count = bins.iter().fold(0u64, |sum, bin| sum.saturating_add(bin.count));
        if count > 0 {
            let is_open = bins.iter().any(|bin| bin.to_ns.is_none());
            bars.push(Bar { from: bins[0].from_ns, count, is_after_gap, is_open });
        }
        is_after_gap = count == 0;
    }
    bars
}

/// Draws a bar proportional to its count, with a resolution of an eighth of a column or, in ASCII,
/// a whole column. Non-zero counts are always visible: the shortest bar is an eighth of a column or
/// a dot.
fn drawn(count: u64, most: u64, room: usize, glyphs: Glyphs) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let columns = count as f64 / most as f64 * room as f64;
    match glyphs {
        Glyphs::Braille => {
            let eighths = ((columns * 8.0).round() as usize).max(1);
            "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
        }
        Glyphs::Ascii => match columns.round() as usize {
            0 => ".".to_owned(),
            whole => "#".repeat(whole),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bins(counts: &[u64]) -> Vec<Bin> {
        let bin = |(index, &count): (usize, &u64)| {
            let from_ns = index as f64;
            let to_ns = (index + 1 < counts.len()).then_some(from_ns + 1.0);
            Bin { from_ns, to_ns, count }
        };
        counts.iter().enumerate().map(bin).collect()
    }

    #[test]
    fn bars_are_as_long_as_their_share() {
        let ascii = |count| drawn(count, 1000, 40, Glyphs::Ascii);
        assert_eq!([1000, 500, 13, 12, 1].map(|n| ascii(n).len()), [40, 20, 1, 1, 1]);
        assert_eq!((ascii(13), ascii(12)), ("#".to_owned(), ".".to_owned()));
        let unicode = |count| drawn(count, 64, 8, Glyphs::Braille);
        assert_eq!([64, 12, 8, 1].map(unicode), ["████████", "█▌", "█", "▏"]);
    }

    #[test]
    fn nothing_is_lost_where_bins_are_put_together() {
        for counts in [vec![0, 5, 0, 0, 3, 0], vec![1; 41], (0..1000).collect(), vec![0, 0]] {
            let bars = condensed(&bins(&counts));
            assert!(bars.len() <= MOST_LINES);
            assert_eq!(bars.iter().map(|b| b.count).sum::<u64>(), counts.iter().sum::<u64>());
        }
        let bars = condensed(&bins(&[0, 5, 0, 0, 3, 2, 0]));
        let shape: Vec<(f64, bool)> = bars.iter().map(|b| (b.from, b.is_after_gap)).collect();
        assert_eq!(shape, [(1.0, false), (4.0, true), (5.0, false)]);
    }

    #[test]
    fn the_last_bin_takes_everything_above() {
        let open = |counts: &[u64]| -> Vec<bool> {
            condensed(&bins(counts)).iter().map(|bar| bar.is_open).collect()
        };
        assert_eq!(open(&[1, 1, 1]), [false, false, true]);
        assert_eq!(open(&[1, 1, 0]), [false, false]);
        assert_eq!(open(&[1; 41]).iter().position(|is_open| *is_open), Some(20));
    }
}
