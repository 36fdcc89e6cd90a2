// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread's data on its regions: written by that thread, readable by any thread at any time.
//!
//! Every number has one writer, so that adding to it is a load and a store. A reader may find a
//! visit counted whose ticks are still missing, or the reverse: for a running thread, numbers are
//! off by at most one visit.

use linerate_counters::reading::{Counts, EVENTS_MAX};
use linerate_counters::thread_group::ThreadGroup;
use linerate_doctor::refusal::Explanation;
use linerate_record::Tier;
use linerate_record::stats::Estimate;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A region of a program, created by [`Regions::region`](crate::Regions::region); meaningless to
/// other [`Regions`](crate::Regions).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region(pub(crate) u32);

impl Region {
    /// The root around all regions.
    pub(crate) const OUTSIDE: Self = Self(u32::MAX);
    /// The node for calibrating the overhead.
    pub(crate) const CALIBRATION: Self = Self(u32::MAX - 1);
}

/// The kernel's accounting of a thread at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    pub(crate) ticks: u64,
    pub(crate) on_processor_ns: u64,
    pub(crate) waited_ns: Option<u64>,
    pub(crate) switches: Option<u64>,
}

/// Reading of an empty region, and its total cost.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cost {
    /// Reading of an empty region.
    pub(crate) inside: Amount,
    /// Total cost of entry and exit to the enclosing region.
    pub(crate) pair: Amount,
}

/// Ticks, and the count of every event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Amount {
    pub(crate) ticks: Estimate,
    pub(crate) counts: [Estimate; EVENTS_MAX],
}

/// Evidence tier of an event, or the reason why it is not counted.
pub(crate) type Outcome = Result<Tier, Explanation>;

/// A region in the context of the regions that were open when it was entered.
#[derive(Debug)]
pub(crate) struct Node {
    /// Region of this node.
    pub(crate) region: Region,
    /// Parent node; `None` at the root.
    pub(crate) parent: Option<usize>,
    visits: AtomicU64,
    units: AtomicU64,
    ticks: AtomicU64,
    counts: [AtomicU64; EVENTS_MAX],
    left: AtomicU64,
    long: AtomicU64,
    lost: AtomicU64,
}

/// The totals of a node at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Number of completed visits.
    pub(crate) visits: u64,
    /// Units of work reported in the region.
    pub(crate) units: u64,
    /// Ticks between entry and exit, summed over all visits.
    pub(crate) ticks: u64,
    /// Event counts between entry and exit, summed over all visits.
    pub(crate) counts: Counts,
    /// Visits in which the thread left its CPU, so that registers also counted other threads. Like
    /// the next field, only recorded if events are read from registers.
    pub(crate) left: u64,
    /// Visits in which registers went unread for too long.
    pub(crate) long: u64,
    /// Visits to nested regions that were dropped because of the limits of [`Log`].
    pub(crate) lost: u64,
}

fn add(to: &AtomicU64, n: u64) {
    to.store(to.load(Relaxed).wrapping_add(n), Relaxed);
}

impl Node {
    fn new(region: Region, parent: Option<usize>) -> Self {
        let zero = AtomicU64::default;
        Self {
            region,
            parent,
            visits: zero(),
            units: zero(),
            ticks: zero(),
            counts: Default::default(),
            left: zero(),
            long: zero(),
            lost: zero(),
        }
    }

    /// Adds a visit when the thread leaves the region. `events`: number of counts.
    #[inline]
    pub(crate) fn add_visit(&self, ticks: u64, counts: impl Iterator<Item = u64>) {
        add(&self.visits, 1);
        add(&self.ticks, ticks);
        for (total, count) in self.counts.iter().zip(counts) {
            add(total, count);
        }
    }

    /// Adds units of work that the thread did in the region.
    #[inline]
    pub(crate) fn add_units(&self, units: u64) {
        add(&self.units, units);
    }

    /// Notes that registers also counted other threads in the visit being added.
    #[cold]
    pub(crate) fn add_left(&self) {
        add(&self.left, 1);
    }

    /// Notes that registers went unread for too long in the visit being added.
    #[cold]
    pub(crate) fn add_long(&self) {
        add(&self.long, 1);
    }

    /// Notes that the thread entered a nested region for which there is no room.
    pub(crate) fn add_lost(&self) {
        add(&self.lost, 1);
    }

    /// Returns the current totals. A reader that was preempted between two reads starts over.
    pub(crate) fn totals(&self) -> Totals {
        const TIMES: usize = 16;
        let mut totals = self.read();
        for _ in 1..TIMES {
            if totals.visits == self.visits.load(Relaxed) {
                break;
            }
            totals = self.read();
        }
        totals
    }

    fn read(&self) -> Totals {
        Totals {
            visits: self.visits.load(Relaxed),
            units: self.units.load(Relaxed),
            ticks: self.ticks.load(Relaxed),
            counts: std::array::from_fn(|event| self.counts[event].load(Relaxed)),
            left: self.left.load(Relaxed),
            long: self.long.load(Relaxed),
            lost: self.lost.load(Relaxed),
        }
    }
}

/// All data on one thread.
#[derive(Debug)]
pub(crate) struct Log {
    /// Number of the thread.
    pub(crate) tid: u32,
    /// By event: its evidence tier, or the reason why it is not counted.
    pub(crate) outcomes: Vec<Outcome>,
    /// By event: whether it is read from registers.
    pub(crate) registers: Vec<bool>,
    /// Maximum time between register reads, in ms.
    pub(crate) apart_ms: u64,
    /// Read method.
    pub(crate) reading: &'static str,
    /// Measurement overhead, once calibrated.
    pub(crate) cost: OnceLock<Cost>,
    /// Accounting at the time from which the first region could begin.
    pub(crate) began: OnceLock<Account>,
    /// Accounting at the time the last region ended; `None` while the thread counts.
    pub(crate) ended: OnceLock<Account>,
    /// Number of regions created by the program.
    made: Arc<AtomicU32>,
    nodes: Mutex<Vec<Arc<Node>>>,
    has_lost_counters: AtomicBool,
}

/// Maximum number of nodes per thread. A program that enters regions recursively has one node per
/// depth and path.
const NODES_MAX: usize = 4096;

impl Log {
    /// Creates a log for the thread with this ID, which counts with `counters`; `made`: number of
    /// regions created by the program.
    pub(crate) fn for_thread(
        tid: u32,
        counters: &ThreadGroup,
        outcomes: &[Outcome],
        made: &Arc<AtomicU32>,
    ) -> Self {
        let registers = (0..outcomes.len()).map(|place| counters.is_by_registers(place)).collect();
        let apart_ms = counters.apart_ms().unwrap_or(0);
        let made = Arc::clone(made);
        Self { registers, apart_ms, made, ..Self::new(tid, outcomes, counters.reading()) }
    }

    /// Creates a log for a thread that reads no registers, in a program with the maximum number of
    /// regions.
    pub(crate) fn new(tid: u32, outcomes: &[Outcome], reading: &'static str) -> Self {
        Self {
            tid,
            outcomes: outcomes.to_vec(),
            registers: vec![false; outcomes.len()],
            apart_ms: 0,
            reading,
            cost: OnceLock::new(),
            began: OnceLock::new(),
            ended: OnceLock::new(),
            made: Arc::new(AtomicU32::new(u32::MAX)),
            nodes: Mutex::new(Vec::new()),
            has_lost_counters: AtomicBool::new(false),
        }
    }

    /// Adds a node; `None` if there are too many. Called only by the log's own thread.
    pub(crate) fn add(&self, region: Region, parent: Option<usize>) -> Option<(usize, Arc<Node>)> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if nodes.len() >= NODES_MAX {
            return None;
        }
        let node = Arc::new(Node::new(region, parent));
        nodes.push(Arc::clone(&node));
        Some((nodes.len() - 1, node))
    }

    /// Whether the program has created this region.
    pub(crate) fn is_made(&self, region: Region) -> bool {
        region == Region::CALIBRATION || region.0 < self.made.load(Relaxed)
    }

    /// Returns the nodes so far, parents before children.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records that the counters could not be read at an edge.
    pub(crate) fn lose_counters(&self) {
        self.has_lost_counters.store(true, Relaxed);
    }

    /// Whether the counters could not be read at some edge.
    pub(crate) fn has_lost_counters(&self) -> bool {
        self.has_lost_counters.load(Relaxed)
    }
}
