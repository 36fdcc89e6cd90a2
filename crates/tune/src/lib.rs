// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tunes a packet path: measures it, explains its bottleneck, predicts other mappings, tries them,
//! and keeps the best.
//!
//! ```text
//! measure    baseline <- the given mapping, or the nearest that fits the CPUs: one long run
//!            finding  <- diagnose(baseline); find kernels that are faster for its calls
//! calibrate  costs    <- of the stages, on the slowest CPU while all others are busy
//!            machine  <- the costs of a ring and of a burst, and how flows divide among replicas
//! predict    mappings <- search all that the path allows, predict each
//! trial      rounds   <- baseline and the best contenders, in random order
//!                        (the baseline with its own kernels, all others with the kernels to try)
//!            verdict  <- keep the best contender that clearly beats the baseline; the baseline, if
//!                        there is none or if it reaches line rate and nothing asks for more
//!            tuned    <- one long run of the kept mapping
//! idle       policy   <- if the path has a rate: proposed for the load in that run
//!            verdict  <- keep it if it saves CPU time compared with polling, in random order
//! ```
//!
//! Each step uses the results of the previous ones: [`Measured`], [`Calibration`], [`Predicted`].
//! [`predict()`] sends no packets, and its inputs are part of tuning records, so [`from_record`]
//! can repeat the predictions. [`tune()`] runs the whole chain.
//!
//! This crate does not read files, print reports or parse arguments. Predictions and verdicts come
//! from the crate `plan`.

#![forbid(unsafe_code)]

mod assign;
mod bench;
mod calibrate;
mod chain;
mod error;
mod home;
mod idle;
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
