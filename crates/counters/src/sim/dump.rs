// SPDX-License-Identifier: MIT OR Apache-2.0
//! The head of a file of callgrind: what was counted, from when, and why it was written.
//!
//! Left out: everything below the head, which says where it was counted.

use super::names::COUNTERS;
use std::io::{self, BufRead};

/// One file: the counts of a process between two moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dump {
    /// The basic blocks executed before it began, those of the parent included. 0 in what begins
    /// with the program itself.
    pub(super) first_block: u64,
    /// Whether it was written because the process ended.
    pub(super) is_last: bool,
    /// What was counted, in the order of [`COUNTERS`].
    pub(super) counts: [u64; COUNTERS.len()],
}

/// Reads the head.
///
/// The head has the lines `desc: Timerange: Basic block A - B`, `desc: Trigger: why`, and, in this
/// order, `positions:`, `events:` with names and `summary:` with as many numbers or fewer, for
/// trailing zeros are left out. The command stands in it unquoted, so lines of a script may be
/// between: only three in a row are taken for the end.
pub(super) fn read(mut file: impl BufRead) -> Result<Dump, String> {
    let mut first_block = None;
    let mut is_last = false;
    let mut names: Option<String> = None;
    let mut may_have_names = false;
    let mut line = Vec::new();
    loop {
        line.clear();
        let octets =
            file.read_until(b'\n', &mut line).map_err(|error: io::Error| error.to_string())?;
        if octets == 0 {
            return Err("it ends before its summary".to_owned());
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        let range = text.strip_prefix("desc: Timerange: Basic block ");
        if let Some((from, _)) = range.and_then(|range| range.split_once(" - ")) {
            first_block = from.parse().ok();
        }
        if let Some(trigger) = text.strip_prefix("desc: Trigger: ") {
            is_last = trigger == "Program termination";
        }
        if let (Some(names), Some(numbers)) = (&names, text.strip_prefix("summary:")) {
            let first_block = first_block.ok_or("it does not say when it began")?;
            return Ok(Dump { first_block, is_last, counts: counts(names, numbers)? });
        }
        let has_names = may_have_names.then(|| text.strip_prefix("events:")).flatten();
        names = has_names.map(str::to_owned);
        may_have_names = text.starts_with("positions:");
    }
}

fn counts(names: &str, numbers: &str) -> Result<[u64; COUNTERS.len()], String> {
    let numbers: Vec<u64> = numbers
        .split_whitespace()
        .map(|number| number.parse().map_err(|_| format!("`{number}` is not a count")))
        .collect::<Result<_, _>>()?;
    let names: Vec<&str> = names.split_whitespace().collect();
    if numbers.len() > names.len() {
        return Err(format!("{} counts of {} events", numbers.len(), names.len()));
    }
    let mut counts = [0; COUNTERS.len()];
    for (count, counter) in counts.iter_mut().zip(COUNTERS) {
        let place = names.iter().position(|&name| name == counter);
        let place = place.ok_or_else(|| format!("it has no {counter}"))?;
        *count = numbers.get(place).copied().unwrap_or(0);
    }
    Ok(counts)
}
