// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stage's context: its account and its kernels.

use crate::kernels::StageKernels;
use linerate_record::run::Tally;

/// Maximum number of drop causes of a stage.
pub const MAX_CAUSES: usize = 16;

/// The account and the kernels of a stage on one worker.
#[derive(Clone, Debug, Default)]
pub struct StageContext {
    /// Packets the stage created, consumed and dropped.
    pub account: Account,
    /// Checksum and copy, in the worker's variant.
    pub kernels: StageKernels,
}

/// Packets a stage created, consumed and dropped. The worker counts packets in and out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Created packets and prepended bytes.
    pub created: Tally,
    /// Packets that ended here by design, and stripped bytes.
    pub consumed: Tally,
    /// Drops by index into the `drop_causes` of the stage.
    pub drops: [Tally; MAX_CAUSES],
}

impl Account {
    /// Returns everything dropped, for any cause.
    pub fn dropped(&self) -> Tally {
        self.drops.iter().copied().sum()
    }
}
