// SPDX-License-Identifier: MIT OR Apache-2.0
//! Observations of programs with a known bottleneck, and of programs with none: what is found, what
//! is not, and that the findings are based on what was read.

mod calls;
mod connections;
mod controls;
mod doubts;
mod example;
mod memory;
mod properties;
mod queues;
mod seeds;
mod sharing;
mod sleeping;
mod table;
