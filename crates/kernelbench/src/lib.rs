// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the kernels in `linerate-kernels`, interleaved with bounds and peers. Every kernel and
//! peer is checked before it is timed.
//!
//! | subject | module |
//! |---|---|
//! | cases: kernel, size, alignment, cache state | [`cases`] |
//! | interleaved timing of routines | [`linerate_trial`] |
//! | measurement of all cases on this machine | [`sweep`](mod@sweep) |
//! | performance targets | [`targets`] |
//! | which step of the inner loop limits a sum | [`mod@steps`] |
//! | sums of several buffers in one call | [`mod@bursts`] |
//!
//! All routines in a case are timed in the same rounds, each in a window of about 25 us, in random
//! order; ratios are computed within a round. Times are in TSC ticks, converted to core cycles with
//! a chain of additions timed before and after the case.
//!
//! Not covered: printing and files (see `cli`), processors other than this machine's, and the
//! slowdown of neighbouring or later code when wide vectors lower the core clock.

#![deny(unsafe_code)]

pub mod bursts;
pub mod cases;
mod check;
mod contest;
mod error;
mod lineup;
mod memory;
mod mixes;
#[expect(unsafe_code, reason = "calls third-party C functions and function pointers")]
mod peers;
pub mod steps;
pub mod sweep;
pub mod targets;

pub use error::Error;
pub use linerate_trial::Watch;
pub use lineup::{Filter, peer_reports, variant_reports};
pub use sweep::{Outcome, Request, sweep};
