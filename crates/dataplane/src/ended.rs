// SPDX-License-Identifier: MIT OR Apache-2.0
//! A finished worker, the input of the report.

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
    /// Core cycles per tick before and after the run, if measurable.
    pub(crate) clock: [Option<f64>; 2],
    /// Message of the panic.
    pub(crate) panic: Option<String>,
    /// Kernel calls of each part: head, stages, tail; empty if not requested. `None` without logged
    /// calls.
    pub(crate) kernels: Vec<Option<Vec<Replayed>>>,
    /// Events counted; empty if none were requested.
    pub(crate) counted: Vec<CountedEvent>,
}
