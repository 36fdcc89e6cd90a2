// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counting real commands that succeed, fail, or do not end, and counting running processes.

mod commands;
mod rig;
mod running;
mod simulated;
mod values;
