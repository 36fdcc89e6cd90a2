// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests findings on observations of programs with and without a known bottleneck: what is found,
//! what is not, and that findings use only data that was read.

mod actions;
mod arriving;
mod attempts;
mod avoidable;
mod background;
mod brief;
mod calls;
mod connections;
mod controls;
mod datagrams;
mod doubts;
mod elsewhere;
mod example;
mod flows;
mod handlers;
mod kernel;
mod ledger;
mod locks;
mod losses;
mod memory;
mod misled;
mod one_request;
mod others;
mod parts;
mod properties;
mod queues;
mod refused;
mod remarks;
mod runtimes;
mod seeds;
mod segments;
mod servers;
mod sharing;
mod sleeping;
mod table;
mod uncounted;
mod unseen;
mod waiting;
