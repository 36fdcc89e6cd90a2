// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures this machine's memory hierarchy as seen by loads.
//!
//! [`measure()`] runs all parts of the measurement and returns the body of a record. This crate
//! measures; `linerate-hierarchy` interprets the results.
//!
//! | part | module |
//! |---|---|
//! | how much memory to use, and the reason for the limit | [`limits`] |
//! | the memory itself, small and huge pages | [`arena`] |
//! | chains through it, and the loads along them | [`chase`] |
//! | 2 ms of undisturbed loads | [`window`] |
//! | curves | [`curve`] |
//! | one line per page, compared with as many packed lines | [`translation`] |
//! | single loads, the timer's step | [`single`] |
//! | several chains in parallel | [`parallel`] |
//! | bytes per second, and latency meanwhile | [`bandwidth`] |
//! | CPU time lost to other programs | [`noise`] |
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
