// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of a worker after the run, from which the report is built.

use crate::layout::Place;
use crate::meter::Readings;
use crate::replay::Replayed;
use crate::worker::Worker;
use linerate_record::run::{CountedEvent, FailureKind};

/// A worker whose thread has ended, with the readings of its meter.
pub(crate) struct Ended<'g> {
    pub(crate) place: Place,
    pub(crate) worker: Worker<'g, 'g>,
    pub(crate) readings: Readings,
    /// CPU time of the worker's thread over the whole run, including warm-up, in nanoseconds.
    pub(crate) cpu_ns: u64,
    /// Core cycles per tick of the timestamp counter, measured before and after the run; `None` if
    /// the measurement failed.
    pub(crate) clock: [Option<f64>; 2],
    /// How a stage of the worker failed, and its message; `None` if none failed.
    pub(crate) failure: Option<(FailureKind, String)>,
    /// Replay results of kernel calls (checksum and copy routines), by part: head, stages, tail.
    /// Empty unless replay was requested; `None` for a part without logged calls.
    pub(crate) kernels: Vec<Option<Vec<Replayed>>>,
    /// Hardware events requested for this worker, possibly none. Those that could not be counted
    /// have a reason.
    pub(crate) counted: Vec<CountedEvent>,
}
