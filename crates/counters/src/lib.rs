// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters, whatever this machine has of them.
//!
//! Left out: system calls (`linerate-linux`), printing (`linerate-report`).

pub mod event;
pub mod opener;
pub mod refusal;
pub mod stat;
pub mod user;
