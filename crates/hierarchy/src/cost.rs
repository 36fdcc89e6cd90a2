// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a load costs, by the tier of its data and the place of its translation.

use crate::{tiers, tlb};
use linerate_record::memory::TlbState;
use linerate_record::stats::Estimate;

/// What the costs are made of. All times in one unit.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The tiers.
    pub tiers: &'a [tiers::Tier],
    /// Per tier, the loads it has under way at once; may be shorter than `tiers`.
    pub outstanding: &'a [Option<Estimate>],
    /// The levels of the translation buffer.
    pub tlb: &'a [tlb::Level],
    /// The page-local curve.
    pub local: &'a [tiers::Sample],
    /// The random curve.
    pub random: &'a [tiers::Sample],
    /// Octets of a page as the buffer translates them.
    pub page_bytes: u64,
    /// Octets of a line.
    pub line_bytes: u64,
    /// Of the intervals.
    pub confidence: f64,
    /// Of the resampling.
    pub seed: u64,
}

/// What a cost rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Chases that do just that.
    Measured,
    /// The cost of the miss added to that of the tier.
    Added,
}

/// What a load costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// The tier, as an index.
    pub tier: usize,
    /// Where its translation is.
    pub state: TlbState,
    /// Time until a load that depends on it can begin.
    pub time: Estimate,
    /// Time per load where as many overlap as can: a lower bound. `None` where that is not known.
    pub overlapped: Option<Estimate>,
    /// What `time` rests on.
    pub basis: Basis,
}

/// The costs, by tier and state. States for which nothing tells are left out.
pub fn table(_inputs: &Inputs) -> Vec<Cost> {
    Vec::new()
}
