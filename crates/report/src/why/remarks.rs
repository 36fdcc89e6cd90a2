// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remarks: what else costs the program time.

use super::line;
use crate::{Detail, Style};
use linerate_record::units::counted;
use linerate_record::why::WhyRemark;

/// Maximum number of remarks in the short report.
const MOST: usize = 2;
/// Maximum number of lines of these remarks, so that the report still fits on one screen. The first
/// remark is printed in any case.
const LINES: usize = 8;

/// Formats remarks, each with what to look at next: in the short report the first ones, and how
/// many there are in addition.
pub(super) fn remarks(remarks: &[WhyRemark], detail: Detail, style: &Style) -> String {
    let all = remarks.iter().map(|remark| {
        line("also", &format!("{}: {}", remark.id.title(), remark.sentence), style)
            + &line("  try", &remark.next, style)
    });
    if detail == Detail::Full {
        return all.collect();
    }
    let (mut shown, mut count) = (String::new(), 0);
    for one in all.take(MOST) {
        if count > 0 && shown.lines().count() + one.lines().count() > LINES {
            break;
        }
        shown += &one;
        count += 1;
    }
    match remarks.len() - count {
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
