// SPDX-License-Identifier: MIT OR Apache-2.0
//! The record's JSON.

mod counting;
mod ends;
mod envelope;
mod example;
mod foreign;
mod memory;
mod plan;
#[cfg(feature = "schema")]
mod schema;
mod upgrade;
#[cfg(feature = "schema")]
mod validator;
