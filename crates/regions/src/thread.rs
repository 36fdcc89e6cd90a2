// SPDX-License-Identifier: MIT OR Apache-2.0
//! Enters and leaves regions. This code runs inside the measured program.

use crate::cost;
use crate::stay::account;
use crate::tree::{Log, Node, Outcome, Region};
use linerate_counters::reading::{Counts, EVENTS_MAX, Mark};
use linerate_counters::thread_group::ThreadGroup;
use linerate_linux::thread_id;
use linerate_machine::ticks::ticks;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// Maximum number of open regions per thread. Regions nested more deeply are not recorded, and the
/// report says so.
const DEPTH_MAX: usize = 64;

/// One thread's regions and counters, created in that thread with
/// [`Regions::thread`](crate::Regions::thread).
#[derive(Debug)]
pub struct Thread {
    counters: ThreadGroup,
    log: Arc<Log>,
    open: RefCell<Open>,
}

/// The stack of a thread's open regions, and all nodes (regions in their nesting context) entered
/// so far.
#[derive(Debug)]
struct Open {
    places: Vec<Place>,
    frames: Vec<Frame>,
    /// Number of visits begun so far, which is the serial number of the most recent frame.
    serial: u64,
}

/// A node of the thread's log, with its child nodes: for each region nested in it, the node's
/// index.
#[derive(Debug)]
struct Place {
    node: Arc<Node>,
    inner: Vec<(Region, usize)>,
}

/// A region that has been entered and not yet left.
#[derive(Debug)]
struct Frame {
    place: usize,
    serial: u64,
    ticks: u64,
    counts: Counts,
    mark: Mark,
}

/// Serial number of visits that are not recorded; no frame has this number.
const NOT_KEPT: u64 = 0;

/// Index of the root node, which represents the code outside all regions.
const OUTSIDE: usize = 0;

/// Guard for a visit to a region. Dropping it leaves the region, along with all regions entered
/// later that are still open.
#[derive(Debug)]
#[must_use = "the region ends immediately unless this guard is kept"]
pub struct Inside<'a> {
    thread: &'a Thread,
    serial: u64,
}

impl Inside<'_> {
    /// Adds units of work, such as packets, to the thread's innermost open region.
    #[inline]
    pub fn add_units(&self, units: u64) {
        self.thread.add_units(units);
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.thread.end(self.serial);
    }
}

impl Thread {
    /// Creates the calling thread's regions. `counters` are the counters that this thread has
    /// opened, `outcomes` has each event's tier or why the event is not counted, and `made` is the
    /// number of regions that the program has created. The caller must then calibrate the
    /// measurement overhead.
    pub(crate) fn new(counters: ThreadGroup, outcomes: &[Outcome], made: &Arc<AtomicU32>) -> Self {
        let log = Arc::new(Log::for_thread(thread_id(), &counters, outcomes, made));
        let (_, outside) =
            log.add(Region::OUTSIDE, None).expect("an empty log has room for a node");
        let places = vec![Place { node: outside, inner: Vec::new() }];
        let frames = Vec::with_capacity(DEPTH_MAX);
        Self { counters, log, open: RefCell::new(Open { places, frames, serial: NOT_KEPT }) }
    }

    /// Calibrates the measurement overhead. `pair` must enter and leave [`Region::CALIBRATION`] the
    /// way the program enters and leaves its own regions.
    pub(crate) fn calibrate(&self, pair: impl FnMut()) {
        let Some(node) = self.calibration_node() else { return };
        let cost = cost::measure(&self.counters, &node, pair);
        self.log.cost.get_or_init(|| cost);
        if let Some(now) = account(self.log.tid) {
            self.log.began.get_or_init(|| now);
        }
    }

    fn calibration_node(&self) -> Option<Arc<Node>> {
        let mut open = self.open.try_borrow_mut().ok()?;
        let place = open.place_of(Region::CALIBRATION, &self.log)?;
        Some(Arc::clone(&open.places[place].node))
    }

    pub(crate) fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Enters a region; dropping the returned guard leaves it. If the region is already open, the
    /// new visit is reported as nested in the open one.
    #[inline]
    pub fn enter(&self, region: Region) -> Inside<'_> {
        Inside { thread: self, serial: self.begin(region) }
    }

    /// Adds units of work, such as packets, to the innermost open region. Has no effect outside all
    /// regions.
    #[inline]
    pub fn add_units(&self, units: u64) {
        // The borrow fails in a signal handler that interrupted the entry or exit of a region;
        // nothing is recorded then.
        let Ok(open) = self.open.try_borrow() else { return };
        if let Some(frame) = open.frames.last() {
            open.places[frame.place].node.add_units(units);
        }
    }

    /// Enters a region and returns the visit's serial number. Everything else is done before
    /// reading the counters and, last, the clock, so that little of this function is measured.
    #[inline]
    pub(crate) fn begin(&self, region: Region) -> u64 {
        let Ok(mut open) = self.open.try_borrow_mut() else { return NOT_KEPT };
        let Some(place) = open.place_of(region, &self.log) else { return NOT_KEPT };
        open.serial += 1;
        let serial = open.serial;
        let (counts, mark) = ([0; EVENTS_MAX], Mark::default());
        open.frames.push(Frame { place, serial, ticks: 0, counts, mark });
        let frame = open.frames.last_mut().expect("a frame was just pushed");
        match self.counters.first(&mut frame.counts) {
            Some(mark) => frame.mark = mark,
            None => self.log.lose_counters(),
        }
        frame.ticks = ticks();
        serial
    }

    /// Ends the visit with this serial number and all visits nested in it. Has no effect if the
    /// visit has already ended.
    #[inline]
    pub(crate) fn end(&self, serial: u64) {
        let now = ticks();
        if serial == NOT_KEPT {
            return;
        }
        let mut counts = [0; EVENTS_MAX];
        let mark = self.counters.second(&mut counts);
        if mark.is_none() {
            self.log.lose_counters();
        }
        let Ok(mut open) = self.open.try_borrow_mut() else { return };
        let Open { places, frames, .. } = &mut *open;
        let Some(outermost) = frames.iter().rposition(|frame| frame.serial == serial) else {
            return;
        };
        for frame in frames.drain(outermost..) {
            let node = &places[frame.place].node;
            let events = self.counters.outcomes().len();
            let differences = counts.iter().zip(&frame.counts).take(events);
            match mark {
                Some(mark) if mark.switches != frame.mark.switches => node.add_left(),
                Some(mark) if mark.gaps != frame.mark.gaps => node.add_long(),
                _ => {}
            }
            // The subtraction saturates, since unserialized clock reads on two CPUs may differ by
            // some ticks.
            node.add_visit(
                now.saturating_sub(frame.ticks),
                differences.map(|(now, then)| now.wrapping_sub(*then)),
            );
        }
    }

    /// Ends the innermost open visit of `region`, and all visits nested in it. Returns whether
    /// `region` was open.
    #[inline]
    pub(crate) fn leave(&self, region: Region) -> bool {
        let serial = {
            let Ok(open) = self.open.try_borrow() else { return false };
            let mut frames = open.frames.iter().rev();
            frames.find(|f| open.places[f.place].node.region == region).map(|f| f.serial)
        };
        self.end(serial.unwrap_or(NOT_KEPT));
        serial.is_some()
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if let Some(now) = account(self.log.tid) {
            self.log.ended.get_or_init(|| now);
        }
    }
}

impl Open {
    /// Returns the index of the node for `region` within the innermost open region; `None` if no
    /// further node can be added.
    #[inline]
    fn place_of(&mut self, region: Region, log: &Log) -> Option<usize> {
        let here = self.frames.last().map_or(OUTSIDE, |frame| frame.place);
        if self.frames.len() >= DEPTH_MAX {
            self.places[here].node.add_lost();
            return None;
        }
        let known = self.places[here].inner.iter().find(|(inner, _)| *inner == region);
        known.map(|(_, place)| *place).or_else(|| self.add_place(region, here, log))
    }

    #[cold]
    fn add_place(&mut self, region: Region, here: usize, log: &Log) -> Option<usize> {
        if !log.is_made(region) {
            return None;
        }
        let Some((place, node)) = log.add(region, Some(here)) else {
            self.places[here].node.add_lost();
            return None;
        };
        // Each place is added together with its node, so both have the same index.
        self.places.push(Place { node, inner: Vec::new() });
        self.places[here].inner.push((region, place));
        Some(place)
    }
}
