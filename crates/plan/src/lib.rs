// SPDX-License-Identifier: MIT OR Apache-2.0
//! Diagnosis, models and advice: from a run record to a better mapping.
//!
//! Each step also works on its own and on a stored record:
//!
//! 1. [`diagnose`] finds the stage that limits a measured run.
//! 2. [`costs`] derives per-stage costs, per packet entering the path, from the same run.
//! 3. [`model`] predicts the throughput of a mapping from those costs, with an interval.
//! 4. [`candidates`] searches the mappings that a path and a given number of processors allow.
//! 5. [`verdict`] chooses among the measured mappings.
//! 6. [`goal`] judges a measurement against the user's goals.
//!
//! In addition, [`footprint`] determines which cache level holds the packets, and [`kernels`] how
//! much of the work is checksums and copies and which variants would be fastest for the path.
//! [`routines`] determines which of the routines timed by `linerate kernels` are worth selecting by
//! name.
//!
//! [`idle`] proposes what the workers should do while they have no packets.
//!
//! [`line_rate`] determines how much cheaper the bottleneck must become for line rate.
//!
//! [`search`] recommends changes before anything has run, based on a [`predictor`]. The predictor
//! for this machine is [`formula`], with costs that [`inputs`] takes from a record or a path file.
//!
//! This crate measures nothing, does no I/O, reads no clock, and runs no packet path.

#![forbid(unsafe_code)]

pub use linerate_path::keys::MAX_WORKERS;

pub mod candidates;
pub mod costs;
pub mod diagnose;
pub mod footprint;
pub mod formula;
pub mod goal;
pub mod idle;
pub mod inputs;
pub mod kernels;
pub mod limits;
pub mod line_rate;
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
