// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a packet path: buffers, rings, workers, traffic, and the profile of each worker.

pub mod bucket;
pub mod burst;
pub mod capture;
pub mod context;
mod counting;
mod ended;
mod error;
mod execute;
mod gather;
pub mod generator;
mod job;
pub mod kernels;
mod layout;
mod meter;
pub mod packet;
pub mod params;
pub mod pool;
mod replay;
pub mod ring;
pub mod runner;
#[cfg(test)]
mod simulation;
mod sink;
mod source;
pub mod stage;
pub mod traffic;
mod worker;

pub use burst::{Burst, Verdict};
pub use context::{Account, StageContext};
pub use counting::Counting;
pub use error::RunError;
pub use job::{Job, Outcome, steering};
pub use kernels::StageKernels;
pub use layout::buffers_bytes;
pub use linerate_trial::Watch;
pub use packet::Packet;
pub use runner::run;
pub use sink::Kept;
pub use source::{DESCRIPTORS, coupled_share};
pub use stage::{BUCKETS, BuildContext, BuildError, Stage, StageKind, Steer, no_steering};
