// SPDX-License-Identifier: MIT OR Apache-2.0
//! The main job: measure a packet path, explain it, predict other mappings, try them, keep the
//! best.
//!
//! ```text
//! measure    baseline <- the given mapping, or the nearest that fits the CPUs: one long run
//!            finding  <- diagnose(baseline); kernels that suit its calls better
//! calibrate  costs    <- of the stages, on the slowest CPU while all others work
//!            machine  <- what a ring and a burst cost, how the load divides
//! predict    mappings <- search all that the path allows, predict each
//! trial      rounds   <- baseline and the best contenders, in random order
//!                        (the baseline with its own kernels, all others with the kernels to try)
//!            verdict  <- keep the best contender that clearly beats the baseline, or the baseline
//!            tuned    <- one long run of what is kept
//! ```
//!
//! Each stage takes the result of the previous one: [`Measured`], [`Calibration`], [`Predicted`].
//! [`predict()`] sends no packets, and a tuning record contains its inputs: [`from_record`] starts
//! there. [`tune()`] runs the whole chain.
//!
//! Left out: reading files, printing, arguments. Predictions and verdicts come from `plan`.

#![forbid(unsafe_code)]

mod assign;
mod bench;
mod calibrate;
mod chain;
mod error;
mod home;
mod measure;
mod predict;
mod session;
mod stored;
mod trial;

pub use assign::{AssignError, assign};
pub use bench::kernels;
pub use calibrate::Calibration;
pub use chain::{Kept, Tuned, tune};
pub use error::TuneError;
pub use home::home;
pub use measure::Measured;
pub use predict::{Predicted, predict};
pub use session::{Request, Session};
pub use stored::{Lacking, from_record};
pub use trial::{Contested, Trial, is_within};
