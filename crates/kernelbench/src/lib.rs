// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the kernels of `linerate-kernels` against their bounds and peers, interleaved, after
//! checking each of them.
//!
//! | question | module |
//! |---|---|
//! | what is called, on what, and what of it is timed? | [`cases`] |
//! | how are routines timed against each other? | [`linerate_trial`] |
//! | how fast is everything on this machine? | [`sweep`](mod@sweep) |
//! | does it reach its targets? | [`targets`] |
//!
//! All routines of a case are timed in the same rounds, each in a window of some 25 us, in random
//! order; ratios are taken within a round. Times are in ticks of the timestamp counter, converted
//! to core cycles by means of a chain of additions timed before and after the case.
//!
//! Not covered: printing and files (see `cli`); the effect of wide vectors on the core clock for
//! neighbouring or later code; other processors.

#![deny(unsafe_code)]

pub mod cases;
mod check;
mod contest;
mod error;
mod lineup;
mod memory;
mod mixes;
#[expect(unsafe_code, reason = "calls third-party functions, in C and through pointers")]
mod peers;
pub mod sweep;
pub mod targets;

pub use error::Error;
pub use linerate_trial::Watch;
pub use lineup::{Filter, peer_reports, variant_reports};
pub use sweep::{Outcome, Request, sweep};
