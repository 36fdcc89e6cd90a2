// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of `linerate diff`: the functions that cost more or less than before.

use crate::layout::{Grid, Paint, labelled, stacked};
use crate::value::{ABSENT, cell, clean, count, cut, interval, percent};
use crate::{Detail, Style};
use linerate_record::Figure;
use linerate_record::profile_diff::{
    ChangeVerdict, ComparedProfile, CostChange, CostUnit, FunctionChange, ProfileDiffReport,
};
use linerate_record::units::three_digits;

/// Maximum number of functions on one screen.
const MOST: usize = 12;
/// Width of all table columns other than the function name.
const OTHER_COLUMNS: usize = 62;
/// Minimum width of a function name on one screen.
const LEAST_COLUMNS: usize = 24;

/// Formats the comparison of two profiles.
pub fn profile_diff(report: &ProfileDiffReport, detail: Detail, style: &Style) -> String {
    let most = if detail == Detail::Screen { MOST } else { usize::MAX };
    stacked(&[facts(report, style), functions(report, most, style)])
}

/// Describes what was compared, and the total change.
fn facts(report: &ProfileDiffReport, style: &Style) -> String {
    let line = |label: &str, text: &str| labelled(label, Paint::Head, &clean(text), style);
    let mut text = line("old", &compared(&report.old)) + &line("new", &compared(&report.new));
    for note in &report.notes {
        text += &line("note", note);
    }
    if report.unit == CostUnit::NsPerPacket {
        let total = &report.total;
        let all = format!(
            "{} ns of CPU time per packet, previously {} ({})",
            value(&total.new, report.unit),
            value(&total.old, report.unit),
            signed(&total.change, report.unit)
        );
        text += &line("in all", &all);
    }
    text
}

fn compared(profile: &ComparedProfile) -> String {
    let packets = match profile.packets {
        Some(packets) => format!("{} packets", count(packets)),
        None => "packets not counted".to_owned(),
    };
    format!(
        "{}, {} samples, {} s of CPU time, {packets}",
        profile.program,
        count(profile.samples),
        three_digits(profile.cpu_s)
    )
}

/// Formats the functions in the order of the record: significant changes first, then undetermined
/// changes, each by decreasing magnitude.
fn functions(report: &ProfileDiffReport, most: usize, style: &Style) -> String {
    let unit = match report.unit {
        CostUnit::NsPerPacket => "ns/packet",
        CostUnit::ShareOfSamples => "% of samples",
    };
    let heads = [">old".to_owned(), ">new".to_owned(), format!(">change,\n{unit}")];
    let [old, new, change] = &heads;
    let mut grid = Grid::new(&[old, new, change, ">interval", "verdict", "function (module)"]);
    let room = style.width.saturating_sub(OTHER_COLUMNS).max(LEAST_COLUMNS);
    for one in report.functions.iter().take(most) {
        grid.row(row(one, report.unit, if most == usize::MAX { usize::MAX } else { room }));
    }
    let hidden = report.functions.len().saturating_sub(most);
    let mut notes = vec![];
    if hidden > 0 {
        notes.push(format!("{hidden} more functions (--details)"));
    }
    if report.functions_left_out > 0 {
        let few = "have too few samples to compare";
        notes.push(format!("{} functions {few}", count(report.functions_left_out)));
    }
    notes.push(
        "intervals hold for all functions jointly and cover sampling error only: repeat both \
         profiles to see how much runs vary"
            .to_owned(),
    );
    grid.render(style) + "\n" + &crate::paragraph(&notes.join("; "), 0, style)
}

fn row(one: &FunctionChange, unit: CostUnit, room: usize) -> Vec<String> {
    let CostChange { old, new, change, verdict } = &one.cost;
    let name = clean(&format!("{} ({})", one.name, one.module));
    let with_unit = |x: f64| number(x, unit);
    vec![
        value(old, unit),
        value(new, unit),
        signed(change, unit),
        interval(change, with_unit).unwrap_or_else(|| ABSENT.to_owned()),
        match verdict {
            ChangeVerdict::More => "more",
            ChangeVerdict::Less => "less",
            ChangeVerdict::CannotTell => "cannot tell",
        }
        .to_owned(),
        if room == usize::MAX { name } else { cut(&name, room) },
    ]
}

fn number(x: f64, unit: CostUnit) -> String {
    match unit {
        CostUnit::NsPerPacket => three_digits(x),
        CostUnit::ShareOfSamples => percent(x),
    }
}

fn value(figure: &Figure, unit: CostUnit) -> String {
    cell(figure, |x| number(x, unit))
}

/// Formats a change with its sign.
fn signed(figure: &Figure, unit: CostUnit) -> String {
    let sign = if figure.as_number().is_some_and(|x| x > 0.0) { "+" } else { "" };
    sign.to_owned() + &value(figure, unit)
}

/// Returns the record's answer: the function that changed most, and the total change.
pub(crate) fn answer(report: &ProfileDiffReport) -> Vec<String> {
    const NAME_COLUMNS: usize = 32;
    let unit = match report.unit {
        CostUnit::NsPerPacket => "ns/packet",
        CostUnit::ShareOfSamples => "points of CPU time",
    };
    let Some(first) = report.changed().next() else {
        return vec!["No function's cost changed by more than the sampling error".to_owned()];
    };
    let change = &first.cost.change;
    let ends = interval(change, |x| number(x, report.unit));
    let ends = ends.map_or_else(String::new, |ends| format!(" ({ends})"));
    let mut parts = vec![format!(
        "`{}`: {}{ends} {unit}",
        cut(&clean(&first.name), NAME_COLUMNS),
        signed(change, report.unit)
    )];
    if report.unit == CostUnit::NsPerPacket {
        parts.push(format!("in all {}", signed(&report.total.change, report.unit)));
    }
    let more = report.changed().count() - 1;
    if more > 0 {
        parts.push(format!("{more} more changed"));
    }
    parts
}
