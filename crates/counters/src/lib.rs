// SPDX-License-Identifier: MIT OR Apache-2.0
//! The performance counters available on this machine.
//!
//! Not here: system calls (`linerate-linux`), explanations of and fixes for refusals
//! (`linerate-doctor`), printing (`linerate-report`).

pub mod catalog;
pub mod event;
mod formula;
pub mod metrics;
pub mod opener;
pub mod reading;
pub mod refusal;
pub mod registers;
pub mod rotation;
pub mod scripted;
pub mod session;
pub mod suggest;
pub mod thread_group;
pub mod user;
