// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a packet path: buffers, rings, strands, traffic, and the profile of each strand.

pub mod burst;
pub mod ledger;
pub mod packet;
pub mod pool;
pub mod stage;

pub use burst::{Burst, Verdict};
pub use ledger::StageLedger;
pub use packet::Packet;
pub use stage::{BUCKETS, BuildContext, BuildError, Stage, StageKind, Steer};
