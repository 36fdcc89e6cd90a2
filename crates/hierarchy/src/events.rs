// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether counts of events can be true, given that the loads of a chase are known.

use linerate_record::memory::Order;

/// The chase of one size, and what was counted in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Octets of the chain.
    pub bytes: u64,
    /// Loads that were made.
    pub loads: u64,
    /// How long they took.
    pub seconds: f64,
    /// Names of events, as of `linerate-counters`, and their counts.
    pub counts: Vec<(String, f64)>,
}

/// What is known of the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// The order of the chase.
    pub order: Order,
    /// Octets of a line.
    pub line_bytes: u64,
    /// Octets of a page.
    pub page_bytes: u64,
    /// Octets of the caches, nearest first; fewer where fewer are known.
    pub caches: Vec<u64>,
    /// Pages the first level of the translation buffer holds, and the last.
    pub tlb: Option<(u64, u64)>,
    /// The core's clock in GHz.
    pub core_ghz: Option<f64>,
}

/// Whether a count can be true.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// `None` where nothing is known of the event.
    pub plausible: Option<bool>,
    /// Why not.
    pub doubt: Option<String>,
}

/// Judges each count of each row.
pub fn judge(rows: &[Row], _known: &Known) -> Vec<Vec<Judgement>> {
    let unknown = Judgement { plausible: None, doubt: None };
    rows.iter().map(|row| vec![unknown.clone(); row.counts.len()]).collect()
}
