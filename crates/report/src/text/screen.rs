// SPDX-License-Identifier: MIT OR Apache-2.0
//! A record on one screen: the answer, its basis, the next step.

use super::{of_flows, sentence_of, sentences};
use crate::layout::{Paint, followed, labelled, painted, stacked};
use crate::value::clean;
use crate::{Detail, Options, PATH_FILE, Style, headline};
use linerate_record::run::{DeadEnd, RunReport};
use linerate_record::tune::{Limit, TuneReport};
use linerate_record::{Body, Record};

/// Lines on a screen, not counting the command line.
const SCREEN_LINES: usize = 39;

/// Formats the answer and as much of the rest as fits. The last line says how to see the remainder.
pub(super) fn screen(record: &Record, narrow: &Style, whole: &Style, options: &Options) -> String {
    let glyphs = options.glyphs;
    let mut notes = Vec::new();
    let below = match &record.body {
        Body::Run(report) => {
            notes = notes_of_run(report, narrow);
            of_run(report, whole, narrow)
        }
        Body::Tune(report) => {
            notes = notes_of_tune(report, narrow);
            crate::tune::screen(report, options.is_written, whole)
        }
        Body::Plan(report) => crate::plan::screen(report, whole),
        Body::Kernels(report) => crate::kernels::screen(report, narrow),
        Body::Memory(report) => crate::memory::screen(report, &record.provenance, glyphs, whole),
        Body::Stream(report) => crate::stream::screen(report, whole),
        Body::Tcp(report) => crate::tcp::screen(report, whole),
        Body::Stat(report) => crate::stat::screen(report, whole),
        Body::Doctor(report) => crate::doctor::screen(report, narrow),
        Body::Answers(report) => crate::answers::screen(report, whole),
        Body::Budget(report) => crate::budget(report, whole),
        Body::Regions(report) => crate::regions(report, whole),
        Body::Strands(report) => crate::strands(report, whole),
        Body::Why(report) => crate::why(report, Detail::Brief, whole),
        Body::Profile(report) => crate::profile(report, Detail::Screen, whole),
        Body::ProfileDiff(report) => crate::profile_diff(report, Detail::Screen, whole),
    };
    let answer = headline::of(record);
    let answer = match answer.is_empty() {
        true => answer,
        false => painted(Paint::Head, &answer, narrow) + "\n",
    };
    followed(&stacked(&[answer, below]), &notes, SCREEN_LINES)
}

fn of_run(report: &RunReport, whole: &Style, narrow: &Style) -> String {
    let line = |label, text: &str| labelled(label, Paint::Head, &clean(text), narrow);
    let finding = report.finding.as_ref().map_or_else(String::new, |finding| {
        let end = report.dead_end();
        let next = match finding.limit {
            _ if end.is_some() => line("do", end.as_ref().map_or("", DeadEnd::remedy)),
            // Another mapping is of no use to a path that reaches line rate.
            Limit::Processing if reaches_line(report) => String::new(),
            Limit::Processing => {
                line("do", &format!("linerate tune {PATH_FILE}  # try other mappings"))
            }
            Limit::Offered if report.is_live() => String::new(),
            Limit::Offered => line("do", "add --rate max to find the maximum rate"),
            Limit::Interface => line("do", Limit::FASTER_INTERFACE),
            Limit::CannotTell | Limit::Unknown => String::new(),
        };
        match evidence(&finding.sentence, end.as_ref()) {
            "" => next,
            text => line("evidence", text) + &next,
        }
    });
    let kernels = report.kernel_advice.as_ref();
    let kernels = kernels.map_or_else(String::new, |advice| line("kernels", &advice.sentence));
    stacked(&[finding + &kernels, crate::run::screen(report, whole)])
}

fn notes_of_run(report: &RunReport, narrow: &Style) -> Vec<String> {
    let flows = report.flows().map_or_else(String::new, |flows| of_flows(&flows));
    let home = sentence_of(report.packets_home.as_ref());
    [flows.as_str(), home].map(|text| sentences(text, narrow)).into()
}

/// Returns the sentence of a run's finding, without the part that is in the headline: where all
/// packets ended.
fn evidence<'a>(sentence: &'a str, end: Option<&DeadEnd>) -> &'a str {
    let Some(end) = end else { return sentence };
    if end.is_drop() {
        return "";
    }
    let said = format!("; {}: {end}", end.outcome());
    sentence.strip_suffix(&said).unwrap_or(sentence)
}

/// Returns whether a run reached line rate.
fn reaches_line(report: &RunReport) -> bool {
    let rate = report.processed_kpps.as_number().zip(report.line_rate_kpps);
    rate.is_some_and(|(rate, line)| rate >= line)
}

fn notes_of_tune(report: &TuneReport, narrow: &Style) -> Vec<String> {
    let texts = report.waits.iter().map(String::as_str);
    let texts = [sentence_of(report.packets_home.as_ref())].into_iter().chain(texts);
    texts.map(|text| sentences(text, narrow)).collect()
}
