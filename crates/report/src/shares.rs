// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much of the stages' work goes into checksums and copies.

use crate::Style;
use crate::layout::{Grid, Paint, labelled};
use crate::value::{ABSENT, clean, interval, number, percent, reason};
use linerate_record::Figure;
use linerate_record::kernels::Kernel;
use linerate_record::run::RunReport;
use linerate_record::tune::{KernelShare, TuneReport};
use linerate_record::units::three_digits;
use std::collections::BTreeSet;

/// Formats the kernels called by the stages of a run.
pub(crate) fn of_run(report: &RunReport, style: &Style) -> String {
    let mut grid = Grid::new(&[
        "kernels of",
        "worker",
        "kernel",
        "variant",
        ">calls/\npacket",
        ">bytes/\ncall",
        ">ticks/\npacket",
        ">% of the stage",
    ]);
    let mut shares: Vec<&Figure> = Vec::new();
    for worker in &report.workers {
        for stage in &worker.stages {
            for one in stage.kernels.iter().flatten() {
                shares.push(&one.share);
                grid.row(vec![
                    stage.name.clone(),
                    worker.name.clone(),
                    one.kernel.name().to_owned(),
                    one.variant.clone(),
                    three_digits(one.calls_per_packet),
                    three_digits(one.bytes_per_call),
                    number(&one.ticks_per_packet),
                    share_within(&one.share),
                ]);
            }
        }
    }
    grid.render(style) + &reasons(&shares, style) + &lower_bound(&shares, style)
}

/// Returns caveats about the shares if any is above zero.
fn lower_bound(shares: &[&Figure], style: &Style) -> String {
    const NOTE: &str = "calls are replayed on warm data, which gives a lower bound if packets were \
                        not cached; inlined header checksums are not included";
    let any = shares.iter().any(|share| share.as_number().is_some_and(|value| value > 0.0));
    if any { labelled("", Paint::Head, NOTE, style) } else { String::new() }
}

/// Formats a share as a percentage with its interval. The unit is in the heading.
fn share_within(share: &Figure) -> String {
    let Some(value) = share.as_number() else { return ABSENT.to_owned() };
    let ends = interval(share, percent).map_or(String::new(), |ends| format!(" ({ends})"));
    percent(value) + &ends
}

/// Lists why shares are absent, without duplicates.
fn reasons(shares: &[&Figure], style: &Style) -> String {
    let absent = shares.iter().filter(|share| share.as_number().is_none());
    let reasons: BTreeSet<&str> = absent.map(|share| reason(share)).collect();
    let note = |reason: &str| format!("{ABSENT} in kernels: {}", clean(reason));
    reasons.into_iter().map(|reason| labelled("", Paint::Head, &note(reason), style)).collect()
}

/// Formats the share of kernels in each stage before and after tuning, and advice on better
/// kernels.
pub(crate) fn of_tune(report: &TuneReport, style: &Style) -> String {
    let shares = report.kernel_shares.as_deref().unwrap_or_default();
    let mut kernels: Vec<Kernel> = Vec::new();
    let mut stages: Vec<&str> = Vec::new();
    for share in shares {
        if !kernels.contains(&share.kernel) {
            kernels.push(share.kernel);
        }
        if !stages.contains(&share.stage.as_str()) {
            stages.push(&share.stage);
        }
    }
    let heads = kernels.iter().flat_map(|k| [format!(">{k} %\nbefore"), ">after".to_owned()]);
    let heads: Vec<String> = std::iter::once("of stage".to_owned()).chain(heads).collect();
    let mut grid = Grid::new(&heads.iter().map(String::as_str).collect::<Vec<_>>());
    for stage in stages {
        let find = |kernel| shares.iter().find(|s| s.stage == stage && s.kernel == kernel);
        let cells = kernels.iter().flat_map(|&kernel| {
            let cell = |pick: fn(&KernelShare) -> &Figure| {
                let share = find(kernel).and_then(|share| pick(share).as_number());
                share.map_or_else(|| ABSENT.to_owned(), percent)
            };
            [cell(|share| &share.before), cell(|share| &share.after)]
        });
        grid.row(std::iter::once(stage.to_owned()).chain(cells).collect());
    }
    let figures: Vec<&Figure> =
        shares.iter().flat_map(|share| [&share.before, &share.after]).collect();
    let advice = report.kernel_advice.as_ref().map_or_else(String::new, |advice| {
        labelled("kernels", Paint::Head, &clean(&advice.sentence), style)
    });
    let notes = reasons(&figures, style) + &lower_bound(&figures, style);
    grid.render(style) + &notes + &advice
}
