// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `doctor` record: what this machine can measure, and what would enable the rest.

use crate::figure::Tier;
use serde::{Deserialize, Serialize};

/// Name of the observation that reports how many hardware events can be counted at the same time.
pub const COUNTERS_AT_ONCE: &str = "counters_at_once";

/// Evidence tiers and capabilities available on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DoctorReport {
    /// The evidence tiers, best first, each with whether it works on this machine.
    pub tiers: Vec<TierState>,
    /// The best evidence tier that works on this machine.
    pub best_tier: Tier,
    /// All checks, in the order of the sections.
    pub observations: Vec<Observation>,
}

/// Whether an evidence tier works on this machine, and why not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TierState {
    /// Evidence tier.
    pub tier: Tier,
    /// How the tier counts, if not in the usual way, such as `registers`; `null` otherwise.
    pub way: Option<String>,
    /// Whether the tier works on this machine at present.
    pub works: bool,
    /// What the tier can measure on this machine, or the reason why it does not work, in a
    /// sentence.
    pub sentence: String,
    /// Reason why the tier does not work, as a keyword for scripts: `no_virtual_pmu`, ...; `null`
    /// if it works.
    pub cause: Option<String>,
    /// The command that would make the tier work; `null` if it works or no command helps.
    pub fix: Option<String>,
}

/// Part of the machine that an observation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// The processor, its instruction sets and its clocks.
    Processor,
    /// Cores, hardware threads, NUMA nodes and caches.
    Topology,
    /// Hardware counters and their substitutes.
    Counters,
    /// System settings and resources that a data plane requires.
    DataPlane,
    /// Access to running programs, in order to observe them.
    Programs,
}

/// Severity of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The observation states a fact; nothing is wrong.
    Fact,
    /// The setting is good.
    Good,
    /// The setting costs accuracy or speed.
    Advice,
    /// A prerequisite is missing, which prevents something from working.
    Missing,
    /// The value could not be read.
    Unknown,
}

/// Result of one check of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Observation {
    /// Part of the machine that was checked.
    pub section: Section,
    /// Subject of the check, as a keyword for scripts: `governor`, `huge_pages`, ...
    pub name: String,
    /// Severity of the observation.
    pub verdict: Verdict,
    /// The value that was found: `performance`, `2.6 GHz`, `0 of 0`; `null` if it was not read.
    pub value: Option<String>,
    /// What the value means, in a sentence.
    pub sentence: String,
    /// The command that would change the value; `null` if no change is needed or no command helps.
    pub fix: Option<String>,
}

impl Section {
    /// Makes an observation of a fact about this part of the machine; nothing is wrong.
    pub fn fact(self, name: &str, value: impl Into<String>, sentence: &str) -> Observation {
        self.observed(name, Verdict::Fact, Some(value.into()), sentence, None)
    }

    /// Makes an observation of a good setting.
    pub fn good(self, name: &str, value: impl Into<String>, sentence: &str) -> Observation {
        self.observed(name, Verdict::Good, Some(value.into()), sentence, None)
    }

    /// Makes an observation of a setting that costs accuracy or speed, with the command that would
    /// change it.
    pub fn advice(
        self,
        name: &str,
        value: impl Into<String>,
        sentence: &str,
        fix: Option<String>,
    ) -> Observation {
        self.observed(name, Verdict::Advice, Some(value.into()), sentence, fix)
    }

    /// Makes an observation of a missing prerequisite, with the command that provides it.
    pub fn missing(
        self,
        name: &str,
        value: impl Into<String>,
        sentence: &str,
        fix: Option<String>,
    ) -> Observation {
        self.observed(name, Verdict::Missing, Some(value.into()), sentence, fix)
    }

    /// Makes an observation of a value that could not be read; `sentence` says why.
    pub fn unknown(self, name: &str, sentence: &str) -> Observation {
        self.observed(name, Verdict::Unknown, None, sentence, None)
    }

    fn observed(
        self,
        name: &str,
        verdict: Verdict,
        value: Option<String>,
        sentence: &str,
        fix: Option<String>,
    ) -> Observation {
        let (name, sentence) = (name.to_owned(), sentence.to_owned());
        Observation { section: self, name, verdict, value, sentence, fix }
    }
}
