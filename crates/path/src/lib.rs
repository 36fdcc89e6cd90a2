// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of a packet path: stages, rings, mapping, line; its TOML.

#![forbid(unsafe_code)]

pub mod model;
pub mod spec;
