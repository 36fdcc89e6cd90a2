// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts events in regions of a program. A region is the code between two counter reads.
//!
//! ```
//! use linerate_regions::{Options, Regions};
//!
//! let regions = Regions::new(&Options::default());
//! let parse = regions.region("parse");
//! // One per thread: opens the thread's counters and calibrates the measurement overhead.
//! let thread = regions.thread();
//! for packets in [3, 5] {
//!     let inside = thread.enter(parse);
//!     inside.add_units(packets);
//! }
//! let report = regions.report();
//! assert_eq!((report.regions[0].visits, report.regions[0].units), (2, 8));
//! ```
//!
//! Regions may be nested, and each thread has its own counts. If this machine has no counters, or
//! does not allow them to be read, only TSC ticks are measured, and the report says why.
//!
//! | read method | cost of an edge (entering or leaving) |
//! |---|---|
//! | no events, or none available | two to four reads of the timestamp counter |
//! | every event readable from user space | the same, and some tens of cycles per event |
//! | hardware events in registers enabled by a kernel module | the same, and a system call |
//! | otherwise: read(2) of the thread's group | a system call |
//!
//! For C: `include/linerate/regions.h` and `liblinerate_regions`, shared or static. For loops in
//! which two reads per packet would cost too much, [`Sampler`] reads every N packets and alternates
//! between event sets.
//!
//! Interpreting regions, printing reports (`linerate-report`) and starting programs are not part of
//! this crate.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod cost;
mod ffi;
mod figures;
mod regions;
mod sampler;
mod stay;
mod thread;
mod tree;
mod verdict;
mod writer;

pub use linerate_counters::reading::EVENTS_MAX;
pub use regions::{DEFAULT_EVENTS, Options, Regions, WriteError};
pub use sampler::{DumpRequest, Sample, Sampler, Schedule};
pub use thread::{Inside, Thread};
pub use tree::Region;
