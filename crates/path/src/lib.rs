// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of a packet path: stages, rings, mapping, line; its TOML.
//!
//! [`check::read`] makes a [`model::Path`] of a file or tells everything that is wrong with it. The
//! keys of the file are one table, [`keys::FILE`], from which the check, the defaults, the
//! [schema](schema::schema) and the [help](help::help) come. Nothing here opens a file or knows a
//! stage: texts and [specifications of stages](spec::StageSpec) are handed in.

#![forbid(unsafe_code)]

mod build;
pub mod check;
pub mod costs;
mod fields;
pub mod help;
pub mod keys;
pub mod mapping;
pub mod model;
mod params;
pub mod parse;
pub mod problem;
mod renamed;
pub mod schema;
pub mod spec;
pub mod suggest;
mod value;
pub mod write;
