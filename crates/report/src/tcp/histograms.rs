// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lengths and alignments of the stacks' calls, for the selected set or, if it was not measured,
//! the first one. Sets differ only in whether copy+checksum is one call or two.

use super::line;
use crate::Style;
use crate::layout::{Grid, stacked};
use crate::value::{count, percent, significant};
use linerate_record::tcp::{SEAM_COPY_HEADER, SEAM_HEADER, TcpReport, TcpSeam};

/// Bytes per alignment class.
const ALIGNMENT_STEP: usize = 8;

/// Formats a table of lengths and one of alignments for every pattern of every stack.
pub fn histograms(report: &TcpReport, style: &Style) -> String {
    let mut parts = Vec::new();
    for stack in &report.stacks {
        for pattern in &stack.patterns {
            let selected = pattern.sets.iter().find(|set| set.name == report.selected);
            let Some(set) = selected.or(pattern.sets.first()) else { continue };
            let calls = |seam: &TcpSeam| {
                let mean = significant(seam.bytes as f64 / seam.calls.max(1) as f64);
                format!("{} calls of {} ({mean} bytes on average)", count(seam.calls), named(seam))
            };
            let calls: Vec<String> = set.seam.iter().map(calls).collect();
            let calls = if calls.is_empty() { "no calls".to_owned() } else { calls.join(", ") };
            let head = format!("{}, {}, `{}`: {calls}", stack.name, pattern.name, set.name);
            let lengths = table("bytes", &set.seam, |seam| &seam.lengths, length);
            let places = table("source at", &set.seam, |seam| &seam.alignments, place);
            parts.push(line("calls", &head, style) + &lengths.render(style));
            parts.push(places.render(style));
        }
    }
    stacked(&parts)
}

fn named(seam: &TcpSeam) -> &str {
    match seam.routine.as_str() {
        "checksum" => "sum",
        "copy_checksum" => "copy+sum",
        SEAM_HEADER => "inline sum",
        SEAM_COPY_HEADER => "inline copy+sum",
        other => other,
    }
}

/// Formats a length class: 0, 1, 2 to 3, 4 to 7, and so on.
fn length(class: usize) -> String {
    match class {
        0 | 1 => class.to_string(),
        class => format!("{}-{}", 1_u64 << (class - 1), (1_u64 << class) - 1),
    }
}

/// Formats an alignment class as bytes past a multiple of 64.
fn place(class: usize) -> String {
    format!("64n+{}-{}", ALIGNMENT_STEP * class, ALIGNMENT_STEP * (class + 1) - 1)
}

/// Formats each routine's share of calls in each non-empty class.
fn table<'s>(
    what: &str,
    seam: &'s [TcpSeam],
    classes: impl Fn(&'s TcpSeam) -> &'s Vec<u64>,
    name: fn(usize) -> String,
) -> Grid {
    let heads: Vec<String> = seam.iter().map(|seam| format!(">{} %", named(seam))).collect();
    let heads: Vec<&str> = std::iter::once(what).chain(heads.iter().map(String::as_str)).collect();
    let mut grid = Grid::new(&heads);
    let most = seam.iter().map(|seam| classes(seam).len()).max().unwrap_or(0);
    for class in 0..most {
        let calls = |seam| classes(seam).get(class).copied().unwrap_or(0);
        if seam.iter().any(|seam| calls(seam) > 0) {
            let share = |seam: &'s TcpSeam| percent(calls(seam) as f64 / seam.calls.max(1) as f64);
            let cells = std::iter::once(name(class)).chain(seam.iter().map(share));
            grid.row(cells.collect());
        }
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::{length, place};

    #[test]
    fn classes_are_named_by_their_ends() {
        assert_eq!([0, 1, 2, 12].map(length), ["0", "1", "2-3", "2048-4095"]);
        assert_eq!([0, 7].map(place), ["64n+0-7", "64n+56-63"]);
    }
}
