// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers questions from a record.
//!
//! [`questions`] answers common questions about a missed line rate from the record of a run, a tune
//! or an import. Two of its building blocks are useful on their own: [`budget`] computes the
//! per-packet budget at line rate, and [`cpi`] attributes the cycles per instruction to causes.
//! [`classes`] maps functions to kinds of work. [`profile_diff`]
//! compares two profiles. [`why`] diagnoses what limits a program observed
//! from outside.
//!
//! Left out: other mappings (`linerate-plan`), simulated processors (`linerate-cmt`), printing.

#![forbid(unsafe_code)]

pub mod budget;
pub mod classes;
pub mod cpi;
#[cfg(test)]
#[path = "../../plan/tests/common/memory.rs"]
mod memory_report;
pub mod profile_diff;
pub mod questions;
pub mod regions;
pub mod why;
