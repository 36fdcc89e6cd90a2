// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derives the memory hierarchy from load latencies.
//!
//! | question | module |
//! |---|---|
//! | which levels are there, how large, how far away? | [`steps`] |
//! | number of pages in each TLB level, cost of a miss | [`tlb`] |
//! | how long does a single load take, by a clock that ticks more slowly? | [`single`] |
//! | how many misses are outstanding at once? | [`parallel`] |
//! | cost of a load, by the location of its data and its translation | [`cost`] |
//! | how much slower is a textbook multiplication of matrices? | [`matmul`] |
//! | what are the levels of a curve called, and how far away are they in cycles? | [`levels`] |
//! | does that agree with what the system states? | [`os_view`] |
//! | how much time was lost, and in gaps of which length? | [`noise`] |
//! | can counts of events be true? | [`events`] |
//! | may other commands rely on the result? | [`profile`] |
//!
//! This crate does not measure: every function takes samples and returns estimates with intervals,
//! or reports that they cannot be determined. Randomness comes from a seed in the arguments.

#![forbid(unsafe_code)]

pub mod cost;
pub mod events;
pub mod levels;
pub mod matmul;
pub mod noise;
pub mod os_view;
pub mod parallel;
pub mod profile;
mod resample;
pub mod single;
pub mod steps;
pub mod tlb;
