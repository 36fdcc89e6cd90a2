// SPDX-License-Identifier: MIT OR Apache-2.0
//! Synthetic memory hierarchies with known sizes and latencies, to check detectors with.
//!
//! A [`Machine`] is drawn from a seed; its [`truth`](Machine::truth) is what a detector should say.
//! The time of a load over the size of a chain follows from it in two ways:
//!
//! | | how | what it is good for |
//! |---|---|---|
//! | [`analytic()`] | probabilities of a miss from the occupancy of sets | breadth: ms per curve |
//! | [`trace()`] | the very chase, line by line, through sets with their replacement | truth |
//!
//! The two are checked against each other, and the second against cases counted by hand. Noise is
//! not invented: it is replayed from [recordings](Noise) of virtual machines.
//!
//! Not modelled: prefetching, which the order of a chase defeats; stores; overlapping misses, which
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
