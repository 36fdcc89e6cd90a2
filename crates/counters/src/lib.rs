// SPDX-License-Identifier: MIT OR Apache-2.0
//! Performance counters: event names, counting, multiplexing, metrics.
//!
//! System calls are in `linerate-linux`, explanations for refused events in `linerate-doctor`, and
//! output in `linerate-report`.

pub mod catalog;
pub mod event;
mod formula;
pub mod known_loops;
pub mod metrics;
pub mod opener;
pub mod overflow;
pub mod reading;
pub mod refusal;
pub mod registers;
pub mod rotation;
pub mod scripted;
pub mod session;
pub mod suggest;
pub mod thread_group;
pub mod user;
