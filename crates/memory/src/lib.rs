// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures this machine's memory hierarchy as seen by loads.
//!
//! [`measure()`] runs the whole measurement and returns the record body. This crate measures;
//! `linerate-hierarchy` interprets the results.
//!
//! | part | module |
//! |---|---|
//! | how much memory to use, and why | [`limits`] |
//! | the memory itself, in small or huge pages | [`arena`] |
//! | chains in memory, and walks along them | [`chase`] |
//! | clean windows of at most 2 ms | [`window`] |
//! | latency vs. working-set size | [`curve`] |
//! | one line per page, compared with packed lines | [`translation`] |
//! | individual loads, and the clock's resolution | [`single`] |
//! | several chains in parallel | [`parallel`] |
//! | bandwidth, and latency under load | [`bandwidth`] |
//! | CPU time lost to other programs | [`noise`] |
//! | events during a chase | [`events`] |
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
