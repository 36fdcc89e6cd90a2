// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time that the measuring thread lost to interruptions.

use super::{Page, bars, load};
use crate::value::{ABSENT, in_sentence, percent, reason, significant};
use linerate_record::units::{self, Nanos, three_digits};

const GAPS: bars::Shown = bars::Shown { heads: ["from", "gaps"], from: |ns| Nanos(ns).to_string() };

/// Summarizes the noise in a sentence. With `all`, adds a histogram of gaps.
pub(super) fn block(page: &Page, all: bool) -> String {
    let noise = &page.report.noise;
    if noise.lost.as_number().is_none() {
        return page.line("noise", &format!("{ABSENT} {}", reason(&noise.lost)));
    }
    let share = |figure| in_sentence(figure, "%", percent);
    let longest = match noise.longest_us.as_number() {
        Some(us) => Nanos(us * 1e3).to_string(),
        None => in_sentence(&noise.longest_us, "us", three_digits),
    };
    let quota = match noise.quota_cpus {
        Some(cpus) => format!(" with a CPU quota of {}", units::cpus(cpus)),
        None => String::new(),
    };
    let text = format!(
        "{} of the time was lost, with {} per second and a longest gap of {longest}; the host \
         stole {}, and other programs took {}; measured over {} s{quota}, {}",
        share(&noise.lost),
        in_sentence(&noise.gaps_per_s, "gaps", significant),
        share(&noise.stolen),
        share(&noise.others),
        three_digits(noise.elapsed_s),
        load(page.report)
    );
    let gaps = if all { bars::bars(page, &GAPS, &noise.gaps, None) } else { String::new() };
    page.line("noise", &text) + &gaps
}
