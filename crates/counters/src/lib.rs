// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters, whatever this machine has of them.
//!
//! Left out: system calls (`linerate-linux`), why an event is refused in words and which command
//! changes that (`linerate-doctor`), printing (`linerate-report`).

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
