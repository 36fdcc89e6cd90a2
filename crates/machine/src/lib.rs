// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes this machine: its processors, its clocks, and who is using them.
//!
//! | subject | module |
//! |---|---|
//! | timestamp counter: time spans, ticks per second | [`ticks`] |
//! | core cycles per tick | [`core_clock`] |
//! | CPUs that share a core or a cache, and the order in which to use them | [`topology`] |
//! | CPUs of different types | [`core_kinds`] |
//! | time of each CPU by state, from /proc/stat | [`cpu_time`] |
//! | CPU load from other programs | [`idle`] |
//! | contents of /proc/cpuinfo | [`cpuinfo`] |
//! | memory that this process may allocate | [`free_memory`] |
//! | control groups and their limits | [`groups`] |
//! | CPU time lost to the hypervisor and to CPU quotas | [`lost_time`] |
//! | hypervisor or emulator below the kernel | [`mod@platform`] |
//! | description of the machine for records | [`mod@provenance`] |
//! | processor identification by vendor numbers | [`identity`] |
//!
//! Most measured values have a confidence interval. A value that cannot be read or determined is an
//! [`Error`] with the reason. This crate does not change system settings. Functions that measure
//! keep a CPU busy for the time given in their description; run them on the thread whose CPU is to
//! be measured, and not during another measurement.

pub mod core_clock;
pub mod core_kinds;
pub mod cpu_time;
#[cfg(target_arch = "x86_64")]
mod cpuid;
pub mod cpuinfo;
mod error;
mod files;
pub mod free_memory;
pub mod groups;
pub mod identity;
pub mod idle;
pub mod lost_time;
pub mod platform;
pub mod provenance;
pub mod ticks;
pub mod topology;

pub use error::Error;
pub use files::{Root, format_cpu_list, name_cpus, parse_cpu, parse_cpu_list, parse_cpus};
pub use platform::{Platform, platform};
pub use provenance::provenance;
