// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of a packet path (stages, rings, mapping, line), and the TOML file that contains
//! it.
//!
//! [`check::read`] turns a file into a [`model::Path`] or reports all its errors. The keys of the
//! file are in one table, [`keys::FILE`], from which the check, the defaults, the
//! [schema](schema::schema) and the [help](help::help) are derived. This crate neither opens files
//! nor knows any stages: the text of a file and the [specifications of stages](spec::StageSpec) are
//! passed in.

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
