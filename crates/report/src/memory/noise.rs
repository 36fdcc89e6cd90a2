// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time that was taken away from the measuring thread.

use super::{Page, bars, load};
use crate::value::{ABSENT, percent, quoted, reason, significant};
use linerate_record::Figure;
use linerate_record::units::{Nanos, three_digits};

const GAPS: bars::Shown = bars::Shown { heads: ["from", "gaps"], from: |ns| Nanos(ns).to_string() };

/// The noise in a sentence; with `all` the gaps by length.
pub(super) fn block(page: &Page, all: bool) -> String {
    let noise = &page.report.noise;
    if noise.lost.as_number().is_none() {
        return page.line("noise", &format!("{ABSENT} {}", reason(&noise.lost)));
    }
    let share = |figure: &Figure| quoted(figure, |share| format!("{} %", percent(share)));
    let time = |us: f64| Nanos(us * 1e3).to_string();
    let text = format!(
        "{} of the time was taken away, in {} gaps per second, the longest {}; stolen by the host \
         {}, used by other programs {}; over {} s, {}",
        share(&noise.lost),
        quoted(&noise.gaps_per_s, significant),
        quoted(&noise.longest_us, time),
        share(&noise.stolen),
        share(&noise.others),
        three_digits(noise.seconds),
        load(page.report)
    );
    let gaps = if all { bars::bars(page, &GAPS, &noise.gaps, None) } else { String::new() };
    page.line("noise", &text) + &gaps
}
