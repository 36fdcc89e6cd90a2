// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests path files through the public interface: reading, rejecting and writing them.

mod anything;
mod classes;
mod costs;
mod generate;
mod kinds;
mod mapping;
mod mistakes;
mod ports;
mod published;
mod read;
mod renamed;
#[path = "../../../record/tests/json/validator.rs"]
mod validator;
mod write;
