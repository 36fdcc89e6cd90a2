// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the memory hierarchy of this machine as loads see it.
//!
//! [`measure()`] does all of it and returns the body of a record. This crate takes the times;
//! `linerate-hierarchy` interprets them.
//!
//! | part | module |
//! |---|---|
//! | how much memory may be taken, and why not more | [`limits`] |
//! | the memory itself, small and huge pages | [`arena`] |
//! | chains through it, and the loads along them | [`chase`] |
//! | 2 ms of undisturbed loads | [`window`] |
//! | curves | [`curve`] |
//! | one line per page against as many lines packed | [`translation`] |
//! | single loads, the timer's step | [`single`] |
//! | several chains side by side | [`parallel`] |
//! | bytes per second, and latency meanwhile | [`bandwidth`] |
//! | time that was taken away | [`noise`] |
//! | events of a chase | [`events`] |
//! | the last record, kept for other commands | [`profile`] |

pub mod arena;
pub mod bandwidth;
pub mod bench;
pub mod chase;
pub mod curve;
mod error;
pub mod events;
pub mod limits;
pub mod measure;
pub mod noise;
pub mod parallel;
pub mod profile;
pub mod single;
mod stated;
pub mod translation;
pub mod window;

pub use error::MemoryError;
pub use linerate_trial::Watch;
pub use measure::{Request, measure};
