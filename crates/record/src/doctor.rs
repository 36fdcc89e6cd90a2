// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `doctor` record: what this machine can measure, and what would enable the rest.

use crate::figure::Tier;
use serde::{Deserialize, Serialize};

/// Name of the observation that reports how many hardware events can be counted simultaneously.
pub const COUNTERS_AT_ONCE: &str = "counters_at_once";

/// Evidence tiers and capabilities of this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DoctorReport {
    /// All evidence tiers, best first.
    pub tiers: Vec<TierState>,
    /// The best evidence tier available on this machine.
    pub best_tier: Tier,
    /// Results of all checks, in section order.
    pub observations: Vec<Observation>,
}

/// Availability of an evidence tier on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TierState {
    /// Evidence tier.
    pub tier: Tier,
    /// Counting method, if not the tier's usual one (`registers`, for example); `null` otherwise.
    pub way: Option<String>,
    /// Whether the tier currently works on this machine.
    pub works: bool,
    /// What the tier can measure here, or why it does not work: one sentence.
    pub sentence: String,
    /// Keyword for why the tier does not work (`no_virtual_pmu`, ...); `null` if it works.
    pub cause: Option<String>,
    /// Command that would enable the tier; `null` if it works or no command helps.
    pub fix: Option<String>,
}

/// Subsystem that an observation concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// The processor, its instruction sets and its clocks.
    Processor,
    /// Cores, hardware threads, NUMA nodes and caches.
    Topology,
    /// Hardware counters and fallbacks for them.
    Counters,
    /// System settings and resources that a data plane depends on.
    DataPlane,
    /// Access to running programs.
    Programs,
}

/// Severity of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A fact; no judgement.
    Fact,
    /// The setting is good.
    Good,
    /// The setting reduces accuracy or speed.
    Advice,
    /// A prerequisite is missing, so something does not work.
    Missing,
    /// The value could not be read.
    Unknown,
}

/// Result of one check of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Observation {
    /// Subsystem that was checked.
    pub section: Section,
    /// Keyword for what was checked: `governor`, `huge_pages`, ...
    pub name: String,
    /// Severity of the observation.
    pub verdict: Verdict,
    /// Value found: `performance`, `2.6 GHz`, `0 of 0`; `null` if it could not be read.
    pub value: Option<String>,
    /// Meaning of the value, in one sentence.
    pub sentence: String,
    /// Command that would change the value; `null` if no change is needed or no command helps.
    pub fix: Option<String>,
}

impl Section {
    /// Creates an observation that states a fact without judging it.
    pub fn fact(self, name: &str, value: impl Into<String>, sentence: &str) -> Observation {
        self.observed(name, Verdict::Fact, Some(value.into()), sentence, None)
    }

    /// Creates an observation of a good setting.
    pub fn good(self, name: &str, value: impl Into<String>, sentence: &str) -> Observation {
        self.observed(name, Verdict::Good, Some(value.into()), sentence, None)
    }

    /// Creates an observation of a setting that reduces accuracy or speed; `fix` is the command
    /// that changes it.
    pub fn advice(
        self,
        name: &str,
        value: impl Into<String>,
        sentence: &str,
        fix: Option<String>,
    ) -> Observation {
        self.observed(name, Verdict::Advice, Some(value.into()), sentence, fix)
    }

    /// Creates an observation of a missing prerequisite; `fix` is the command that provides it.
    pub fn missing(
        self,
        name: &str,
        value: impl Into<String>,
        sentence: &str,
        fix: Option<String>,
    ) -> Observation {
        self.observed(name, Verdict::Missing, Some(value.into()), sentence, fix)
    }

    /// Creates an observation of a value that could not be read; `sentence` gives the reason.
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
