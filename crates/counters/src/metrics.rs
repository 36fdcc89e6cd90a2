// SPDX-License-Identifier: MIT OR Apache-2.0
//! What follows from counts: ratios and rates, gathered into sets that answer one question each.
//!
//! The sets are the data files of data/metrics; the build turns them into the static tables here.
//! Left out: counting, and intervals of what is computed (`rotation`).

pub use crate::formula::{Formula, FormulaError};
use crate::suggest::nearest;
use std::fmt;

/// Metrics that answer one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricSet {
    /// Its name, as given to `-m`.
    pub name: &'static str,
    /// The question, and how to read the answer.
    pub prose: &'static str,
    /// The events it needs, in the order in which they are shown. Portable names.
    pub events: &'static [&'static str],
    /// What is computed from them. A metric may stand in several sets.
    pub metrics: &'static [Metric],
}

/// A value computed from events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name in the record; no event has it, and no other metric.
    pub name: &'static str,
    /// How it is computed, in portable names of events. [`Formula::parse`] reads it.
    pub formula: &'static str,
    /// The unit of the value: `ratio`, `percent`, `per thousand instructions`, ...
    pub unit: &'static str,
    /// What it tells.
    pub prose: &'static str,
    /// What it does not tell, and where it misleads.
    pub limits: &'static str,
}

/// A set that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownSet {
    /// The name that was given.
    pub name: String,
    /// What may have been meant, best first.
    pub nearest: Vec<String>,
}

impl fmt::Display for UnknownSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no set of metrics `{}`", self.name)?;
        let known = || SETS.iter().map(|set| set.name).collect::<Vec<_>>().join(", ");
        match self.nearest.as_slice() {
            [] => write!(f, "; the sets are: {}", known()),
            names => write!(f, "; did you mean {}?", names.join(" or ")),
        }
    }
}

impl std::error::Error for UnknownSet {}

include!(concat!(env!("OUT_DIR"), "/metrics.rs"));

/// All sets, in the order of the manual.
pub fn sets() -> &'static [MetricSet] {
    SETS
}

/// The set of this name.
///
/// # Errors
/// [`UnknownSet`] with the nearest names.
pub fn set(name: &str) -> Result<&'static MetricSet, UnknownSet> {
    let unknown = || {
        let names = SETS.iter().map(|set| set.name);
        UnknownSet { name: name.to_owned(), nearest: nearest(name, names) }
    };
    SETS.iter().find(|set| set.name == name).ok_or_else(unknown)
}
