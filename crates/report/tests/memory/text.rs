// SPDX-License-Identifier: MIT OR Apache-2.0
//! The terminal report on memory.

use crate::common::{PLAIN, assert_golden};
use crate::example::{bare, counted, local_ns, odd, provenance, report};
use linerate_record::memory::{MemoryReport, Order, OsVerdict};
use linerate_record::units::{memory_size, three_digits};
use linerate_record::{Body, Figure, Record, Tier};
use linerate_report::{Detail, Glyphs, Layout, Options, Style, memory};

const NARROW: Style = Style::plain(80);

fn brief(report: &MemoryReport, style: &Style) -> String {
    memory(report, &provenance(), Detail::Brief, Glyphs::Braille, style)
}

fn full(report: &MemoryReport, style: &Style) -> String {
    memory(report, &provenance(), Detail::Full, Glyphs::Braille, style)
}

#[test]
fn the_report_in_brief() {
    assert_golden("memory.txt", &NARROW, &brief(&report(), &NARROW));
}

#[test]
fn everything() {
    assert_golden("memory-all.txt", &PLAIN, &full(&report(), &PLAIN));
}

/// If it is not known which level the longest chain reached, its latency is more than that of the
/// last level.
#[test]
fn the_headline_has_the_longest_chain_unless_memory_was_found() {
    let first = |report: MemoryReport| {
        let record = Record { provenance: provenance(), body: Body::Memory(Box::new(report)) };
        let (style, glyphs, layout) = (Style::plain(100), Glyphs::Ascii, Layout::Table);
        let options = Options { style, glyphs, layout, detail: Detail::Screen, is_written: false };
        let text = linerate_report::text(&record, &options);
        text.lines().next().expect("a line").to_owned()
    };
    assert!(!first(report()).contains("chain"), "{}", first(report()));
    let mut unclear = report();
    unclear.levels.truncate(3);
    unclear.levels[2].name = "L3 or memory".to_owned();
    let points = unclear.curves[0].points.iter();
    let longest = points.max_by_key(|point| point.bytes).expect("a point");
    let ns = three_digits(longest.latency_ns.as_number().expect("a latency"));
    let expected = format!("; a chain of {} {ns} ns", memory_size(longest.bytes as f64));
    let line = first(unclear);
    assert!(line.ends_with(&expected) && line.chars().count() <= 100, "{line}");
}

#[test]
fn everything_fits_80_columns() {
    for line in full(&counted(), &NARROW).lines().chain(brief(&counted(), &NARROW).lines()) {
        assert!(line.chars().count() <= 80, "too wide: {line:?}");
    }
}

#[test]
fn what_was_not_measured_is_absent_with_its_reason() {
    assert_golden("memory-bare.txt", &NARROW, &full(&bare(), &NARROW));
}

#[test]
fn a_terminal_without_unicode() {
    let text = memory(&report(), &provenance(), Detail::Brief, Glyphs::Ascii, &NARROW);
    assert_golden("memory-ascii.txt", &NARROW, &text);
    assert!(text.is_ascii());
}

#[test]
fn colour_changes_nothing_else() {
    let colored = brief(&report(), &Style { color: true, ..NARROW });
    assert!(colored.contains("\x1b[33mcannot tell\x1b[0m"), "{colored}");
    let plain = ["1", "32", "33", "0"]
        .iter()
        .fold(colored, |text, code| text.replace(&format!("\x1b[{code}m"), ""));
    assert_eq!(plain, brief(&report(), &NARROW));
}

#[test]
fn counts_that_cannot_be_true_are_reported() {
    let doubt = "loads at 4 MiB is implausible: 0.184 per load";
    let (brief, full) = (brief(&counted(), &PLAIN), full(&counted(), &PLAIN));
    assert!(brief.contains(doubt), "{brief}");
    assert!(full.contains(doubt), "{full}");
    let rows = full.lines().skip_while(|line| !line.starts_with("events per load"));
    let rows: Vec<Vec<&str>> =
        rows.skip(1).take(5).map(|l| l.split_whitespace().collect()).collect();
    let expected = [
        ["16", "KiB", "1,048,576", "1.06", "1", "0", "-"],
        ["4", "MiB", "1,048,576", "1.06", "0.184!", "0.998", "-"],
    ];
    assert_eq!(rows[2..4], expected, "{full}");
    assert_eq!(rows[4].join(" "), "- dtlb_misses: the processor has no such event");
}

#[test]
fn reasons_of_absent_cells_are_below_the_table() {
    let mut holes = report();
    let why = |reason: &str| Figure::absent("", Tier::Sw, "", reason);
    holes.costs.iter_mut().for_each(|cost| cost.overlapped_ns = why("no chains were measured"));
    holes.levels[1].latency_cycles = why("the core's clock is not known");
    holes.tlb[0].entries = why("too few pages");
    for row in &mut holes.parallelism {
        (row.outstanding, row.points) = (why("no time was left"), Vec::new());
    }
    let text = full(&holes, &PLAIN);
    for line in [
        "- overlapped in L1, overlapped in L2, overlapped in L3, overlapped in memory: no chains",
        "- cycles of L2: the core's clock is not known",
        "- entries of L1 dTLB (base): too few pages",
        "- outstanding loads of L2, outstanding loads of L3, outstanding loads of memory: no time",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("chains side by side"), "{text}");
}

#[test]
fn bins_that_do_not_add_up_are_reported() {
    let mut short = report();
    short.histograms[1].samples += 15;
    let text = full(&short, &PLAIN);
    assert!(text.contains("the bins contain 1000 of 1015 loads"), "{text}");
    assert!(!full(&report(), &PLAIN).contains("the bins contain"));
}

/// Returns the rows of the plot between the axes, without labels.
fn area(text: &str) -> Vec<Vec<char>> {
    let lines = text.lines().filter_map(|line| line.split_once('|'));
    lines.filter(|(label, _)| label.len() == 4).map(|(_, cells)| cells.chars().collect()).collect()
}

#[test]
fn the_plot_shows_what_was_measured() {
    let mut alone = report();
    alone.curves.retain(|curve| curve.order == Order::PageLocal);
    let text = memory(&alone, &provenance(), Detail::Brief, Glyphs::Ascii, &NARROW);
    let area = area(&text);
    assert_eq!(area.len(), 16, "{text}");
    // The columns cover 4 KiB to 256 MiB, the rows 1 to 128 ns.
    let columns = 80 - "128 |".len() - " * page-local".len();
    let row_of = |ns: f64| 16.0 - ns.log2() / 7.0 * 16.0;
    for column in 0..columns {
        let bytes = |share: f64| 4096.0 * 2f64.powf(share / columns as f64 * 16.0);
        let (near, far) = (bytes(column as f64 - 1.0), bytes(column as f64 + 2.0));
        let marked = (0..16).filter(|row| area[*row].get(column) == Some(&'*'));
        let rows: Vec<usize> = marked.collect();
        assert!(!rows.is_empty(), "nothing in column {column}: {text}");
        for row in rows {
            let (row, low, high) = (row as f64, row_of(local_ns(far)), row_of(local_ns(near)));
            assert!(row >= low - 2.0 && row <= high + 1.0, "column {column} row {row}: {text}");
        }
    }
    // The ends of the levels: 32 KiB, 1.02 MiB and 7.3 MiB.
    for bytes in [32.0 * 1024.0, 1.02 * 1_048_576.0, 7.3 * 1_048_576.0_f64] {
        let column = ((bytes / 4096.0).log2() / 16.0 * columns as f64) as usize;
        assert!(area.iter().any(|row| row.get(column) == Some(&':')), "{bytes}: {text}");
    }
}

#[test]
fn odd_records_are_rendered_too() {
    for report in odd() {
        for width in [40, 60, 80, 120] {
            for glyphs in [Glyphs::Braille, Glyphs::Ascii] {
                let style = Style::plain(width);
                let text = memory(&report, &provenance(), Detail::Full, glyphs, &style);
                assert!(text.contains("measured"), "{text}");
                assert!(!text.contains('\x1b') && !text.contains("NaN"), "{text}");
            }
        }
    }
}

/// The second measured level matches the L3 reported by the OS, because levels are matched by size,
/// not by name.
#[test]
fn what_the_system_says_is_next_to_the_level_that_was_found() {
    let mut other = report();
    let third = other.levels[2].size_bytes.clone();
    other.os_view[1].found_bytes = Figure::absent("B", Tier::Sw, "", "it makes no step");
    other.os_view[1].verdict = OsVerdict::Unseen;
    other.os_view[2].found_bytes = third;
    let text = brief(&other, &PLAIN);
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).expect("a row");
    assert!(row("L3 ").ends_with("32 MiB: found less"), "{text}");
    assert!(!row("L2 ").contains("MiB:"), "{text}");
    other.os_view[2].name = "L4".to_owned();
    assert!(brief(&other, &PLAIN).contains("L4 of 32 MiB: found less"));
}

#[test]
fn the_report_says_how_often_the_curve_was_passed_over() {
    let mut few = report();
    let main = few.curves.iter_mut().find(|c| c.order == Order::PageLocal).expect("a curve");
    main.points[0].passes_ns.truncate(1);
    let text = brief(&few, &PLAIN);
    let said = "1 to 3 passes per size, median 3";
    assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(said), "{text}");
}
