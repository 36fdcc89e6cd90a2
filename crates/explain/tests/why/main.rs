// SPDX-License-Identifier: MIT OR Apache-2.0
//! Observations of programs with a known bottleneck and of programs without: what is found, what is
//! not, and that findings are based on what was read.

mod actions;
mod arriving;
mod calls;
mod connections;
mod controls;
mod doubts;
mod example;
mod locks;
mod memory;
mod misled;
mod properties;
mod queues;
mod runtimes;
mod seeds;
mod sharing;
mod sleeping;
mod table;
mod unseen;
