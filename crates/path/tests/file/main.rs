// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file that describes a path, from outside: what is read, what is refused, what is written.

mod anything;
mod costs;
mod generate;
mod kinds;
mod mapping;
mod mistakes;
mod published;
mod read;
mod renamed;
#[path = "../../../record/tests/json/validator.rs"]
mod validator;
mod write;
