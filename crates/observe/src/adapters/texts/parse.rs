// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses numbers from program replies, which may be malformed.

use super::description::{Description, Field, Format};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A program's counters; `None` if not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) received: Option<u64>,
    pub(super) sent: Option<u64>,
    pub(super) missed: Option<u64>,
    pub(super) bytes: Option<u64>,
    pub(super) others: BTreeMap<String, u64>,
}

impl Counters {
    /// Returns whether no counter was found.
    pub(super) fn is_empty(&self) -> bool {
        let main = [self.received, self.sent, self.missed, self.bytes];
        main.iter().all(Option::is_none) && self.others.is_empty()
    }

    /// Returns whether a counter of packets or bytes (`others` excluded) decreased or disappeared.
    pub(super) fn is_behind(&self, before: &Self) -> bool {
        let pairs = [
            (self.received, before.received),
            (self.sent, before.sent),
            (self.missed, before.missed),
            (self.bytes, before.bytes),
        ];
        pairs.iter().any(|(now, before)| now < before)
    }
}

/// Parses the counters in a reply.
pub(super) fn parse(answer: &str, description: &Description) -> Counters {
    match &description.format {
        Format::Text => counters(description, |field| number_after(answer, field)),
        Format::Interfaces { upper, containing } => {
            let lowest = of_lowest(answer, upper, containing);
            let others = counters(description, |field| number_after(answer, field)).others;
            Counters { others, ..counters(description, |field| number_after(&lowest, field)) }
        }
        Format::JsonResult => {
            let object: Value = serde_json::from_str(answer).unwrap_or(Value::Null);
            let text = object.get("result").and_then(Value::as_str).unwrap_or_default();
            counters(description, |field| number_after(text, field))
        }
        Format::Csv { column, is } => {
            let rows = rows(answer, column, is);
            counters(description, |field| {
                sum(rows.iter().map(|row| row.get(&field.after)?.parse().ok()))
            })
        }
    }
}

fn counters(description: &Description, of: impl Fn(&Field) -> Option<u64>) -> Counters {
    let one = |field: &Option<Field>| of(field.as_ref()?);
    let others = description.others.iter();
    Counters {
        received: one(&description.received),
        sent: one(&description.sent),
        missed: one(&description.missed),
        bytes: one(&description.bytes),
        others: others.filter_map(|(name, field)| Some((name.clone(), of(field)?))).collect(),
    }
}

/// Returns the sum of the values that are present; `None` if there are none.
fn sum(numbers: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    numbers.flatten().reduce(u64::saturating_add)
}

/// Finds every occurrence of `field.after` in the text, reads the number in the `field.number`th
/// word after each, and returns the sum of the numbers; `None` if there are none.
fn number_after(text: &str, field: &Field) -> Option<u64> {
    let numbers = text.match_indices(&field.after).map(|(at, words)| {
        let rest = &text[at + words.len()..];
        let word = rest.split_ascii_whitespace().nth(field.number.saturating_sub(1))?;
        let digits = word.bytes().take_while(u8::is_ascii_digit).count();
        word[..digits].parse().ok()
    });
    sum(numbers)
}

/// Returns the lines of the lowest interfaces, those that are not built on others.
fn of_lowest(text: &str, upper: &[String], containing: &[String]) -> String {
    let interfaces: BTreeSet<&str> = text.lines().filter_map(interface_of).collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_upper = |name: &str| {
        let ends_in_number =
            |word: &String| name.strip_prefix(word.as_str()).is_some_and(is_number);
        let is_sub =
            |(parent, number): (&str, &str)| is_number(number) && interfaces.contains(parent);
        upper.iter().any(ends_in_number)
            || containing.iter().any(|word| name.contains(word.as_str()))
            || name.rsplit_once('.').is_some_and(is_sub)
    };
    let (mut lowest, mut is_left_out) = (String::new(), false);
    for line in text.lines() {
        if let Some(name) = interface_of(line) {
            is_left_out = is_upper(name);
        }
        if !is_left_out {
            lowest.push_str(line);
            lowest.push('\n');
        }
    }
    lowest
}

/// Returns the interface whose rows begin with this line.
fn interface_of(line: &str) -> Option<&str> {
    let mut words = line.split_ascii_whitespace();
    let (name, number, state) = (words.next()?, words.next()?, words.next()?);
    (number.parse::<u32>().is_ok() && ["up", "down"].contains(&state)).then_some(name)
}

/// Returns the rows of a table whose `column` equals `is`, keyed by the column names in the first
/// line.
fn rows(text: &str, column: &str, is: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = text.lines();
    let head = cells(lines.next().unwrap_or_default().trim_start_matches(['#', ' ']));
    let row = |line: &str| -> BTreeMap<String, String> {
        head.iter().cloned().zip(cells(line)).collect()
    };
    lines.map(row).filter(|row| row.get(column).is_some_and(|cell| cell == is)).collect()
}

/// Splits a line into cells, which may be quoted.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    for character in line.chars() {
        match (character, is_quoted) {
            ('"', _) => is_quoted = !is_quoted,
            (',', false) => cells.push(String::new()),
            (other, _) => cells.last_mut().expect("the list is never empty").push(other),
        }
    }
    cells
}
