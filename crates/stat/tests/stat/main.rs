// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counting real commands that end well, badly, or not at all, and counting what runs already.

mod commands;
mod rig;
mod running;
mod simulated;
mod values;
