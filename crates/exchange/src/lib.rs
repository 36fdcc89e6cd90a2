// SPDX-License-Identifier: MIT OR Apache-2.0
//! Imports the output of other profilers as records, and exports records for other programs.
//!
//! - PROFILE_DUMP ver 2.0 of the Netra DPS profiler is read and written by [`profile_dump`];
//!   [`totals`] converts our own records to what a dump can hold.
//! - `perf stat -j`, `perf stat -x` and its plain text are read by [`perf_stat`], `show runtime` of
//!   VPP by [`vpp`].
//! - Comma-separated values and Prometheus text are written by [`table`], folded stacks, for flame
//!   graphs, by [`folded`]; profiles are written for other viewers by [`pprof`] and
//!   [`perf_script`].
//! - [`detect`] identifies the program that wrote a text.
//!
//! Readers keep valid lines and report the number of every invalid one: a damaged line does not
//! invalidate the file. Nothing is filled in. [`mod@derive`] computes metrics from the counts, the
//! same for every format.
//!
//! Left out: files (`cli` reads them), what a miss costs and what to do about it (`plan`).

#![forbid(unsafe_code)]

pub mod derive;
pub mod detect;
pub mod folded;
pub mod perf_script;
pub mod perf_stat;
pub mod pprof;
pub mod profile_dump;
pub mod slices;
pub mod table;
pub mod totals;
pub mod vpp;

use std::fmt;

/// Known properties of the processor that an input was measured on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Processor {
    /// GHz of its tick counter.
    pub clock_ghz: Option<f64>,
    /// Maximum instructions of a strand per tick; counts beyond it are invalid.
    pub instructions_per_tick: Option<f64>,
    /// Events by code.
    pub codes: Vec<EventCode>,
}

/// An event with its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventCode {
    /// The code, as programmed into the counter.
    pub code: u64,
    /// The name: `instructions`, `dc`.
    pub name: String,
    /// The processor's own name: `DC_miss`.
    pub native: String,
}

impl Processor {
    fn event(&self, code: u64) -> Option<&EventCode> {
        self.codes.iter().find(|event| event.code == code)
    }
}

/// The name of the instructions event, in every format.
pub const INSTRUCTIONS: &str = "instructions";

/// The name of the core cycles event.
pub const CYCLES: &str = "cycles";

/// The input had no usable data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NothingRead {
    /// The error and the fix.
    pub sentence: String,
    /// Line of the first fault, from 1; `None` if the fault is not in one line.
    pub line: Option<u64>,
}

impl fmt::Display for NothingRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "no usable data; line {line}: {}", self.sentence),
            None => write!(f, "no usable data: {}", self.sentence),
        }
    }
}

impl std::error::Error for NothingRead {}

/// The record has nothing that the format can represent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CannotWrite(String);

impl fmt::Display for CannotWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CannotWrite {}

/// Lines of a text with their numbers, from 1, without line endings.
fn numbered(text: &str) -> impl Iterator<Item = (u64, &str)> {
    (1..).zip(text.lines())
}
