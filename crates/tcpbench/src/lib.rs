// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures how much faster a TCP stack gets with faster checksums and copies, under several
//! traffic patterns.
//!
//! Client and server are two [`Endpoint`]s in one thread, connected by a wire that consists of two
//! queues. All time is virtual, so runs are CPU-bound, and the same seed gives the same segments.
//!
//! | subject | module |
//! |---|---|
//! | interface that a stack must implement | [`endpoint`] |
//! | a stack's routines; number, length and time of their calls | [`routines`] |
//! | segments between the stacks | [`wire`]; `lent` if they stay in the sender's memory |
//! | application behaviour | [`pattern`], [`stream`] |
//! | event loop | [`session`] |
//! | comparing received with sent data | [`proof`] |
//! | speedup of each set | [`measure`], [`run`](mod@run) |
//! | throughput under loss | [`law`](mod@law) |
//! | accuracy of the time shares | [`accuracy`] |
//! | smoltcp, built in | [`smol`] |
//! | lwIP, loaded if it was built | [`lwip`] |
//!
//! Printing and file I/O are left to `cli`. Neither a network nor the host's own TCP stack is used.

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
