// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP stacks under traffic patterns: how much a stack gains from faster checksums and copies.
//!
//! Client and server are two [`Endpoint`]s in one thread, connected by a wire that consists of two
//! queues. All time is virtual, so a run is CPU-bound, and the same seed gives the same segments.
//!
//! | question | module |
//! |---|---|
//! | what must a stack implement? | [`endpoint`] |
//! | which routines does it use, how often, on what? | [`routines`] |
//! | what carries the segments? | [`wire`]; `lent` where they stay with their sender |
//! | what do the applications do? | [`pattern`], [`stream`] |
//! | how do they all run together? | [`session`] |
//! | does everything arrive as it was sent? | [`proof`] |
//! | what is the gain of each set? | [`measure`], [`run`](mod@run) |
//! | does it follow the law of throughput under loss? | [`law`](mod@law) |
//! | are the shares right? | [`accuracy`] |
//! | the stack that is built in | [`smol`] |
//! | the stack that is loaded where it was built | [`lwip`] |
//!
//! Not here: printing and files, which `cli` handles; networks and the host's own stack.

#![deny(unsafe_code)]

pub mod accuracy;
pub mod endpoint;
mod error;
pub mod law;
#[expect(unsafe_code, reason = "the bytes are borrowed from another stack and do not move")]
mod lent;
mod link;
pub mod lwip;
pub mod measure;
mod packet;
pub mod pattern;
pub mod proof;
pub mod routines;
pub mod run;
mod sampling;
pub mod session;
mod shares;
pub mod smol;
pub mod stream;
pub mod wire;

pub use endpoint::{Endpoint, Side, Stack};
pub use error::{Error, Stuck};
pub use linerate_trial::Watch;
