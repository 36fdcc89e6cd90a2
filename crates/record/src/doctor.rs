// SPDX-License-Identifier: MIT OR Apache-2.0
//! Result of `linerate doctor`: what this machine can measure, and what would enable the rest.

use crate::figure::Tier;
use serde::{Deserialize, Serialize};

/// Name of the observation that reports how many hardware events can be counted at the same time.
pub const COUNTERS_AT_ONCE: &str = "counters_at_once";

/// Evidence tiers and capabilities available on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DoctorReport {
    /// The tiers, best first, with whether each works here.
    pub tiers: Vec<TierState>,
    /// The best working tier.
    pub best_tier: Tier,
    /// All checks, in the order of the sections.
    pub observations: Vec<Observation>,
}

/// State of a tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TierState {
    /// Evidence tier.
    pub tier: Tier,
    /// How the tier counts, if not in the usual way: `registers`; `null` otherwise.
    pub way: Option<String>,
    /// Whether the tier works here and now.
    pub works: bool,
    /// The tier's capabilities here, or the reason why it does not work, in a sentence.
    pub sentence: String,
    /// Cause of failure, as a keyword for scripts: `no_virtual_pmu`, ...; `null` if it works.
    pub cause: Option<String>,
    /// The command that would make the tier work; `null` if it works or no command helps.
    pub fix: Option<String>,
}

/// Part of the machine that an observation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// Processor, instruction sets, clocks.
    Processor,
    /// Cores, hardware threads, nodes, caches.
    Topology,
    /// Counters and their substitutes.
    Counters,
    /// What a data plane requires of the system.
    DataPlane,
    /// Access to running programs.
    Programs,
}

/// Severity of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A fact; nothing is wrong.
    Fact,
    /// Good.
    Good,
    /// Costs accuracy or speed.
    Advice,
    /// Prevents something from working.
    Missing,
    /// Could not be read.
    Unknown,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Observation {
    /// Its section.
    pub section: Section,
    /// The subject, as a keyword for scripts: `governor`, `huge_pages`, ...
    pub name: String,
    /// Its severity.
    pub verdict: Verdict,
    /// Value found: `performance`, `2.6 GHz`, `0 of 0`; `null` if it was not read.
    pub value: Option<String>,
    /// What the value means, in a sentence.
    pub sentence: String,
    /// The command that would change the value; `null` if no change is needed or no command helps.
    pub fix: Option<String>,
}

impl Section {
    /// Reports a fact about this part; nothing is wrong.
    pub fn fact(self, name: &str, value: impl Into<String>, sentence: &str) -> Observation {
        self.observed(name, Verdict::Fact, Some(value.into()), sentence, None)
    }

    /// A good setting.
    pub fn good(self, name: &str, value: impl Into<String>, sentence: &str) -> Observation {
        self.observed(name, Verdict::Good, Some(value.into()), sentence, None)
    }

    /// Reports something that costs accuracy or speed, and the command that would change it.
    pub fn advice(
        self,
        name: &str,
        value: impl Into<String>,
        sentence: &str,
        fix: Option<String>,
    ) -> Observation {
        self.observed(name, Verdict::Advice, Some(value.into()), sentence, fix)
    }

    /// Reports a missing prerequisite, and the command that provides it.
    pub fn missing(
        self,
        name: &str,
        value: impl Into<String>,
        sentence: &str,
        fix: Option<String>,
    ) -> Observation {
        self.observed(name, Verdict::Missing, Some(value.into()), sentence, fix)
    }

    /// Reports something that could not be read, and why.
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
