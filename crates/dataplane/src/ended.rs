// SPDX-License-Identifier: MIT OR Apache-2.0
//! A finished worker, as input to the report.

use crate::layout::Place;
use crate::meter::Readings;
use crate::replay::Replayed;
use crate::worker::Worker;
use linerate_record::run::CountedEvent;

/// A finished worker.
pub(crate) struct Ended<'g> {
    pub(crate) place: Place,
    pub(crate) worker: Worker<'g, 'g>,
    pub(crate) readings: Readings,
    /// CPU time of the whole run, including warm-up.
    pub(crate) cpu_ns: u64,
    /// Core cycles per tick, before and after the run, if measurable.
    pub(crate) clock: [Option<f64>; 2],
    /// Panic message, if the worker panicked.
    pub(crate) panic: Option<String>,
    /// Replayed kernel calls for each part: head, stages, tail; empty if not requested. `None` for
    /// a part without logged calls.
    pub(crate) kernels: Vec<Option<Vec<Replayed>>>,
    /// The counted events; empty if none were requested.
    pub(crate) counted: Vec<CountedEvent>,
}
