// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resolved events, and lists of event names.

use linerate_linux::perf::Selector;
use std::fmt;

/// Kind of counter that counts an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// A PMU hardware counter, of which there are only a few.
    Hardware,
    /// A software event, which the kernel can always count.
    Software,
    /// A kernel tracepoint, which the kernel can always count.
    Tracepoint,
}

/// An event resolved for this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Name in the record: the portable name if there is one, otherwise as requested.
    pub name: String,
    /// The processor's own name and code, such as `INST_RETIRED (0x08)`.
    pub native: Option<String>,
    /// Unit of one count, such as `events` or `ns`.
    pub unit: &'static str,
    /// Hardware, software or tracepoint event.
    pub class: Class,
    /// Encoding for perf_event_open(2).
    pub selector: Selector,
    /// Whether the name had the suffix `:u`, which restricts counting to user mode.
    pub is_user_only: bool,
    /// For an uncore PMU, which counts whole packages, memory controllers or clusters: one CPU for
    /// each of these units, ascending. Empty if the event counts each CPU by itself.
    pub unit_cpus: Vec<u32>,
}

/// Splits a list of event names at commas, except between the slashes of
/// `unit/event=0x08,umask=0x01/`. Names may be empty.
pub fn split_names(list: &str) -> Vec<String> {
    let mut is_within = false;
    let at_comma = |c: char| {
        is_within ^= c == '/';
        c == ',' && !is_within
    };
    list.split(at_comma).map(|name| name.trim().to_owned()).collect()
}

/// Parses a comma-separated list of event names. A trailing comma is allowed, because perf(1)
/// accepts one and generated lists have one.
///
/// # Errors
/// Returns [`NameMissing`] if the list, or any name other than the last, is empty.
pub fn parse_names(list: &str) -> Result<Vec<String>, NameMissing> {
    let mut names = split_names(list);
    if names.last().is_some_and(String::is_empty) {
        names.pop();
    }
    if names.is_empty() || names.iter().any(String::is_empty) {
        Err(NameMissing)
    } else {
        Ok(names)
    }
}

/// A name is missing in a list of event names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameMissing;

impl fmt::Display for NameMissing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event name is missing; expected a list such as instructions,l1d_misses")
    }
}

impl std::error::Error for NameMissing {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_outside_of_slashes_only() {
        let two = ["cpu/event=0x1,umask=2/", "r08"].map(str::to_owned).to_vec();
        assert_eq!(parse_names("cpu/event=0x1,umask=2/,r08"), Ok(two.clone()));
        assert_eq!(parse_names(" cpu/event=0x1,umask=2/ , r08,"), Ok(two));
        assert_eq!(parse_names("cycles"), Ok(vec!["cycles".to_owned()]));
        for bad in ["", ",", "a,,b", ",a"] {
            assert_eq!(parse_names(bad), Err(NameMissing), "{bad}");
        }
    }
}
