// SPDX-License-Identifier: MIT OR Apache-2.0
//! The event table, and the reasons for missing events.

use super::columns::{self, Column};
use super::error;
use crate::Style;
use crate::layout::{Paint, labelled};
use crate::value::{ABSENT, cell, clean, count, percent, reason, significant, whole};
use linerate_record::stat::{EventCount, StatReport};
use linerate_record::{Figure, Tier};
use std::collections::BTreeSet;

/// Columns to show in addition to name and count.
struct Columns {
    /// Scaled counts, in brackets; shown if any event was multiplexed.
    scaled: bool,
    /// Errors; shown if any count has one.
    error: bool,
    /// Counts per unit of work, and the name of the unit; shown if counts are divided by one.
    unit: Option<String>,
    /// The counters' own names for the events; shown if any event has one.
    native: bool,
    /// Evidence tiers; shown if they differ between events.
    tier: bool,
}

fn was_scaled(event: &EventCount) -> bool {
    event.duty.is_some_and(|duty| duty < 1.0)
}

/// Returns whether to show the name that a hardware or simulated counter has for this event. The
/// native names of kernel events add no information.
fn has_native(event: &EventCount) -> bool {
    let is_there = event.count.as_number().is_some() && event.native.is_some();
    is_there && event.count.tier != Tier::Sw
}

/// Returns whether the figures that are present are from different evidence tiers.
fn several_tiers<'a>(figures: impl Iterator<Item = &'a Figure>) -> bool {
    let present = figures.filter(|figure| figure.as_number().is_some());
    present.map(|figure| figure.tier).collect::<BTreeSet<Tier>>().len() > 1
}

impl Columns {
    fn of(report: &StatReport) -> Self {
        let events = &report.events;
        Self {
            scaled: events.iter().any(was_scaled),
            error: events.iter().any(|event| error(&event.count).is_some()),
            unit: report.unit_of_work.as_ref().map(|unit| unit.name.clone()),
            native: events.iter().any(has_native),
            tier: several_tiers(events.iter().map(|event| &event.count)),
        }
    }

    fn heads(&self) -> Vec<String> {
        let mut heads = vec!["event".to_owned()];
        heads.push(if self.scaled { ">counted" } else { ">count" }.to_owned());
        heads.extend(self.scaled.then(|| ">[scaled]".to_owned()));
        heads.extend(self.error.then(|| ">±".to_owned()));
        heads.extend(self.scaled.then(|| ">on %".to_owned()));
        heads.extend(self.unit.as_ref().map(|unit| format!(">per\n{unit}")));
        heads.extend(self.tier.then(|| "tier".to_owned()));
        heads.extend(self.native.then(|| "native".to_owned()));
        heads
    }

    fn cells(&self, event: &EventCount) -> Vec<String> {
        let per = || {
            let figure = event.per_unit.as_ref();
            figure.map_or_else(|| ABSENT.to_owned(), |figure| cell(figure, significant))
        };
        let mut cells = vec![event.name.clone()];
        cells.push(if self.scaled { raw(event) } else { cell(&event.count, whole) });
        cells.extend(self.scaled.then(|| scaled(event)));
        cells.extend(self.error.then(|| error(&event.count).unwrap_or_default()));
        cells.extend(self.scaled.then(|| event.duty.map_or_else(String::new, percent)));
        cells.extend(self.unit.is_some().then(per));
        cells.extend(self.tier.then(|| tier_of(&event.count)));
        cells.extend(self.native.then(|| native(event)));
        cells
    }

    fn columns(&self, events: &[EventCount]) -> Vec<Column> {
        let mut columns: Vec<Column> =
            self.heads().into_iter().map(|head| Column { head, cells: Vec::new() }).collect();
        for event in events {
            for (column, cell) in columns.iter_mut().zip(self.cells(event)) {
                column.cells.push(cell);
            }
        }
        columns
    }
}

/// Formats the events, dropping native names if they do not fit.
pub(super) fn table(report: &StatReport, style: &Style) -> String {
    if report.events.is_empty() {
        return String::new();
    }
    let wanted = Columns::of(report);
    let all = wanted.columns(&report.events);
    let columns = match columns::width(&all) > style.width {
        true => Columns { native: false, ..wanted }.columns(&report.events),
        false => all,
    };
    columns::render(&columns, style) + &per_unit(report, style)
}

/// Returns a figure's evidence tier; empty if the figure is absent.
fn tier_of(figure: &Figure) -> String {
    figure.as_number().map_or_else(String::new, |_| figure.tier.name().to_owned())
}

/// Returns the value formatted by `show`, with its error.
pub(super) fn with_error(figure: &Figure, show: impl Fn(f64) -> String) -> String {
    let value = cell(figure, show);
    error(figure).map_or(value.clone(), |error| format!("{value} ± {error}"))
}

fn native(event: &EventCount) -> String {
    event.native.clone().filter(|_| has_native(event)).unwrap_or_default()
}

/// Formats the raw count, which is the final count if the event was not multiplexed.
fn raw(event: &EventCount) -> String {
    match event.raw {
        Some(raw) if was_scaled(event) => count(raw),
        _ => cell(&event.count, whole),
    }
}

fn scaled(event: &EventCount) -> String {
    let is_estimate = was_scaled(event) || error(&event.count).is_some();
    match event.count.as_number() {
        Some(value) if is_estimate => format!("[{}]", whole(value)),
        _ => String::new(),
    }
}

/// States the unit of work that counts are divided by, and the number of units.
fn per_unit(report: &StatReport, style: &Style) -> String {
    let Some(unit) = &report.unit_of_work else { return String::new() };
    let text = match unit.count.as_number() {
        Some(_) => {
            format!("per {}: {} in total", unit.name, with_error(&unit.count, whole))
        }
        None => {
            let why = reason(&unit.count);
            format!("{ABSENT} per {}: the number of units is unknown ({why})", unit.name)
        }
    };
    labelled("", Paint::Head, &clean(&text), style)
}

/// Events that are missing for the same reason.
pub(super) struct Missing<'a> {
    pub(super) why: &'a str,
    /// Labels of the events, as printed.
    pub(super) labels: Vec<&'a str>,
    fixes: Vec<Fix<'a>>,
}

/// A command that would make events countable. Commands that differ only in event names are merged
/// into one.
struct Fix<'a> {
    before: &'a str,
    /// Event names for `-e`; empty if the command lacks that option.
    names: Vec<&'a str>,
    after: &'a str,
}

impl<'a> Fix<'a> {
    /// The option that event names follow.
    const OPTION: &'static str = "-e ";

    /// Splits the command `fix` before and after `name` if `name` is the only event of its `-e`
    /// option.
    fn of(fix: &'a str, name: &'a str) -> Self {
        let whole = Self { before: fix, names: Vec::new(), after: "" };
        let Some(at) = fix.find(Self::OPTION) else { return whole };
        let (before, rest) = fix.split_at(at + Self::OPTION.len());
        match rest.strip_prefix(name) {
            Some(after) if after.is_empty() || after.starts_with(' ') => {
                Self { before, names: vec![name], after }
            }
            _ => whole,
        }
    }

    fn text(&self) -> String {
        format!("{}{}{}", self.before, self.names.join(","), self.after)
    }
}

impl<'a> Missing<'a> {
    /// Groups the events that were not counted by reason. `events` are pairs of label and event.
    pub(super) fn of(events: impl Iterator<Item = (&'a str, &'a EventCount)>) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for (label, event) in events.filter(|(_, event)| event.count.as_number().is_none()) {
            let why = reason(&event.count);
            let place = groups.iter().position(|group| group.why == why).unwrap_or_else(|| {
                groups.push(Self { why, labels: Vec::new(), fixes: Vec::new() });
                groups.len() - 1
            });
            let group = &mut groups[place];
            group.labels.push(label);
            let Some(fix) = event.fix.as_deref() else { continue };
            let fix = Fix::of(fix, &event.name);
            let same = |f: &&mut Fix<'_>| (f.before, f.after) == (fix.before, fix.after);
            match group.fixes.iter_mut().find(same) {
                Some(known) => known.names.extend(fix.names),
                None => group.fixes.push(fix),
            }
        }
        groups
    }

    /// Returns the commands that would make the events countable, without duplicates. Leaves out a
    /// comment that a command ends with, too.
    pub(super) fn fixes(&self) -> impl Iterator<Item = String> {
        let texts: Vec<String> = self.fixes.iter().map(Fix::text).collect();
        let is_said = |text: &String| {
            let says = |way: &str| texts.iter().any(|other| other != text && other.contains(way));
            text.strip_prefix("# ").is_some_and(says)
        };
        let new: Vec<String> = texts.iter().filter(|text| !is_said(text)).cloned().collect();
        new.into_iter()
    }

    fn text(&self, style: &Style) -> String {
        let line = |label: &str, text: &str| labelled(label, Paint::Warning, &clean(text), style);
        let fixes = self.fixes().map(|fix| line("", &format!("try: {fix}")));
        line("not counted", &format!("{}: {}", self.labels.join(", "), self.why))
            + &fixes.collect::<String>()
    }
}

/// Lists the reasons for missing events, and the fixes.
pub(super) fn missing(report: &StatReport, style: &Style) -> String {
    let events = report.events.iter().map(|event| (event.name.as_str(), event));
    Missing::of(events).iter().map(|group| group.text(style)).collect()
}
