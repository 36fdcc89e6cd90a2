// SPDX-License-Identifier: MIT OR Apache-2.0
//! The account of one stage, kept while packets flow.

use linerate_record::run::Tally;

/// Drop causes a stage may have.
pub const MAX_CAUSES: usize = 16;

/// What a stage made, used up and dropped. What went in and out is counted by the strand.
#[derive(Clone, Debug, Default)]
pub struct StageLedger {
    /// Packets and octets that came from nowhere.
    pub created: Tally,
    /// Packets that ended here by design, and octets taken off packets.
    pub consumed: Tally,
    /// Drops by index into the `drop_causes` of the stage.
    pub drops: [Tally; MAX_CAUSES],
}

impl StageLedger {
    /// Everything dropped, whatever the cause.
    pub fn dropped(&self) -> Tally {
        self.drops.iter().copied().sum()
    }
}
