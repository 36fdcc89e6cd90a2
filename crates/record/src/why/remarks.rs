// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remarks of `why`: circumstances that cost the program time whatever limits it.

use super::findings::UNKNOWN_TITLE;
use crate::answers::Evidence;
use serde::{Deserialize, Serialize};

/// A circumstance that costs the program time whatever limits it, with evidence. It supplements the
/// findings and claims no gain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WhyRemark {
    /// Keyword for the circumstance.
    pub id: Circumstance,
    /// What was seen, in one sentence with figures.
    pub sentence: String,
    /// Figures behind the sentence.
    pub evidence: Vec<Evidence>,
    /// Command or setting that shows more about the circumstance, or removes it.
    pub next: String,
    /// A measurement, and the result that would disprove the remark.
    pub wrong_if: String,
}

/// Circumstances that remarks are about: the published list. Minor versions may add some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Circumstance {
    /// The program runs in a simulator (Valgrind).
    Simulated,
    /// Connections wait in an accept queue although the program has time to accept them.
    NotAccepted,
    /// All CPUs handle far more timer interrupts than the kernel's tick causes.
    TimerInterrupts,
    /// A CPU spends several times as long per packet in interrupts as protocols take.
    SlowPackets,
    /// The program writes to a log, and makes thousands of write calls per second.
    LogWrites,
    /// A single function of the program or of one of its libraries has many of the busiest thread's
    /// samples.
    HotFunction,
    /// A single function of the C library has many of the busiest thread's samples.
    LibcHot,
    /// Unknown circumstance, from a record written by a newer version.
    #[serde(other)]
    Unknown,
}

impl Circumstance {
    /// All circumstances, in the published order, without `Unknown`.
    pub const ALL: [Self; 7] = [
        Self::Simulated,
        Self::NotAccepted,
        Self::TimerInterrupts,
        Self::SlowPackets,
        Self::LogWrites,
        Self::HotFunction,
        Self::LibcHot,
    ];

    /// Returns the keyword used in JSON and in the summary's `remarks`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::NotAccepted => "not_accepted",
            Self::TimerInterrupts => "timer_interrupts",
            Self::SlowPackets => "slow_packets",
            Self::LogWrites => "log_writes",
            Self::HotFunction => "hot_function",
            Self::LibcHot => "libc_hot",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the circumstance as shown to users: its keyword, or a note if this version has none.
    pub fn title(self) -> &'static str {
        match self {
            Self::Unknown => UNKNOWN_TITLE,
            _ => self.name(),
        }
    }
}
