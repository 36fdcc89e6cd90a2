// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers from a record.
//!
//! [`questions`] answers what people ask when packet software misses line rate, from the record of
//! a run, a tune or an import. Two of its parts are of use by themselves: [`budget`] computes
//! the per-packet budget at line rate, [`cpi`] where the cycles of an instruction may have gone.
//! [`classes`] knows the kinds of work of functions. [`why`] says what limits a program that was
//! observed from outside.
//!
//! Not here: other mappings (`linerate-plan`), simulated processors (`linerate-cmt`), printing.

#![forbid(unsafe_code)]

pub mod budget;
pub mod classes;
pub mod cpi;
#[cfg(test)]
#[path = "../../plan/tests/common/memory.rs"]
mod memory_report;
pub mod questions;
pub mod regions;
pub mod why;
