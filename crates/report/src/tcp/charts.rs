// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures 9 to 11 of the white paper "Enhanced TCP/IP Performance with AltiVec" in a terminal:
//! shares of time, work relative to plain C, throughput. Only the most informative sets are shown;
//! the tables have the others.

use super::{DOCUMENT, OFF, line};
use crate::Style;
use crate::layout::{fenced, stacked};
use crate::value::clean;
use linerate_record::Figure;
use linerate_record::tcp::{TcpPattern, TcpReport, TcpSet, TcpStack};
use linerate_record::units::three_digits;

/// Fill character for the bar of a routine.
const BAR: char = '█';
/// Fill character for the bar of the bound.
const BOUND: char = '░';
/// Fill characters for the shares of checksums, copies, and copies with checksum.
const SHARES: [char; 3] = ['█', '▓', '▒'];

const INDENT: usize = 2;
const NAME_COLUMNS: usize = 13;
const VALUE_COLUMNS: usize = 7;

/// Minimum width of a bar in columns.
const BAR_COLUMNS_MIN: usize = 10;

/// Formats the charts for a stack.
pub(super) fn charts(report: &TcpReport, stack: &TcpStack, style: &Style) -> String {
    let chart = Chart { report, stack, style };
    stacked(&[
        chart.shares(),
        chart.of("over C", "work relative to the white paper's C", &|set| &set.over_c),
        chart.of("throughput", "Gb of payload per second of CPU time", &|set| &set.gbps_per_cpu_s),
    ])
}

struct Chart<'a> {
    report: &'a TcpReport,
    stack: &'a TcpStack,
    style: &'a Style,
}

impl Chart<'_> {
    /// Returns plain C, the best scalar set, the selected set, and the bound; or all sets if none
    /// of these but the bound was measured.
    fn sets<'p>(&self, pattern: &'p TcpPattern) -> Vec<&'p TcpSet> {
        let telling = [DOCUMENT, &self.report.scalar, &self.report.selected, OFF];
        let is_telling = |set: &&TcpSet| telling.contains(&set.name.as_str());
        let some: Vec<&TcpSet> = pattern.sets.iter().filter(is_telling).collect();
        match some.iter().any(|set| set.name != OFF) {
            true => some,
            false => pattern.sets.iter().collect(),
        }
    }

    /// Formats figure 9: each routine's share of time.
    fn shares(&self) -> String {
        let mut rows = Vec::new();
        for pattern in &self.stack.patterns {
            for set in self.sets(pattern).into_iter().filter(|set| set.name != OFF) {
                let shares = [&set.share_checksum, &set.share_copy, &set.share_copy_checksum];
                let shares = shares.map(|share| share.as_number().unwrap_or(0.0).clamp(0.0, 1.0));
                let total: f64 = shares.iter().sum();
                let parts = shares.into_iter().zip(SHARES).collect();
                let value = format!("{} %", three_digits(100.0 * total));
                rows.push(Row { pattern, set: &set.name, value, parts });
            }
        }
        let [sum, copy, both] = SHARES;
        let what = format!(
            "{}: share of CPU time in checksums ({sum}), copies ({copy}) and combined \
             copy+checksum ({both}), as timed; a full bar is 100 %",
            self.stack.name
        );
        self.drawn("shares", &what, &rows)
    }

    /// Formats one figure of every set as bars on a common scale; the largest value has the longest
    /// bar.
    fn of(&self, label: &str, what: &str, figure: &dyn Fn(&TcpSet) -> &Figure) -> String {
        let patterns = self.stack.patterns.iter();
        let sets = patterns.flat_map(|p| self.sets(p).into_iter().map(move |set| (p, set)));
        let valued: Vec<_> =
            sets.filter_map(|(p, set)| Some((p, set, figure(set).as_number()?))).collect();
        let most = valued.iter().map(|(.., value)| *value).fold(0.0, f64::max);
        let mut rows = Vec::new();
        for (pattern, set, value) in valued {
            let glyph = if set.name == OFF { BOUND } else { BAR };
            let share = if most > 0.0 { value / most } else { 0.0 };
            let parts = vec![(share, glyph)];
            rows.push(Row { pattern, set: &set.name, value: three_digits(value), parts });
        }
        let what = format!("{}: {what}; {OFF} ({BOUND}) is the upper bound", self.stack.name);
        self.drawn(label, &what, &rows)
    }

    /// Formats one line per row, naming each pattern once; empty without rows.
    fn drawn(&self, label: &str, what: &str, rows: &[Row<'_>]) -> String {
        if rows.is_empty() {
            return String::new();
        }
        let taken = INDENT + 2 * NAME_COLUMNS + VALUE_COLUMNS + 1;
        let room = self.style.width.saturating_sub(taken).max(BAR_COLUMNS_MIN);
        let mut text = String::new();
        let mut last = None;
        for row in rows {
            let pattern = row.pattern.name.as_str();
            let named = if last == Some(pattern) { "" } else { pattern };
            last = Some(pattern);
            let drawn = format!(
                "{:INDENT$}{:NAME_COLUMNS$}{:NAME_COLUMNS$}{:>VALUE_COLUMNS$} {}",
                "",
                clean(named),
                clean(row.set),
                row.value,
                bar(&row.parts, room)
            );
            text += drawn.trim_end();
            text.push('\n');
        }
        line(label, what, self.style) + &fenced(&text, self.style)
    }
}

struct Row<'a> {
    pattern: &'a TcpPattern,
    set: &'a str,
    value: String,
    /// Consecutive segments, as fractions of the full bar.
    parts: Vec<(f64, char)>,
}

/// Draws a bar. Each segment ends at the nearest column, so that rounding errors do not accumulate.
fn bar(parts: &[(f64, char)], room: usize) -> String {
    let (mut text, mut end, mut drawn) = (String::new(), 0.0, 0);
    for (share, glyph) in parts {
        end += share;
        let to = ((end * room as f64).round() as usize).min(room);
        text.extend(std::iter::repeat_n(*glyph, to.saturating_sub(drawn)));
        drawn = to.max(drawn);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn parts_of_a_bar_end_where_their_sum_does() {
        assert_eq!(bar(&[(0.5, 'a'), (0.25, 'b')], 8), "aaaabb");
        // Rounded individually, each part would take a whole column.
        assert_eq!(bar(&[(0.06, 'a'), (0.06, 'b'), (0.06, 'c')], 10), "ac");
        assert_eq!(bar(&[(1.0, 'a'), (1.0, 'b')], 3), "aaa");
        assert_eq!(bar(&[(0.0, 'a')], 3), "");
    }
}
