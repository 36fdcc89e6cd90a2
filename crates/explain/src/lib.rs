// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers questions about a record.
//!
//! [`questions`] answers common questions about missed line rate from the record of a run, tune or
//! import. Two of its building blocks are useful on their own: [`budget`] computes the per-packet
//! budget at line rate, and [`cpi`] breaks cycles per instruction down by cause. [`classes`] maps
//! functions to kinds of work, [`profile_diff`] compares two profiles, and [`why`] diagnoses a
//! program observed from outside. [`mod@rule`] is what the tables of rules share.
//!
//! Predicting other mappings is left to `linerate-plan`, simulating processors to `linerate-cmt`,
//! and printing to `linerate-report`.

#![forbid(unsafe_code)]

pub mod bound;
pub mod budget;
pub mod classes;
pub mod cpi;
#[cfg(test)]
#[path = "../../plan/tests/common/memory.rs"]
mod memory_report;
pub mod profile_diff;
pub mod questions;
pub mod regions;
pub mod rule;
pub mod stream;
pub mod why;
