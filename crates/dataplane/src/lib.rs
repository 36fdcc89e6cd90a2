// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs packet paths and profiles their workers. Contains buffers, rings, the stage interface,
//! traffic sources and the meter.

pub mod bucket;
pub mod burst;
pub mod capture;
pub mod context;
mod counting;
mod cycle;
mod ended;
mod error;
mod execute;
pub mod foreign;
mod gather;
pub mod generator;
mod headers;
mod idle;
mod job;
pub mod kernels;
mod layout;
pub mod live;
mod meter;
pub mod packet;
pub mod params;
pub mod pool;
mod queue;
mod reconcile;
mod replay;
pub mod ring;
pub mod runner;
#[cfg(test)]
mod simulation;
mod sink;
mod source;
pub mod stage;
mod stock;
pub mod traffic;
mod worker;

pub use burst::{Burst, MAX_BURST, Verdict};
pub use context::{Account, StageContext};
pub use counting::Counting;
pub use error::RunError;
pub use execute::WARM_UP;
pub use idle::cost::{Responses, responses};
pub use job::{Job, Outcome, steering};
pub use kernels::StageKernels;
pub use layout::buffers_bytes;
pub use linerate_trial::Watch;
pub use live::Ports;
pub use packet::Packet;
pub use runner::run;
pub use sink::Kept;
pub use source::{DESCRIPTORS, coupled_share};
pub use stage::{BUCKETS, BuildContext, BuildError, Stage, StageKind, Steer, no_steering};
