// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts real commands that succeed, fail, or do not end, and running processes.

mod commands;
mod emulated;
mod hot;
mod outside;
mod rig;
mod running;
mod simulated;
mod values;
