// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events that have been resolved for this machine, and lists of event names.

use linerate_linux::perf::Selector;
use std::fmt;

/// What counts an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// A hardware counter of the PMU; hardware counters are scarce.
    Hardware,
    /// The kernel itself, which can always count its software events.
    Software,
    /// A tracepoint of the kernel, which can always be counted too.
    Tracepoint,
}

/// An event that has been resolved for this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The event's name in the record: the portable name if there is one, otherwise the name as
    /// requested.
    pub name: String,
    /// The processor's own name and code, e.g. `INST_RETIRED (0x08)`.
    pub native: Option<String>,
    /// Unit of one count, such as `events` or `ns`.
    pub unit: &'static str,
    /// What counts the event: the PMU, the kernel, or a tracepoint.
    pub class: Class,
    /// The event's encoding for perf_event_open(2).
    pub selector: Selector,
    /// Whether the user asked for user mode only (`name:u`).
    pub is_user_only: bool,
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

/// Parses a comma-separated list of event names. Only the last name may be empty, after a trailing
/// comma: perf(1) accepts such a comma, and generated lists have one.
///
/// # Errors
/// [`NameMissing`] if the list is empty or any other name is.
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

/// Error for a list of event names in which a name is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameMissing;

impl fmt::Display for NameMissing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name is missing; write e.g. instructions,l1d_misses")
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
