// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of a packet path (stages, rings, mapping, line), and its TOML file format.
//!
//! [`check::read`] turns a file into a [`model::Path`] or reports all its errors. The keys are
//! defined in a single table, [`keys::FILE`], which checks, defaults, [schema](schema::schema) and
//! [help](help::help) derive from. This crate opens no files and knows no stages: callers pass in
//! the text and the [specifications of stages](spec::StageSpec).

#![forbid(unsafe_code)]

mod build;
pub mod check;
pub mod class;
pub mod costs;
mod fields;
pub mod help;
pub mod keys;
pub mod mapping;
pub mod model;
mod params;
pub mod parse;
pub mod plugins;
mod ports;
pub mod problem;
mod renamed;
pub mod schema;
pub mod spec;
pub mod suggest;
mod value;
pub mod write;
