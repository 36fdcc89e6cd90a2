// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derives the memory hierarchy from load latencies.
//!
//! | subject | module |
//! |---|---|
//! | number, sizes and latencies of the levels | [`steps`] |
//! | pages per TLB level, cost of a miss | [`tlb`] |
//! | single-load latency, with a clock whose tick is longer than a load | [`single`] |
//! | number of outstanding misses | [`parallel`] |
//! | cost of a load, by the location of its data and its translation | [`cost`] |
//! | slowdown of textbook matrix multiplication | [`matmul`] |
//! | level names, and latencies in cycles | [`levels`] |
//! | which levels are kept or withdrawn, given the caches reported by the OS | [`reconcile`] |
//! | comparison with the caches reported by the OS | [`os_view`] |
//! | time lost to interruptions | [`noise`] |
//! | plausibility of event counts | [`events`] |
//! | storing the result for other commands | [`profile`] |
//!
//! This crate does not measure: every function takes samples and returns estimates with intervals,
//! or reports that they cannot be determined. Randomness is seeded by the caller.

#![forbid(unsafe_code)]

pub mod cost;
pub mod events;
pub mod levels;
pub mod matmul;
pub mod noise;
pub mod os_view;
pub mod parallel;
pub mod profile;
pub mod reconcile;
mod resample;
pub mod single;
pub mod steps;
pub mod tlb;
