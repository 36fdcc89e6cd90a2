// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics derived from counts, i.e. ratios and rates. They are grouped into sets, each of which
//! answers one question.
//!
//! The sets are the data files in data/metrics, which the build turns into static tables.
//! `rotation` estimates counts and computes the confidence intervals of metrics.

pub use crate::formula::{Formula, FormulaError};
use crate::suggest::nearest;
use std::fmt;

/// A set of metrics that together answer one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricSet {
    /// Name, as given to `-m`.
    pub name: &'static str,
    /// Which question the set answers, and how to interpret the answer.
    pub prose: &'static str,
    /// Portable names of the required events, in display order.
    pub events: &'static [&'static str],
    /// Metrics. A metric may belong to several sets.
    pub metrics: &'static [Metric],
}

/// A value computed from event counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name in the record, unique among events and metrics.
    pub name: &'static str,
    /// Formula with portable event names, in the syntax of [`Formula::parse`].
    pub formula: &'static str,
    /// Unit of the value: `ratio`, `percent`, `per thousand instructions`, ...
    pub unit: &'static str,
    /// Meaning of the metric, and how to interpret its value.
    pub prose: &'static str,
    /// Limits of the metric, and cases in which it misleads.
    pub limits: &'static str,
}

/// No metric set has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownSet {
    /// Name as given.
    pub name: String,
    /// Similar metric sets, best match first.
    pub nearest: Vec<String>,
}

impl fmt::Display for UnknownSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown metric set `{}`", self.name)?;
        let known = || SETS.iter().map(|set| set.name).collect::<Vec<_>>().join(", ");
        match self.nearest.as_slice() {
            [] => write!(f, "; the sets are: {}", known()),
            names => write!(f, "; did you mean {}?", names.join(" or ")),
        }
    }
}

impl std::error::Error for UnknownSet {}

include!(concat!(env!("OUT_DIR"), "/metrics.rs"));

/// Returns all metric sets, in the order used by the manual.
pub fn sets() -> &'static [MetricSet] {
    SETS
}

/// Returns the metric set with this name.
///
/// # Errors
/// Returns [`UnknownSet`] with the most similar names.
pub fn set(name: &str) -> Result<&'static MetricSet, UnknownSet> {
    let unknown = || {
        let names = SETS.iter().map(|set| set.name);
        UnknownSet { name: name.to_owned(), nearest: nearest(name, names) }
    };
    SETS.iter().find(|set| set.name == name).ok_or_else(unknown)
}

#[cfg(test)]
mod formula_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use std::collections::{BTreeMap, BTreeSet};

    fn named(name: &str) -> &'static MetricSet {
        set(name).unwrap()
    }

    #[test]
    fn the_sets_are_there_in_order() {
        let names: Vec<_> = sets().iter().map(|set| set.name).collect();
        assert_eq!(names, ["default", "pipeline", "cache", "tlb", "branch", "mix", "rpistat"]);
        let error = set("piepline").unwrap_err();
        assert_eq!(error.nearest, ["pipeline"]);
        assert!(error.to_string().contains("did you mean pipeline?"), "{error}");
        let error = set("energy").unwrap_err();
        assert!(error.nearest.is_empty() && error.to_string().contains("rpistat"), "{error}");
    }

    #[test]
    fn formulas_need_events_of_the_set_that_exist() {
        let list = Catalog::of_this_machine().list();
        let known: BTreeSet<_> = list.iter().map(|info| info.name).collect();
        let mut formulas = BTreeMap::new();
        for set in sets() {
            let events: BTreeSet<_> = set.events.iter().copied().collect();
            assert_eq!(events.len(), set.events.len(), "{}", set.name);
            assert!(events.is_subset(&known), "{}: {events:?}", set.name);
            for metric in set.metrics {
                let formula = Formula::parse(metric.formula).unwrap();
                assert!(formula.events().iter().all(|name| events.contains(name)), "{metric:?}");
                assert!(!known.contains(metric.name), "{}", metric.name);
                // A metric in several sets must have the same formula in each.
                let before = formulas.insert(metric.name, metric.formula);
                assert!(before.is_none_or(|before| before == metric.formula), "{}", metric.name);
            }
        }
    }

    #[test]
    fn default_events_are_those_of_the_manual() {
        let expected = [
            "task_clock_ns",
            "context_switches",
            "migrations",
            "page_faults",
            "cycles",
            "instructions",
            "branches",
            "branch_misses",
        ];
        assert_eq!(named("default").events, expected);
    }

    /// Given the scaled counts that rpistat's author published for naive matrix multiplication, the
    /// formulas must yield the ratios that rpistat printed.
    #[test]
    fn rpistat_gives_the_published_ratios() {
        let counts = BTreeMap::from([
            ("cycles", 11_759_598_287.0),
            ("instructions", 1_241_209_259.0),
            ("ibuf_stall_cycles", 259_324_219.0),
            ("l1d_accesses", 18_343_722.0),
            ("l1d_misses", 3_757_582.0),
            ("micro_tlb_misses", 904_898.0),
            ("main_tlb_misses", 696_010.0),
            ("branches", 134_550_814.0),
            ("branch_misses", 1_474_255.0),
        ]);
        let set = named("rpistat");
        assert_eq!(set.events.len(), 9);
        assert!(set.events.iter().all(|event| counts.contains_key(event)));
        let value = |metric: &Metric| {
            let formula = Formula::parse(metric.formula).unwrap();
            let value = formula.value(|name| counts.get(name).copied()).unwrap();
            (metric.name, (value * 1000.0).round() / 1000.0)
        };
        let values: Vec<_> = set.metrics.iter().map(value).collect();
        let published = [
            ("cpi", 9.474),
            ("ibuf_stall_percent", 2.205),
            ("l1d_miss_percent", 20.484),
            ("micro_tlb_miss_pti", 0.729),
            ("main_tlb_miss_pti", 0.561),
            ("branch_pti", 108.403),
            ("branch_miss_percent", 1.096),
        ];
        assert_eq!(values, published);
    }
}
