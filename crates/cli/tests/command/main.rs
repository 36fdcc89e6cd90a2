// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the whole program, started as a user would: output, exit status, files. Tests with
//! several workers let them share CPUs, so that every test runs on any machine. No test asserts a
//! time.
#![forbid(unsafe_code)]

mod appearance;
mod bad_input;
mod bounds;
mod branches;
mod bridge;
mod budget;
mod captures;
mod dissector;
mod doctor;
mod documents;
mod exchange;
mod explain;
mod files;
mod first_steps;
mod interrupt;
mod kernels;
mod memory;
mod new_stage;
mod odd_packets;
mod outputs;
mod placement;
mod plan;
mod predict;
mod profile;
mod records;
mod regions;
mod report;
mod rig;
mod rlp;
mod stat;
mod status;
mod stream;
mod tcp;
mod top;
#[path = "../../../record/tests/json/validator.rs"]
mod validator;
mod variants;
mod why;
