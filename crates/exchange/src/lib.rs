// SPDX-License-Identifier: MIT OR Apache-2.0
//! Imports other profilers' output as records, and exports records in other programs' formats.
//!
//! - PROFILE_DUMP ver 2.0 of the Netra DPS profiler is read and written by [`profile_dump`];
//!   [`totals`] converts our own records to the data that a dump can hold.
//! - The output of `perf stat`, as JSON (`-j`), with separators (`-x`) or as plain text, is read by
//!   [`perf_stat`], VPP's `show runtime` by [`vpp`], samples in the output of `perf script` by
//!   [`perf_samples`].
//! - Comma-separated values and Prometheus text are written by [`table`], folded stacks for flame
//!   graphs by [`folded`], and profiles for other viewers by [`pprof`] and [`perf_script`].
//! - [`detect`] identifies the program that produced a text.
//!
//! Readers keep valid lines and report every invalid line with its number, so that a damaged line
//! does not invalidate the file. Missing data is never guessed. [`mod@derive`] computes metrics
//! from the counts in the same way for every format.
//!
//! `cli` reads the files, and `explain` computes CPI stacks from the imported counts.

#![forbid(unsafe_code)]

pub mod derive;
pub mod detect;
pub mod folded;
mod perf;
pub mod perf_samples;
pub mod perf_script;
pub mod perf_stat;
pub mod pprof;
pub mod profile_dump;
pub mod slices;
pub mod table;
pub mod totals;
pub mod vpp;

use std::fmt;

/// Properties of the processor on which an input was measured, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Processor {
    /// Tick counter frequency in GHz.
    pub clock_ghz: Option<f64>,
    /// Maximum number of instructions per tick of a strand; higher counts are invalid.
    pub instructions_per_tick: Option<f64>,
    /// Events that the counters can count, with their codes.
    pub codes: Vec<EventCode>,
}

/// An event with its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventCode {
    /// Code that programs a counter to count the event.
    pub code: u64,
    /// Portable name: `instructions`, `dc`.
    pub name: String,
    /// Name in the processor's manual, such as `DC_miss`.
    pub native: String,
}

impl Processor {
    fn event(&self, code: u64) -> Option<&EventCode> {
        self.codes.iter().find(|event| event.code == code)
    }
}

/// Name of the event that counts instructions, in all input formats.
pub const INSTRUCTIONS: &str = "instructions";

/// Name of the core cycles event.
pub const CYCLES: &str = "cycles";

/// Error returned when the input has no usable data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NothingRead {
    /// Error message, with a fix if possible.
    pub sentence: String,
    /// Line of the first fault, starting at 1; `None` if the fault is not in a single line.
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

/// Error returned when the record contains nothing that the format can represent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CannotWrite(String);

impl fmt::Display for CannotWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CannotWrite {}

/// Iterates over the lines of a text with their numbers, starting at 1, without line endings.
fn numbered(text: &str) -> impl Iterator<Item = (u64, &str)> {
    (1..).zip(text.lines())
}
