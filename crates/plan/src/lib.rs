// SPDX-License-Identifier: MIT OR Apache-2.0
//! Diagnosis, models and advice that lead from a run record to a better mapping.
//!
//! The steps, each usable alone and on a stored record:
//!
//! 1. [`diagnose`] names the stage that limits a measured run.
//! 2. [`costs`] derives each stage's cost per packet entering the path from the same run.
//! 3. [`model`] predicts the throughput of a mapping from those costs, with an interval.
//! 4. [`candidates`] searches the mappings that a path and a given number of processors allow.
//! 5. [`verdict`] chooses among the measured mappings.
//!
//! In addition, [`footprint`] determines which cache level holds the packets, and [`kernels`]
//! determines the share of the work spent in checksum and copy, and the fastest variant of each for
//! the path. [`routines`] determines which of the routines timed by `linerate kernels` are worth
//! selecting by name.
//!
//! [`search`] recommends changes before anything has run. It queries a [`predictor`]: [`formula`]
//! is the predictor for this machine, with costs that [`inputs`] takes from a record or a path
//! file.
//!
//! This crate measures nothing, reads no files or clocks, and runs no packet path.

#![forbid(unsafe_code)]

pub mod candidates;
pub mod costs;
pub mod diagnose;
pub mod footprint;
pub mod formula;
pub mod inputs;
pub mod kernels;
pub mod limits;
#[cfg(test)]
#[path = "../tests/common/memory.rs"]
mod memory_report;
pub mod model;
mod partition;
pub mod predictor;
pub mod profile;
pub mod routines;
pub mod sample;
pub mod search;
pub mod sketch;
pub mod verdict;
