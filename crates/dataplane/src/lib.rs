// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a packet path: buffers, rings, strands, traffic, and the profile of each strand.

pub mod bucket;
pub mod burst;
pub mod capture;
mod counting;
mod gather;
pub mod generator;
pub mod kernels;
pub mod ledger;
mod meter;
pub mod packet;
pub mod params;
pub mod pool;
mod replay;
pub mod ring;
pub mod runner;
mod sink;
mod source;
pub mod stage;
mod strand;
pub mod traffic;

pub use burst::{Burst, Verdict};
pub use counting::Counting;
pub use kernels::StageKernels;
pub use ledger::StageLedger;
pub use packet::Packet;
pub use runner::{Job, Outcome, RunError, Watch, buffers_octets, run, steering};
pub use sink::Kept;
pub use source::{DESCRIPTORS, coupled_share};
pub use stage::{BUCKETS, BuildContext, BuildError, Stage, StageKind, Steer, no_steering};
