// SPDX-License-Identifier: MIT OR Apache-2.0
//! A packet path derived from another program's record: stages with their costs, and their
//! assignment to workers.
//!
//! ```text
//! regions of a program    each region a stage, without what its inner regions take
//! `show runtime` of VPP   each node a stage
//! perf stat               the program one stage; packets must be said
//! `why`                   each thread a stage
//! ```
//!
//! Threads with the same stages are replicas, and stages on several threads have no global state.
//! Missing information is assumed and noted: [`text()`] writes both into a file for `plan`.
//!
//! Left out: which stage follows which, where the record has no order; losses; the cost of rings.

mod read;
mod text;

pub use text::text;

use linerate_record::{Body, Record};
use std::fmt;

/// Maximum number of parts: the cheapest stages beyond it are combined.
const STAGES_MAX: usize = linerate_path::keys::MAX_STAGES;

/// Name of the combined stage.
const REST: &str = "rest";

/// A packet path derived from a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Sketch {
    /// Source of the figures.
    pub from: String,
    /// The stages, in the order of the record.
    pub stages: Vec<Part>,
    /// Threads with the same consecutive stages: number of stages and threads, in order.
    pub segments: Vec<(usize, u32)>,
    /// Measured packets per second; `None` if the record has no clock.
    pub packets_per_s: Option<f64>,
    /// Mean frame size in bytes, FCS included; `None` if sizes were not measured.
    pub frame_bytes: Option<f64>,
    /// Assumptions, a sentence each.
    pub notes: Vec<String>,
}

/// A stage derived from a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Its name: letters, digits, `-` and `_`.
    pub name: String,
    /// Nanoseconds per packet that reaches it.
    pub ns: f64,
    /// Share of the packets that reach it, above 0, at most 1.
    pub reach: f64,
    /// Instructions per packet that reaches it, if counted.
    pub instructions: Option<f64>,
    /// Threads observed in it.
    pub threads: u32,
}

impl Part {
    /// Nanoseconds per packet of the path.
    fn of_path_ns(&self) -> f64 {
        self.ns * self.reach
    }
}

impl Sketch {
    /// Nanoseconds per packet over all workers.
    pub fn ns_per_packet(&self) -> f64 {
        self.stages.iter().map(Part::of_path_ns).sum()
    }

    /// Instructions per packet over all workers, if every stage has them.
    pub fn instructions_per_packet(&self) -> Option<f64> {
        let each = self.stages.iter().map(|stage| Some(stage.instructions? * stage.reach));
        each.sum()
    }

    /// Capacity of its busiest workers in packets per second.
    pub fn capacity_per_s(&self) -> f64 {
        let mut rest = self.stages.iter();
        let busiest_ns = self.segments.iter().map(|(stages, replicas)| {
            let ns: f64 = rest.by_ref().take(*stages).map(Part::of_path_ns).sum();
            ns / f64::from(*replicas)
        });
        1e9 / busiest_ns.fold(f64::MIN_POSITIVE, f64::max)
    }

    /// Limits the number of stages: the cheapest are combined into one at the end.
    fn shortened(mut self) -> Self {
        if self.stages.len() <= STAGES_MAX {
            return self;
        }
        let mut by_cost: Vec<f64> = self.stages.iter().map(Part::of_path_ns).collect();
        by_cost.sort_by(|a, b| b.total_cmp(a));
        let least = by_cost[STAGES_MAX - 2];
        let (mut kept, others): (Vec<Part>, Vec<Part>) =
            self.stages.drain(..).partition(|stage| stage.of_path_ns() >= least);
        kept.truncate(STAGES_MAX - 1);
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

/// Values missing in the record that the user may give.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Known {
    /// Its tick rate in GHz.
    pub clock_ghz: Option<f64>,
    /// Packets handled during the measurement.
    pub packets: Option<f64>,
}

/// Reason why a record gives no sketch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSketch {
    /// It is of a run or tune: the file of its path has the stages.
    HasPath,
    /// It does not measure a packet path.
    OtherKind,
    /// The number of packets is unknown.
    Packets {
        /// Its wording.
        remedy: &'static str,
    },
    /// Times are in ticks of unknown length.
    Clock,
    /// No part of it has a time.
    Times {
        /// Reason, in the words of the record.
        reason: String,
    },
}

impl fmt::Display for NoSketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HasPath => f.write_str("a record of run: name its path file as well"),
            Self::OtherKind => f.write_str(
                "the record has no packet costs; use one of run, tune, regions, import or why",
            ),
            Self::Packets { remedy } => {
                write!(f, "the number of packets is unknown: {remedy}")
            }
            Self::Clock => f.write_str(
                "it counts ticks of unknown length: give --clock GHZ, or import it with --clock or \
                 --machine",
            ),
            Self::Times { reason } => write!(f, "no part of the record has a time ({reason})"),
        }
    }
}

impl std::error::Error for NoSketch {}

/// The packet path in a record; `file` names it.
///
/// # Errors
/// Missing values of the record.
pub fn sketch(record: &Record, file: &str, known: Known) -> Result<Sketch, NoSketch> {
    let clock_ghz = known.clock_ghz.or(record.provenance.ticks_per_s.map(|rate| rate / 1e9));
    let here = Known { clock_ghz, ..known };
    let sketch = match &record.body {
        Body::Regions(report) => read::regions(report, file, here),
        // Of ticks that another machine counted only its own clock says how long they are.
        Body::Strands(report) => read::strands(report, file, known),
        Body::Why(report) => read::why(report, file),
        Body::Run(_) | Body::Tune(_) => Err(NoSketch::HasPath),
        _ => Err(NoSketch::OtherKind),
    };
    sketch.map(Sketch::shortened)
}

#[cfg(test)]
mod tests;
