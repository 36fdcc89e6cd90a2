// SPDX-License-Identifier: MIT OR Apache-2.0
//! A finished worker, as input to the report.

use crate::layout::Place;
use crate::meter::Readings;
use crate::replay::Replayed;
use crate::worker::Worker;
use linerate_record::run::CountedEvent;

/// A finished worker and its readings, from which the report is built.
pub(crate) struct Ended<'g> {
    pub(crate) place: Place,
    pub(crate) worker: Worker<'g, 'g>,
    pub(crate) readings: Readings,
    /// CPU time of the whole run, including warm-up.
    pub(crate) cpu_ns: u64,
    /// Core cycles per tick of the timestamp counter, measured before and after the run; `None` if
    /// not measurable.
    pub(crate) clock: [Option<f64>; 2],
    /// Panic message, if the worker panicked.
    pub(crate) panic: Option<String>,
    /// Replayed calls of kernels (checksum and copy routines) for each part: head, stages, tail.
    /// Empty if no replay was requested; `None` for a part without logged calls.
    pub(crate) kernels: Vec<Option<Vec<Replayed>>>,
    /// Hardware events requested for this worker, each with the reason if it could not be counted;
    /// empty if none were requested.
    pub(crate) counted: Vec<CountedEvent>,
}
