// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables.

use crate::common::{PLAIN, assert_golden};
use crate::example::report;
use linerate_record::kernels::{Kernel, State, WrongResult};
use linerate_record::{Figure, Tier};
use linerate_report::{Style, kernels};

#[test]
fn kernels_beside_their_bounds() {
    assert_golden("kernels.txt", &PLAIN, &kernels(&report(), &PLAIN));
}

#[test]
fn kernels_in_colour_and_narrow() {
    let narrow = Style { width: 72, ..PLAIN };
    assert_golden("kernels-72.txt", &narrow, &kernels(&report(), &narrow));
    let color = Style { color: true, width: 140 };
    assert_golden("kernels-color.txt", &color, &kernels(&report(), &color));
}

/// One wrong routine, no core clock, rows without numbers, and texts meant to do harm.
#[test]
fn kernels_that_could_not_be_timed() {
    let mut report = report();
    report.rows.retain(|row| row.size == Some(64) && row.state == State::Warm);
    for row in &mut report.rows {
        (row.cycles, row.bytes_per_cycle, row.of_bound) = (None, None, None);
        row.reason = Some("the core clock moved by 14 %".to_owned());
        if row.variant == "smoltcp" {
            row.variant = "\x1b[2Jnamed to clear the screen, at length".to_owned();
            (row.ticks, row.reason) = (None, Some("stopped before its\nfirst round".to_owned()));
        }
    }
    report.processor = None;
    report.cold = None;
    report.cycles_per_tick =
        Figure::absent("cycles/tick", Tier::Sw, "by hand", "the core clock moved by 14 %");
    report.wrong = vec![WrongResult {
        kernel: Kernel::CopyChecksum,
        variant: "avx2".to_owned(),
        difference: "length 7, source +1: octet 3 of the destination is 0, not 0x5a".to_owned(),
    }];
    (report.quick, report.interrupted) = (true, true);
    assert_golden("kernels-bare.txt", &PLAIN, &kernels(&report, &PLAIN));
    report.rows.clear();
    let text = kernels(&report, &PLAIN);
    assert!(text.contains("nothing was timed"), "{text}");
    assert!(!text.contains("in short"), "{text}");
}
