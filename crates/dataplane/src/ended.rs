// SPDX-License-Identifier: MIT OR Apache-2.0
//! A worker that has ended: all that the report is made of.

use crate::layout::Place;
use crate::meter::Readings;
use crate::replay::Replayed;
use crate::worker::Worker;
use linerate_record::run::CountedEvent;

/// A worker that has ended.
pub(crate) struct Ended<'g> {
    pub(crate) place: Place,
    pub(crate) worker: Worker<'g, 'g>,
    pub(crate) readings: Readings,
    /// CPU time of the whole run, including warm-up.
    pub(crate) cpu_ns: u64,
    /// Core cycles per tick before and after, where they could be measured.
    pub(crate) clock: [Option<f64>; 2],
    /// Message of the panic.
    pub(crate) panic: Option<String>,
    /// Kernel calls of each part: head, stages, tail; empty if not requested. `None` if nothing was
    /// logged.
    pub(crate) kernels: Vec<Option<Vec<Replayed>>>,
    /// Which events were counted; empty where none were asked for.
    pub(crate) counted: Vec<CountedEvent>,
}
