// SPDX-License-Identifier: MIT OR Apache-2.0
//! Synthetic memory hierarchies with known sizes and latencies, for testing detectors.
//!
//! A [`Machine`] is drawn from a seed; its [`truth`](Machine::truth) is a detector's expected
//! output. Its load latency as a function of chain size can be computed by two methods:
//!
//! | function | method | use |
//! |---|---|---|
//! | [`analytic()`] | miss probabilities from the occupancy of sets | many machines: ms per curve |
//! | [`trace()`] | simulation of every load in sets with replacement | accuracy |
//!
//! The two are checked against each other, and the second against cases calculated by hand. Noise
//! is not synthetic: it is replayed from [recordings](Noise) of virtual machines.
//!
//! Not modelled: prefetching, which the chase order defeats; stores; overlapping misses, which
//! dependent loads cannot have; and caches that hash a page as a whole.

#![forbid(unsafe_code)]

mod analytic;
mod curve;
mod machine;
mod noise;
mod seed;
mod set;
mod trace;

pub use analytic::analytic;
pub use curve::Point;
pub use machine::{
    Cache, Inclusion, Index, LINE_BYTES, Machine, Moves, Policy, Tlb, TrueLevel, Truth,
};
pub use noise::Noise;
pub use set::hit_rate;
pub use trace::trace;
