// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remarks: what else costs the program time.

use super::line;
use crate::Style;
use linerate_record::units::counted;
use linerate_record::why::WhyRemark;

/// Formats at most `most` remarks, each with what to look at next, and how many there are in
/// addition.
pub(super) fn remarks(remarks: &[WhyRemark], most: usize, style: &Style) -> String {
    let one = |remark: &WhyRemark| {
        line("also", &format!("{}: {}", remark.id.title(), remark.sentence), style)
            + &line("  try", &remark.next, style)
    };
    let shown: String = remarks.iter().take(most).map(one).collect();
    match remarks.len().saturating_sub(most) {
        0 => shown,
        more => {
            let text = format!("{} (--details)", counted(more as u64, "more remark"));
            shown + &line("also", &text, style)
        }
    }
}

/// Lists the keywords of remarks in a few words, for a line per window; empty without remarks.
pub(super) fn in_short(remarks: &[WhyRemark]) -> String {
    let names: Vec<&str> = remarks.iter().map(|remark| remark.id.title()).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(" Also: {}.", names.join(", ")),
    }
}
