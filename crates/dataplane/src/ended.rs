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
    /// Processor time of the whole run, warming up included.
    pub(crate) cpu_ns: u64,
    /// Core cycles per tick before and after, where they could be measured.
    pub(crate) clock: [Option<f64>; 2],
    /// What a panic said.
    pub(crate) panic: Option<String>,
    /// What the kernels did for each part: head, stages, tail; empty where that was not asked for.
    /// `None` where nothing was logged.
    pub(crate) kernels: Vec<Option<Vec<Replayed>>>,
    /// Which events were counted; empty where none were asked for.
    pub(crate) counted: Vec<CountedEvent>,
}
