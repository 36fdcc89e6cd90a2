// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of kernels.

use crate::common::{PLAIN, assert_golden};
use crate::example::report;
use linerate_record::kernels::{Kernel, KernelsReport, Role, Row, State, Timing, WrongResult};
use linerate_record::{Figure, Tier};
use linerate_report::{Sizes, Style, kernels};

/// Returns the report on one line, for searching.
fn words(report: &KernelsReport) -> String {
    let text = kernels(report, Sizes::Distinct, &PLAIN);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn kernels_and_their_bounds() {
    assert_golden("kernels.txt", &PLAIN, &kernels(&report(), Sizes::Distinct, &PLAIN));
}

#[test]
fn kernels_in_colour_and_narrow() {
    let narrow = Style { width: 72, ..PLAIN };
    assert_golden("kernels-72.txt", &narrow, &kernels(&report(), Sizes::Distinct, &narrow));
    let color = Style { color: true, ..Style::plain(140) };
    assert_golden("kernels-color.txt", &color, &kernels(&report(), Sizes::Distinct, &color));
}

/// One wrong routine, no core clock, rows without numbers, and malicious strings.
#[test]
fn kernels_that_could_not_be_timed() {
    let mut report = report();
    report.rows.retain(|row| row.size == Some(64) && row.state == State::Warm);
    for row in &mut report.rows {
        (row.cycles, row.bytes_per_cycle, row.of_bound) = (None, None, None);
        row.reason = Some("the core clock changed by 14 %".to_owned());
        if row.variant == "smoltcp" {
            row.variant = "\x1b[2Jnamed to clear the screen, at length".to_owned();
            (row.ticks, row.reason) = (None, Some("stopped before its\nfirst round".to_owned()));
        }
    }
    report.processor = None;
    report.cold = None;
    report.cycles_per_tick =
        Figure::absent("cycles/tick", Tier::Sw, "by hand", "the core clock changed by 14 %");
    report.wrong = vec![WrongResult {
        kernel: Kernel::CopyChecksum,
        variant: "avx2".to_owned(),
        difference: "length 7, source +1: byte 3 of the destination is 0, not 0x5a".to_owned(),
    }];
    (report.quick, report.interrupted) = (true, true);
    assert_golden("kernels-bare.txt", &PLAIN, &kernels(&report, Sizes::Distinct, &PLAIN));
    report.rows.clear();
    let text = kernels(&report, Sizes::Distinct, &PLAIN);
    assert!(text.contains("nothing was timed"), "{text}");
    assert!(!text.contains("in short"), "{text}");
}

/// All sizes named by the user get a column, down to a text width of 40.
#[test]
fn all_sizes_are_shown_where_all_are_wanted() {
    let mut report = report();
    let sizes = 1..=20;
    let first = report.rows[..11].to_vec();
    report.rows = sizes.clone().flat_map(|size| sized(&first, size)).collect();
    for width in [40, 60, 100] {
        let text = kernels(&report, Sizes::All, &Style { width, ..PLAIN });
        let lines = || text.lines().filter(|line| line.starts_with(' ') || line.starts_with('>'));
        let is_shown = |size: u64| {
            lines().any(|line| line.split_whitespace().any(|word| word == size.to_string()))
        };
        assert!(sizes.clone().all(is_shown), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
        assert!(!text.contains("not shown"), "{text}");
        assert!(text.contains("byte") && !text.contains("1 bytes"), "{text}");
    }
    let narrow = kernels(&report, Sizes::Distinct, &Style { width: 60, ..PLAIN });
    assert!(narrow.contains("omitted to fit the width: 8, "), "{narrow}");
}

fn sized(rows: &[Row], size: u64) -> Vec<Row> {
    rows.iter().map(|row| Row { size: Some(size), ..row.clone() }).collect()
}

fn is_aligned(row: &Row, size: u64) -> bool {
    (row.kernel, row.state, row.timing) == (Kernel::Checksum, State::Warm, Timing::Throughput)
        && (row.size, row.src_offset) == (Some(size), Some(0))
}

#[test]
fn only_another_variant_that_is_surely_faster_is_to_be_called_by_name() {
    let advice = "At a fixed size, call by name: adc at 20 (10.7 % faster).";
    assert!(words(&report()).contains(advice));
    let mut selected = report();
    for row in selected.rows.iter_mut().filter(|row| row.variant == "avx512vnni") {
        (row.of_bound, row.of_bound_low) = (Some(1.2), Some(1.19));
    }
    assert!(words(&selected).contains(advice), "what is selected is not to be named");
    let mut unsure = report();
    for row in unsure.rows.iter_mut().filter(|row| row.variant == "adc") {
        row.of_bound_low = row.of_bound_low.map(|low| low * 0.95);
    }
    let text = words(&unsure);
    assert!(!text.contains("call by name:"), "{text}");
    assert!(text.contains("variant is more than 5 % faster across its entire"));
}

#[test]
fn a_faster_peer_is_named_with_its_cases() {
    let peers = "smoltcp is faster than the selected variant: warm, aligned, at 20 (8.9 %); warm, \
                 src+14, at 20 (8.9 %); ";
    assert!(words(&report()).contains(peers));
    let mut slower = report();
    for row in slower.rows.iter_mut().filter(|row| row.role == Role::Peer) {
        row.of_bound_low = row.of_bound_low.map(|low| low * 0.9);
    }
    assert!(!words(&slower).contains("faster than selected"));
}

#[test]
fn variants_for_other_machines_are_one_line() {
    let mut report = report();
    for variant in report.variants.iter_mut().take(2) {
        (variant.compiled, variant.supported) = (false, false);
    }
    let absent = format!("{}, {}", report.variants[0].name, report.variants[1].name);
    let text = words(&report);
    assert!(text.contains(&format!("variants this build does not contain {absent}")), "{text}");
}

#[test]
fn the_fastest_is_marked_among_all_that_is_ours() {
    let mut report = report();
    report.rows.retain(|row| ["selected", "sse2", "load256"].contains(&row.variant.as_str()));
    let text = words(&report);
    assert!(text.contains("> selected *10.6"), "{text}");
    assert!(!text.contains("sse2 *"), "{text}");
    assert!(text.contains("* fastest of selected and the variants timed"), "{text}");
    report.rows.retain(|row| row.role != Role::Selected);
    let text = words(&report);
    assert!(text.contains("sse2 *13.4") && text.contains("* fastest of the variants timed"));
    assert!(!text.contains("% of the bound") && !text.contains("above 100 %"), "{text}");
}

#[test]
fn shares_above_the_bound_are_explained() {
    assert!(words(&report()).contains("above 100 %: the bound is a plain loop"));
    let mut below = report();
    below.rows.retain(|row| row.kernel == Kernel::Checksum);
    assert!(!words(&below).contains("above 100 %"));
}

#[test]
fn a_peer_is_missed_only_where_its_kernel_was_asked_for() {
    assert!(words(&report()).contains("dpdk (libdpdk-dev) its header"));
    let mut copies = report();
    copies.rows.retain(|row| row.kernel == Kernel::Copy);
    assert!(!words(&copies).contains("dpdk"));
    copies.peers.iter_mut().for_each(|peer| peer.kernels.clear());
    assert!(words(&copies).contains("dpdk"), "the record does not say what it can do");
}

#[test]
fn the_widest_interval_is_named() {
    let mut report = report();
    let row = report.rows.iter_mut().find(|row| row.variant == "sse2" && is_aligned(row, 64));
    let row = row.expect("it was timed");
    row.cycles_high = row.cycles.map(|cycles| cycles * 2.04);
    let widest = "half are ±1.5 % or narrower; the widest is ±104 % (sse2 of checksum, warm, \
                  aligned, at 64)";
    assert!(words(&report).contains(widest));
}
