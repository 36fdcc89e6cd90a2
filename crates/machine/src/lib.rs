// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes this machine: its processors, its clocks, and what else is using them.
//!
//! | question | module |
//! |---|---|
//! | how long did that take, in ticks? and how long is a tick? | [`ticks`] |
//! | how many core cycles is a tick? | [`core_clock`] |
//! | which CPUs share a core, a cache? which to take first? | [`topology`] |
//! | do other programs use these CPUs right now? | [`idle`] |
//! | contents of /proc/cpuinfo | [`cpuinfo`] |
//! | how much memory may this process take? | [`free_memory`] |
//! | which control groups limit this process? | [`groups`] |
//! | is there a hypervisor, an emulator? | [`mod@platform`] |
//! | what machine was this measured on? | [`mod@provenance`] |
//! | which processor is it, in its maker's numbers? | [`identity`] |
//!
//! Every measured value has an interval. For a value that cannot be read or determined, there is an
//! [`Error`] with the reason. This crate does not change system settings. Functions that measure
//! keep a CPU busy for the stated time; run them on the thread whose CPU is to be measured, and not
//! during another measurement.

pub mod core_clock;
#[cfg(target_arch = "x86_64")]
mod cpuid;
pub mod cpuinfo;
mod error;
mod files;
pub mod free_memory;
pub mod groups;
pub mod identity;
pub mod idle;
pub mod platform;
pub mod provenance;
pub mod ticks;
pub mod topology;

pub use error::Error;
pub use files::{Root, format_cpu_list, name_cpus, parse_cpu, parse_cpu_list, parse_cpus};
pub use platform::{Platform, platform};
pub use provenance::provenance;
