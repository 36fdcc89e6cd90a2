// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurement record: units, samples, intervals, provenance and the JSON schema.

#![forbid(unsafe_code)]

pub mod figure;
pub mod provenance;
pub mod run;
pub mod stats;
pub mod tune;
pub mod units;

pub use figure::{Figure, Scalar, Tier};
pub use provenance::Provenance;
