// SPDX-License-Identifier: MIT OR Apache-2.0
//! A packet path derived from a record of another program: stages, their costs, and their
//! assignment to workers.
//!
//! ```text
//! regions of a program    each region is a stage, excluding the time of nested regions
//! `show runtime` of VPP   each node is a stage
//! perf stat               the program is one stage; the number of packets must be given
//! `why`                   threads whose names differ only in a number form a stage
//! ```
//!
//! Threads with the same stages are treated as replicas, and stages that run on several threads are
//! assumed to have no global state. Values missing from the record are assumed, and each assumption
//! is noted; [`text()`] writes stages and notes to a path file for `plan`.
//!
//! A sketch contains neither packet losses nor ring costs, and orders its stages only if the record
//! does.

mod read;
mod text;

pub use text::{assumptions, text};

use linerate_record::{Body, Record};
use std::fmt;

/// Maximum number of stages in a sketch. If a record has more, the cheapest ones are combined.
const STAGES_MAX: usize = linerate_path::keys::MAX_STAGES;

/// FCS size in bytes. Frame sizes in path files and records of `why` do not include the FCS.
const FCS_BYTES: u32 = 4;

/// Name of the stage into which the cheapest ones are combined.
const REST: &str = "rest";

/// A packet path derived from a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Sketch {
    /// Source of the figures, in words.
    pub from: String,
    /// Stages, in record order.
    pub stages: Vec<Part>,
    /// Segments in order: number of consecutive stages, and number of threads running them.
    pub segments: Vec<(usize, u32)>,
    /// Measured packets per second; `None` if the record has no packet rate.
    pub packets_per_s: Option<f64>,
    /// Mean frame size in bytes, FCS included; `None` if not measured.
    pub frame_bytes: Option<f64>,
    /// Assumptions, one sentence each.
    pub notes: Vec<String>,
}

/// A stage derived from a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Stage name: letters, digits, `-` and `_`.
    pub name: String,
    /// Nanoseconds per packet reaching the stage.
    pub ns: f64,
    /// Fraction of packets that reach the stage, above 0 and at most 1.
    pub reach: f64,
    /// Instructions per packet reaching the stage, if counted.
    pub instructions: Option<f64>,
    /// Number of threads that were seen executing the stage.
    pub threads: u32,
}

impl Part {
    /// Returns the stage's nanoseconds per packet entering the path.
    fn of_path_ns(&self) -> f64 {
        self.ns * self.reach
    }
}

impl Sketch {
    /// Returns nanoseconds per packet entering the path, over all stages.
    pub fn ns_per_packet(&self) -> f64 {
        self.stages.iter().map(Part::of_path_ns).sum()
    }

    /// Returns instructions per packet entering the path, over all stages; `None` if a stage has no
    /// count.
    pub fn instructions_per_packet(&self) -> Option<f64> {
        let each = self.stages.iter().map(|stage| Some(stage.instructions? * stage.reach));
        each.sum()
    }

    /// Returns the capacity of the busiest workers, in packets per second.
    pub fn capacity_per_s(&self) -> f64 {
        let mut rest = self.stages.iter();
        let busiest_ns = self.segments.iter().map(|(stages, replicas)| {
            let ns: f64 = rest.by_ref().take(*stages).map(Part::of_path_ns).sum();
            ns / f64::from(*replicas)
        });
        1e9 / busiest_ns.fold(f64::MIN_POSITIVE, f64::max)
    }

    /// Limits the number of stages to [`STAGES_MAX`] by combining the cheapest ones into a last
    /// stage.
    fn shortened(mut self) -> Self {
        if self.stages.len() <= STAGES_MAX {
            return self;
        }
        // Keep stages of equal cost in order.
        let mut by_cost: Vec<usize> = (0..self.stages.len()).collect();
        let cost = |index: &usize| self.stages[*index].of_path_ns();
        by_cost.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
        by_cost.truncate(STAGES_MAX - 1);
        let stages = self.stages.drain(..).enumerate();
        let (kept, others): (Vec<_>, Vec<_>) =
            stages.partition(|(index, _)| by_cost.contains(index));
        let without_index = |stages: Vec<(usize, Part)>| stages.into_iter().map(|(_, part)| part);
        let mut kept: Vec<Part> = without_index(kept).collect();
        let others: Vec<Part> = without_index(others).collect();
        let threads = others.iter().map(|one| one.threads).max().unwrap_or(1);
        self.notes.push(format!(
            "the {} cheapest stages are combined into `{REST}` at the end",
            others.len()
        ));
        kept.push(Part {
            name: REST.to_owned(),
            ns: others.iter().map(Part::of_path_ns).sum(),
            reach: 1.0,
            instructions: others.iter().map(|one| Some(one.instructions? * one.reach)).sum(),
            threads,
        });
        let replicas = kept.iter().map(|one| one.threads).max().unwrap_or(1);
        self.segments = vec![(kept.len(), replicas)];
        self.stages = kept;
        self
    }
}

/// Values missing from a record that users can supply on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Known {
    /// Rate of the ticks in the record, in GHz.
    pub clock_ghz: Option<f64>,
    /// Packets handled during the measurement.
    pub packets: Option<f64>,
}

/// Error returned when a record does not yield a sketch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSketch {
    /// The record is from `run` or `tune`, so a path file with the stages already exists.
    HasPath,
    /// The record does not measure a packet path.
    OtherKind,
    /// The number of packets is unknown.
    Packets {
        /// Why the number is unknown, or how to supply it.
        remedy: &'static str,
    },
    /// Times are in ticks of unknown length.
    Clock,
    /// The record contains no usable times.
    Times {
        /// Why there are no usable times.
        reason: String,
    },
}

impl fmt::Display for NoSketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HasPath => {
                f.write_str("with a run or tune record, also give the path file it was made with")
            }
            Self::OtherKind => f.write_str(
                "the record has no packet costs; use a run, tune, regions, import or why record",
            ),
            Self::Packets { remedy } => {
                write!(f, "the number of packets is unknown: {remedy}")
            }
            Self::Clock => f.write_str(
                "the record's times are in ticks of unknown length: give --clock GHZ here, or \
                 repeat the import with --clock or --machine",
            ),
            Self::Times { reason } => write!(f, "the record contains no usable times ({reason})"),
        }
    }
}

impl std::error::Error for NoSketch {}

/// Derives a packet path from a record. `file` is the record's name, and `known` holds the values
/// supplied by the user.
///
/// # Errors
/// Returns an error if the record does not measure a packet path, or lacks required values.
pub fn sketch(record: &Record, file: &str, known: Known) -> Result<Sketch, NoSketch> {
    let clock_ghz = known.clock_ghz.or(record.provenance.ticks_per_s.map(|rate| rate / 1e9));
    let here = Known { clock_ghz, ..known };
    let sketch = match &record.body {
        Body::Regions(report) => read::regions(report, file, here),
        // Only the clock of the machine that counted ticks determines their length.
        Body::Strands(report) => read::strands(report, file, known),
        Body::Why(report) => read::why(report, file, known),
        Body::Run(_) | Body::Tune(_) => Err(NoSketch::HasPath),
        _ => Err(NoSketch::OtherKind),
    };
    sketch.map(Sketch::shortened)
}

#[cfg(test)]
mod tests;
