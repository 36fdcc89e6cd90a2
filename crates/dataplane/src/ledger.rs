// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a stage is handed beside its packets: its account, and the kernels to call.

use crate::kernels::StageKernels;
use linerate_record::run::Tally;

/// Drop causes a stage may have.
pub const MAX_CAUSES: usize = 16;

/// What a stage made, used up and dropped, and the kernels it calls. What went in and out is
/// counted by the strand.
#[derive(Clone, Debug, Default)]
pub struct StageLedger {
    /// Packets and octets that came from nowhere.
    pub created: Tally,
    /// Packets that ended here by design, and octets taken off packets.
    pub consumed: Tally,
    /// Drops by index into the `drop_causes` of the stage.
    pub drops: [Tally; MAX_CAUSES],
    /// Checksum and copy, in the variant the strand was given.
    pub kernels: StageKernels,
}

impl StageLedger {
    /// Everything dropped, whatever the cause.
    pub fn dropped(&self) -> Tally {
        self.drops.iter().copied().sum()
    }
}
