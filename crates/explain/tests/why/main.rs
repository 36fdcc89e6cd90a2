// SPDX-License-Identifier: MIT OR Apache-2.0
//! Observations of programs with a known bottleneck, and of those with none: what is found, what is
//! not, and that it rests on what was read.

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
