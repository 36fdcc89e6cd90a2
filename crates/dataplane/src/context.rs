// SPDX-License-Identifier: MIT OR Apache-2.0
//! Context of a stage: its packet account and kernels (checksum and copy routines).

use crate::kernels::StageKernels;
use linerate_record::run::Tally;

/// Maximum number of drop causes of a stage.
pub const MAX_CAUSES: usize = 16;

/// What a worker provides to a stage: its packet account and its kernels.
#[derive(Clone, Debug, Default)]
pub struct StageContext {
    /// Packets that the stage created, consumed and dropped.
    pub account: Account,
    /// Checksum, copy and fill routines, in the variants selected for the worker.
    pub kernels: StageKernels,
}

/// Packets and bytes that a stage created, consumed and dropped, as counted by the stage itself.
/// The worker counts the packets that enter and leave the stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Packets that the stage created, and bytes that it added to frames.
    pub created: Tally,
    /// Packets that ended in the stage by design, and bytes that it removed from frames.
    pub consumed: Tally,
    /// Dropped packets and bytes by cause, in the order of the stage's `drop_causes`.
    pub drops: [Tally; MAX_CAUSES],
}

impl Account {
    /// Returns the total over all drop causes.
    pub fn dropped(&self) -> Tally {
        self.drops.iter().copied().sum()
    }
}
