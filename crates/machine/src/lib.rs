// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this machine is: processors, clocks, and who else uses them.
//!
//! | question | module |
//! |---|---|
//! | how long did that take, in ticks? and how long is a tick? | [`ticks`] |
//! | how many core cycles is a tick? | [`core_clock`] |
//! | which CPUs share a core, a cache? which to take first? | [`topology`] |
//! | do other programs use these CPUs right now? | [`idle`] |
//! | what does /proc/cpuinfo say? | [`cpuinfo`] |
//! | how much memory may this process take? | [`free_memory`] |
//! | which control groups limit this process? | [`groups`] |
//! | is there a hypervisor, an emulator? | [`mod@platform`] |
//! | what machine was this measured on? | [`mod@provenance`] |
//! | which processor is it, in its maker's numbers? | [`identity`] |
//!
//! Measured values come with an interval; what cannot be read or told is an [`Error`] that says
//! why. Nothing here changes a setting of the system. Functions that measure keep a CPU busy for
//! the time they state; run them on the thread whose CPU is meant, and not beside what is being
//! measured.

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
