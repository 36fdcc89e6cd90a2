// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the JSON form of records.

mod counting;
mod ends;
mod envelope;
mod example;
mod foreign;
mod memory;
mod newer;
mod plan;
#[cfg(feature = "schema")]
mod schema;
mod upgrade;
#[cfg(feature = "schema")]
mod validator;
