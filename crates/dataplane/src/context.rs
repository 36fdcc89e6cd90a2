// SPDX-License-Identifier: MIT OR Apache-2.0
//! Context of a stage in addition to its packets: its account, and the kernels to call.

use crate::kernels::StageKernels;
use linerate_record::run::Tally;

/// Drop causes a stage may have.
pub const MAX_CAUSES: usize = 16;

/// The account of a stage and the kernels it calls, one of each per stage and worker.
#[derive(Clone, Debug, Default)]
pub struct StageContext {
    /// Packets the stage created, consumed and dropped.
    pub account: Account,
    /// Checksum and copy, in the variant the worker was given.
    pub kernels: StageKernels,
}

/// Packets a stage created, consumed and dropped. The worker counts packets in and out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Packets and bytes that came from nowhere.
    pub created: Tally,
    /// Packets that ended here by design, and bytes taken off packets.
    pub consumed: Tally,
    /// Drops by index into the `drop_causes` of the stage.
    pub drops: [Tally; MAX_CAUSES],
}

impl Account {
    /// Everything dropped, whatever the cause.
    pub fn dropped(&self) -> Tally {
        self.drops.iter().copied().sum()
    }
}
