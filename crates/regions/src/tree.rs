// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data on the regions of a thread: written by that thread, readable by any thread at any time.
//!
//! Every number has one writer, so that adding to it is a load and a store. A reader may find a
//! visit counted whose ticks are still to come, or the other way round: a running thread is at most
//! one visit out.

use linerate_counters::reading::{Counts, EVENTS_MAX};
use linerate_counters::thread_group::ThreadGroup;
use linerate_doctor::refusal::Explanation;
use linerate_record::Tier;
use linerate_record::stats::Estimate;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A region of a program, by [`Regions::region`](crate::Regions::region); means nothing to other
/// [`Regions`](crate::Regions).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region(pub(crate) u32);

impl Region {
    /// The root around all regions.
    pub(crate) const OUTSIDE: Self = Self(u32::MAX);
    /// The node for calibrating the overhead.
    pub(crate) const CALIBRATION: Self = Self(u32::MAX - 1);
}

/// The kernel's account of a thread at one moment.
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
    /// Cost of entering and leaving to the enclosing region.
    pub(crate) pair: Amount,
}

/// Ticks and the counts of every event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Amount {
    pub(crate) ticks: Estimate,
    pub(crate) counts: [Estimate; EVENTS_MAX],
}

/// Evidence tier of an event, or the reason why it is not counted.
pub(crate) type Outcome = Result<Tier, Explanation>;

/// A region within the regions that were open when it was entered.
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

/// The numbers of a node at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Number of completed visits.
    pub(crate) visits: u64,
    /// Units of work reported in it.
    pub(crate) units: u64,
    /// Ticks between entering and leaving, all visits together.
    pub(crate) ticks: u64,
    /// Counts of events, likewise.
    pub(crate) counts: Counts,
    /// Visits in which the thread left its CPU, so that registers counted others too. Only recorded
    /// if events are read by registers, as is the next.
    pub(crate) left: u64,
    /// Visits in which registers were not read for too long.
    pub(crate) long: u64,
    /// Visits of nested regions that were dropped because of the limits of [`Log`].
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

    /// Its thread left it. `events`: number of counts.
    #[inline]
    pub(crate) fn add_visit(&self, ticks: u64, counts: impl Iterator<Item = u64>) {
        add(&self.visits, 1);
        add(&self.ticks, ticks);
        for (total, count) in self.counts.iter().zip(counts) {
            add(total, count);
        }
    }

    /// Its thread did work in it.
    #[inline]
    pub(crate) fn add_units(&self, units: u64) {
        add(&self.units, units);
    }

    /// Registers counted others too in the visit being added.
    #[cold]
    pub(crate) fn add_left(&self) {
        add(&self.left, 1);
    }

    /// Registers were not read for too long in the visit being added.
    #[cold]
    pub(crate) fn add_long(&self) {
        add(&self.long, 1);
    }

    /// Its thread entered a nested region that has no room.
    pub(crate) fn add_lost(&self) {
        add(&self.lost, 1);
    }

    /// Its current numbers. A reader that was preempted between two of them reads again.
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

/// Everything about one thread.
#[derive(Debug)]
pub(crate) struct Log {
    /// Number of the thread.
    pub(crate) tid: u32,
    /// By event: its evidence tier, or the reason why it is not counted.
    pub(crate) outcomes: Vec<Outcome>,
    /// By event: whether it is read by registers.
    pub(crate) registers: Vec<bool>,
    /// Maximum time without reading registers, in ms.
    pub(crate) apart_ms: u64,
    /// Read method.
    pub(crate) reading: &'static str,
    /// The overhead, once calibrated.
    pub(crate) cost: OnceLock<Cost>,
    /// Time from which on its first region could begin.
    pub(crate) began: OnceLock<Account>,
    /// Time at which its last region ended; `None` while the thread counts.
    pub(crate) ended: OnceLock<Account>,
    /// Number of regions created by the program.
    made: Arc<AtomicU32>,
    nodes: Mutex<Vec<Arc<Node>>>,
    has_lost_counters: AtomicBool,
}

/// Maximum number of nodes per thread. A program that enters regions recursively has one per depth
/// and path.
const NODES_MAX: usize = 4096;

impl Log {
    /// For the thread with this number, which counts with `counters`; `made`: number of regions
    /// created by the program.
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

    /// For a thread that reads no registers, in a program with the maximum number of regions.
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

    /// Adds a node; `None` when there are too many. By the log's thread only.
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

    /// The nodes so far, parents before children.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records that the counters could not be read at some edge.
    pub(crate) fn lose_counters(&self) {
        self.has_lost_counters.store(true, Relaxed);
    }

    /// Whether the counters could not be read at some edge.
    pub(crate) fn has_lost_counters(&self) -> bool {
        self.has_lost_counters.load(Relaxed)
    }
}
