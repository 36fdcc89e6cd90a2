// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scored quantities, their published values, and degraded answers.

use crate::judge::Verdict;
use linerate_hierarchy::steps::FoundLevels;
use linerate_record::stats::Estimate;

/// The results page with the published values.
pub(crate) const PAGE: &str = include_str!("../../../../docs/results/memory-corpus.md");

/// What is scored by comparing the detector's answer with the synthetic machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantity {
    Count,
    Sizes,
    Latencies,
    All,
    Intervals,
}

/// How many of a number of trials were successful.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) hits: u64,
    pub(crate) trials: u64,
}

impl Share {
    pub(crate) fn value(self) -> f64 {
        self.hits as f64 / self.trials.max(1) as f64
    }
}

impl std::ops::Add for Share {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { hits: self.hits + other.hits, trials: self.trials + other.trials }
    }
}

impl Quantity {
    pub(crate) const EACH: [Self; 5] =
        [Self::Count, Self::Sizes, Self::Latencies, Self::All, Self::Intervals];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sizes => "sizes",
            Self::Latencies => "latencies",
            Self::All => "all",
            Self::Intervals => "intervals",
        }
    }

    /// Returns the text that precedes the quantity's figure on the page.
    fn label(self) -> &'static str {
        match self {
            Self::Count => "number of levels ",
            Self::Sizes => "sizes within 10 % ",
            Self::Latencies => "latencies within 1 % ",
            Self::All => "all three ",
            Self::Intervals => "intervals that contain the true value: ",
        }
    }

    /// Returns the hits and trials for one machine. Intervals are one trial each; any other
    /// quantity is a single trial.
    pub(crate) fn of(self, verdict: &Verdict) -> Share {
        let one = |is_right: bool| Share { hits: is_right.into(), trials: 1 };
        match self {
            Self::Count => one(verdict.is_count_right),
            Self::Sizes => one(verdict.is_size_right()),
            Self::Latencies => one(verdict.is_latency_right()),
            Self::All => one(verdict.is_right()),
            Self::Intervals => {
                let (hits, trials) = verdict.covered;
                Share { hits: hits.into(), trials: trials.into() }
            }
        }
    }

    /// Returns the quantity's value in the section of `page` titled `title`.
    pub(crate) fn published(self, page: &str, title: &str) -> Option<Share> {
        let (_, section) = page.split_once(&format!("## {title}\n"))?;
        let section = section.split("\n## ").next()?;
        let (before, after) = section.split_once(self.label())?;
        let hits = number(after)?;
        let trials = match self {
            // "1102 of 1184"
            Self::Intervals => number(after.split_once(" of ")?.1)?,
            // "200 analytic machines, correct: number of levels 189"
            _ => number(before.rsplit_once(" analytic machines, correct: ")?.0.lines().last()?)?,
        };
        Some(Share { hits, trials })
    }

    /// Returns a copy of the answer with an error in this quantity.
    pub(crate) fn spoil(self, found: &FoundLevels) -> FoundLevels {
        let mut found = found.clone();
        let scaled = |of: Estimate, by: f64| Estimate {
            value: of.value * by,
            low: of.low * by,
            high: of.high * by,
            ..of
        };
        let missed = |of: Estimate| Estimate { low: of.value * 1.5, high: of.value * 1.5, ..of };
        match self {
            Self::Count | Self::All => found.levels.truncate(1),
            Self::Sizes => {
                for level in &mut found.levels {
                    level.size = level.size.map(|size| scaled(size, 1.25));
                }
            }
            Self::Latencies => {
                for level in &mut found.levels {
                    level.latency = scaled(level.latency, 1.05);
                }
            }
            Self::Intervals => {
                for level in &mut found.levels {
                    level.size = level.size.map(missed);
                    level.latency = missed(level.latency);
                }
            }
        }
        found
    }
}

/// Parses the number at the start of a string.
fn number(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}
