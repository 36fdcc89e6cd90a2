// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tabulates the figures of all runs.

use crate::Printed;
use crate::list::{Command, Figure, List, Truth};
use crate::place::{Found, find};
use linerate_record::stats::{CONFIDENCE, interval_name, median, median_interval};
use linerate_report::markdown_table;

const ABSENT: &str = "-";

/// One figure's values from all runs of its command.
struct Row<'l> {
    command: &'l Command,
    figure: &'l Figure,
    /// Scaled value from each run.
    values: Vec<f64>,
    /// Reason for the first missing value; `None` if no value is missing.
    reason: Option<String>,
    /// Number of runs whose interval contains the true value, and number of runs that have both an
    /// interval and a true value.
    held: Option<(usize, usize)>,
}

impl<'l> Row<'l> {
    fn new(command: &'l Command, figure: &'l Figure, runs: &[Printed]) -> Self {
        let found: Vec<Result<Found, String>> =
            runs.iter().map(|records| find(records, &figure.at)).collect();
        let held = figure.truth.as_ref().map(|truth| {
            let is_held = |(found, records): (&Result<Found, String>, &Printed)| {
                let (low, high) = found.as_ref().ok()?.interval?;
                let truth = match truth {
                    Truth::Number(truth) => *truth,
                    Truth::Place(place) => find(records, place).ok()?.value,
                };
                Some((low..=high).contains(&truth))
            };
            let held: Vec<bool> = found.iter().zip(runs).filter_map(is_held).collect();
            (held.iter().filter(|held| **held).count(), held.len())
        });
        let value = |found: &Result<Found, String>| Some(found.as_ref().ok()?.value * figure.scale);
        let values = found.iter().filter_map(value).collect();
        let reason = found.into_iter().find_map(Result::err);
        Self { command, figure, values, reason, held }
    }

    fn found(&self) -> String {
        median(&self.values).map_or_else(|| ABSENT.to_owned(), |value| self.figure.shown(value))
    }

    fn spread(&self) -> String {
        let low = self.values.iter().copied().reduce(f64::min);
        let high = self.values.iter().copied().reduce(f64::max);
        let shown =
            |(low, high)| format!("{} to {}", self.figure.shown(low), self.figure.shown(high));
        low.zip(high).map_or_else(|| ABSENT.to_owned(), shown)
    }

    fn interval(&self) -> String {
        let interval = median_interval(&self.values, CONFIDENCE);
        match interval.low.is_finite() && interval.high.is_finite() {
            true => {
                let [low, high] = [interval.low, interval.high].map(|x| self.figure.shown(x));
                format!("{low} to {high}")
            }
            false => ABSENT.to_owned(),
        }
    }

    fn allowed(&self) -> String {
        let shown = |value| self.figure.shown(value);
        if let Some(within) = self.figure.within {
            return format!("± {within}");
        }
        match self.figure.range() {
            (Some(low), Some(high)) => format!("{} to {}", shown(low), shown(high)),
            (Some(low), None) => format!("at least {}", shown(low)),
            (None, Some(high)) => format!("at most {}", shown(high)),
            (None, None) => ABSENT.to_owned(),
        }
    }

    fn holds(&self) -> Option<bool> {
        self.figure.holds(median(&self.values)?)
    }
}

/// A column: its heading, and a function that renders a row's cell.
type Column = (String, Cell);

type Cell = fn(&Row<'_>) -> String;

/// Returns a table with one row per figure, followed by how many figures meet their requirements
/// and why values are missing.
pub(crate) fn table(list: &List, runs: &[Vec<Printed>]) -> Result<String, String> {
    let rows: Vec<Row<'_>> = list
        .command
        .iter()
        .zip(runs)
        .flat_map(|(command, runs)| {
            command.figure.iter().map(move |figure| Row::new(command, figure, runs))
        })
        .collect();
    if rows.is_empty() {
        return Err("the list contains no figures".to_owned());
    }
    let columns = columns(&rows, runs.iter().map(Vec::len).max().unwrap_or(0) > 1);
    let heads: Vec<&str> = columns.iter().map(|(head, _)| head.as_str()).collect();
    let cells = rows.iter().map(|row| columns.iter().map(|(_, cell)| cell(row)).collect());
    Ok(markdown_table(&heads, cells) + &notes(&rows))
}

/// Returns the non-empty columns.
fn columns(rows: &[Row<'_>], has_rounds: bool) -> Vec<Column> {
    let any = |has: fn(&Row<'_>) -> bool| rows.iter().any(has);
    let has_range = any(|row| row.figure.range() != (None, None));
    let interval = format!(">{}", interval_name());
    let all: [(bool, &str, Cell); 10] = [
        (true, "figure", |row| row.figure.name().to_owned()),
        (any(|row| row.figure.wanted.is_some()), ">wanted", |row| {
            row.figure.wanted.map_or_else(|| ABSENT.to_owned(), |value| row.figure.shown(value))
        }),
        (has_range, ">allowed", |row| row.allowed()),
        (true, if has_rounds { ">median" } else { ">found" }, |row| row.found()),
        (has_rounds, &interval, |row| row.interval()),
        (has_rounds, ">lowest to highest", |row| row.spread()),
        (any(|row| row.held.is_some()), ">interval contains the true value", |row| {
            row.held.map_or_else(|| ABSENT.to_owned(), |(held, of)| format!("{held} of {of}"))
        }),
        (has_range, "holds", |row| match row.holds() {
            Some(true) => "yes".to_owned(),
            Some(false) => "**no**".to_owned(),
            None => ABSENT.to_owned(),
        }),
        (true, "of", |row| row.command.name()),
        (any(|row| row.command.page.is_some()), "page", |row| {
            let page = row.command.page.as_ref();
            let link = |page: &String| format!("[{}]({page})", page.trim_end_matches(".md"));
            page.map_or_else(|| ABSENT.to_owned(), link)
        }),
    ];
    let used = all.into_iter().filter(|(is_used, ..)| *is_used);
    used.map(|(_, head, cell)| (head.to_owned(), cell)).collect()
}

fn notes(rows: &[Row<'_>]) -> String {
    let judged: Vec<bool> = rows.iter().filter_map(Row::holds).collect();
    let held = judged.iter().filter(|held| **held).count();
    let mut reasons: Vec<&String> = rows.iter().filter_map(|row| row.reason.as_ref()).collect();
    reasons.dedup();
    let holds = (!judged.is_empty()).then(|| format!("{held} of {} hold.\n\n", judged.len()));
    let absent = reasons.into_iter().map(|reason| format!("`-`: {reason}\n\n"));
    holds.into_iter().chain(absent).collect()
}

/// Returns a table with one row per run of each command.
pub(crate) fn each(list: &List, runs: &[Vec<Printed>]) -> Result<String, String> {
    let figures = &list.command.first().ok_or("the list has no command")?.figure;
    let heads: Vec<String> = figures.iter().map(|figure| format!(">{}", figure.name())).collect();
    let heads: Vec<&str> = ["of"].into_iter().chain(heads.iter().map(String::as_str)).collect();
    let row = |command: &Command, records: &Printed| {
        let cell = |figure: &Figure| match find(records, &figure.at) {
            Ok(Found { value, interval: None }) => figure.shown(value * figure.scale),
            Ok(Found { value, interval: Some((low, high)) }) => {
                let [value, low, high] = [value, low, high].map(|x| figure.shown(x * figure.scale));
                format!("{value} ({low} to {high})")
            }
            Err(_) => ABSENT.to_owned(),
        };
        [command.name()].into_iter().chain(figures.iter().map(cell)).collect()
    };
    let rows = list.command.iter().zip(runs);
    let rows = rows.flat_map(|(command, runs)| runs.iter().map(move |run| row(command, run)));
    Ok(markdown_table(&heads, rows))
}

#[cfg(test)]
mod tests {
    use super::{Row, table};
    use crate::list::{Command, List};

    fn list(figure: &str) -> List {
        let text = format!("[[command]]\nrun = 'a --json'\n[[command.figure]]\nat = 'x'\n{figure}");
        toml::from_str(&text).unwrap()
    }

    fn row<'l>(command: &'l Command, values: &[f64]) -> Row<'l> {
        let (figure, values) = (&command.figure[0], values.to_vec());
        Row { command, figure, values, reason: None, held: None }
    }

    #[test]
    fn a_figure_holds_within_its_range_only() {
        let list = list("wanted = 311\nwithin = 0.05\ndigits = 1");
        let command = &list.command[0];
        assert_eq!(row(command, &[311.04]).holds(), Some(true));
        assert_eq!(row(command, &[311.06]).holds(), Some(false));
        assert_eq!(row(command, &[]).holds(), None);
        assert_eq!(row(command, &[3.0, 1.0, 2.0]).spread(), "1.0 to 3.0");
        assert_eq!(row(command, &[3.0, 1.0, 2.0]).found(), "2.0");
    }

    #[test]
    fn what_is_wanted_must_be_in_the_range_too() {
        let list = list("wanted = 3\nlow = 1\nhigh = 2");
        assert_eq!(row(&list.command[0], &[1.5]).holds(), Some(false));
    }

    #[test]
    fn a_row_without_value_says_why() {
        let list = list("high = 2");
        let text = table(&list, &[vec![Vec::new()]]).unwrap();
        let row = "| x | at most 2 | - | - | `a` |";
        assert!(text.contains(row) && text.contains("`-`: x: no record 1"), "{text}");
    }
}
