// SPDX-License-Identifier: MIT OR Apache-2.0
//! A packet path derived from another program's record: stages with their costs, and their
//! assignment to workers.
//!
//! ```text
//! regions of a program    each region is a stage, without the time of its inner regions
//! `show runtime` of VPP   each node is a stage
//! perf stat               the program is one stage; the number of packets must be given
//! `why`                   each group of threads with the same name is a stage
//! ```
//!
//! Threads with the same stages are taken as replicas, and stages that run on several threads are
//! assumed to have no global state. Missing information is assumed and noted; [`text()`] writes the
//! stages and the notes into a path file for `plan`.
//!
//! A sketch does not contain packet losses or ring costs, nor the order of the stages where the
//! record has none.

mod read;
mod text;

pub use text::text;

use linerate_record::{Body, Record};
use std::fmt;

/// Maximum number of stages in a sketch. If a record has more, the cheapest are combined into one.
const STAGES_MAX: usize = linerate_path::keys::MAX_STAGES;

/// Name of the stage into which the cheapest stages are combined.
const REST: &str = "rest";

/// A packet path derived from a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Sketch {
    /// Source of the figures, in words.
    pub from: String,
    /// The stages, in the order in which the record has them.
    pub stages: Vec<Part>,
    /// Segments in order: the number of consecutive stages, and the number of threads that run
    /// them.
    pub segments: Vec<(usize, u32)>,
    /// Measured packets per second; `None` if the record has no clock.
    pub packets_per_s: Option<f64>,
    /// Mean frame size in bytes, FCS included; `None` if sizes were not measured.
    pub frame_bytes: Option<f64>,
    /// Assumptions, one sentence each.
    pub notes: Vec<String>,
}

/// A stage derived from a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Stage name: letters, digits, `-` and `_`.
    pub name: String,
    /// Nanoseconds per packet that reaches the stage.
    pub ns: f64,
    /// Share of the packets that reach the stage, above 0 and at most 1.
    pub reach: f64,
    /// Instructions per packet that reaches the stage, if counted.
    pub instructions: Option<f64>,
    /// Number of threads observed in the stage.
    pub threads: u32,
}

impl Part {
    /// Returns the stage's nanoseconds per packet entering the path.
    fn of_path_ns(&self) -> f64 {
        self.ns * self.reach
    }
}

impl Sketch {
    /// Returns the nanoseconds per packet entering the path, summed over all stages.
    pub fn ns_per_packet(&self) -> f64 {
        self.stages.iter().map(Part::of_path_ns).sum()
    }

    /// Returns the instructions per packet entering the path, summed over all stages; `None` if a
    /// stage has no count.
    pub fn instructions_per_packet(&self) -> Option<f64> {
        let each = self.stages.iter().map(|stage| Some(stage.instructions? * stage.reach));
        each.sum()
    }

    /// Returns the capacity of the sketch's busiest workers in packets per second.
    pub fn capacity_per_s(&self) -> f64 {
        let mut rest = self.stages.iter();
        let busiest_ns = self.segments.iter().map(|(stages, replicas)| {
            let ns: f64 = rest.by_ref().take(*stages).map(Part::of_path_ns).sum();
            ns / f64::from(*replicas)
        });
        1e9 / busiest_ns.fold(f64::MIN_POSITIVE, f64::max)
    }

    /// Limits the number of stages to [`STAGES_MAX`] by combining the cheapest into one at the end.
    fn shortened(mut self) -> Self {
        if self.stages.len() <= STAGES_MAX {
            return self;
        }
        // Stages of equal cost are kept in order.
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

/// Values missing from the record that the user may supply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Known {
    /// Tick rate of the record in GHz.
    pub clock_ghz: Option<f64>,
    /// Number of packets handled during the measurement.
    pub packets: Option<f64>,
}

/// Reason why no sketch can be derived from a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSketch {
    /// The record is of a `run` or `tune`, whose path file already has the stages.
    HasPath,
    /// The record does not measure a packet path.
    OtherKind,
    /// The number of packets is unknown.
    Packets {
        /// Why the number is unknown, or how to supply it, in words.
        remedy: &'static str,
    },
    /// Times are in ticks of unknown length.
    Clock,
    /// No part of the record has a time.
    Times {
        /// The reason as given in the record.
        reason: String,
    },
}

impl fmt::Display for NoSketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HasPath => f.write_str("a record of run also needs its path file"),
            Self::OtherKind => f.write_str(
                "the record has no packet costs; use one of run, tune, regions, import or why",
            ),
            Self::Packets { remedy } => {
                write!(f, "the number of packets is unknown: {remedy}")
            }
            Self::Clock => f.write_str(
                "the record counts ticks of unknown length: give --clock GHZ, or import it with \
                 --clock or --machine",
            ),
            Self::Times { reason } => write!(f, "nothing in the record is timed ({reason})"),
        }
    }
}

impl std::error::Error for NoSketch {}

/// Derives the packet path from a record. `file` is the name of the record, and `known` has the
/// values that the user supplied.
///
/// # Errors
/// The record does not measure a packet path, or values are missing from it.
pub fn sketch(record: &Record, file: &str, known: Known) -> Result<Sketch, NoSketch> {
    let clock_ghz = known.clock_ghz.or(record.provenance.ticks_per_s.map(|rate| rate / 1e9));
    let here = Known { clock_ghz, ..known };
    let sketch = match &record.body {
        Body::Regions(report) => read::regions(report, file, here),
        // The length of ticks counted on another machine is known only from that machine's clock.
        Body::Strands(report) => read::strands(report, file, known),
        Body::Why(report) => read::why(report, file),
        Body::Run(_) | Body::Tune(_) => Err(NoSketch::HasPath),
        _ => Err(NoSketch::OtherKind),
    };
    sketch.map(Sketch::shortened)
}

#[cfg(test)]
mod tests;
