// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurement record: units, samples, intervals, provenance and the JSON schema.
//!
//! Every command writes or reads a record, which is the only interface between the parts of
//! linerate. A record consists of measurements ([`Body`]) and their origin ([`Provenance`]).
//! Everything derived from these two is in [`mod@derive`] and not part of the record: figures for
//! users ([`Figure`], with unit, interval and evidence tier), lists for scripts, and warnings
//! ([`Warning`]).
//!
//! This crate does no I/O and reads no clock. Printing records for users is the job of
//! `linerate-report`.

#![forbid(unsafe_code)]

pub mod accuracy;
pub mod answers;
mod buckets;
pub mod budget;
mod dead_end;
pub mod derive;
pub mod doctor;
pub mod envelope;
pub mod figure;
pub mod finding;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod input;
pub mod interfaces;
pub mod kernels;
pub mod memory;
pub mod plan;
pub mod profile;
pub mod profile_diff;
pub mod provenance;
pub mod random;
pub mod regions;
pub mod run;
pub mod shell;
pub mod stat;
pub mod stats;
pub mod strands;
pub mod stream;
pub mod tally;
pub mod tcp;
pub mod tune;
pub mod units;
mod upgrade;
pub mod warning;
pub mod why;

pub use derive::Derive;
#[cfg(feature = "schema")]
pub use envelope::schema_json;
pub use envelope::{Body, ReadError, Record, WriteError};
pub use figure::{Figure, Figures, Scalar, Tier};
pub use provenance::Provenance;
pub use warning::Warning;

/// Serialises a number that must be finite. JSON has no infinities or NaN, and writing `null` would
/// suggest that the value was unreadable rather than miscalculated.
fn finite<S: serde::Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() {
        serializer.serialize_f64(*value)
    } else {
        Err(serde::ser::Error::custom(format_args!("{value} is not a finite number")))
    }
}

/// Serialises a list of numbers that must all be finite; see [`finite`].
fn finite_all<S: serde::Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    match values.iter().find(|value| !value.is_finite()) {
        Some(value) => finite(value, serializer),
        None => serializer.collect_seq(values),
    }
}
