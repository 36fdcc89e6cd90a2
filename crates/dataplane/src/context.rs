// SPDX-License-Identifier: MIT OR Apache-2.0
//! The context of a stage: its packet account and its kernels (checksum and copy routines).

use crate::kernels::StageKernels;
use linerate_record::run::Tally;

/// Maximum number of drop causes of a stage.
pub const MAX_CAUSES: usize = 16;

/// The account and the kernels of a stage on one worker.
#[derive(Clone, Debug, Default)]
pub struct StageContext {
    /// Packets the stage created, consumed and dropped.
    pub account: Account,
    /// Kernels for checksums and copies, in the variant that the worker uses.
    pub kernels: StageKernels,
}

/// Packets and bytes that a stage created, consumed and dropped. The worker, not the stage, counts
/// the packets that enter and leave the stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Packets that the stage created, and bytes that it added to frames.
    pub created: Tally,
    /// Packets that ended in the stage by design, and bytes that it stripped from frames.
    pub consumed: Tally,
    /// Dropped packets and their bytes, by cause: the index is that into the stage's `drop_causes`.
    pub drops: [Tally; MAX_CAUSES],
}

impl Account {
    /// Returns the total of all drops, regardless of the cause.
    pub fn dropped(&self) -> Tally {
        self.drops.iter().copied().sum()
    }
}
