// SPDX-License-Identifier: MIT OR Apache-2.0
//! The performance counters available on this machine: event names, counting, multiplexing,
//! metrics.
//!
//! Other crates make the system calls (`linerate-linux`), explain refusals and their fixes
//! (`linerate-doctor`), and print results (`linerate-report`).

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
