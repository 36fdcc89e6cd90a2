// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data that a thread records about its regions. Only this thread writes them; any thread may
//! read them at any time.
//!
//! Every number has one writer, so adding to it is a load and a store. While the thread runs, a
//! reader may see a visit counted whose ticks are still missing, or the reverse, so numbers are off
//! by at most one visit.

use linerate_counters::reading::{Counts, EVENTS_MAX};
use linerate_counters::thread_group::ThreadGroup;
use linerate_doctor::refusal::Explanation;
use linerate_record::Tier;
use linerate_record::stats::Estimate;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A program region, created by [`Regions::region`](crate::Regions::region). Valid only for the
/// [`Regions`](crate::Regions) that created it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region(pub(crate) u32);

impl Region {
    /// The root node: code outside all regions.
    pub(crate) const OUTSIDE: Self = Self(u32::MAX);
    /// The empty region used to calibrate the measurement overhead.
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

/// Calibrated measurement overhead per visit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cost {
    /// Ticks and counts that an empty region measures between its two reads.
    pub(crate) inside: Amount,
    /// Ticks and counts that entry and exit together add to the enclosing region.
    pub(crate) pair: Amount,
}

/// Ticks, and the count of every event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Amount {
    pub(crate) ticks: Estimate,
    pub(crate) counts: [Estimate; EVENTS_MAX],
}

/// Evidence tier of an event, or why it is not counted.
pub(crate) type Outcome = Result<Tier, Explanation>;

/// A region's data in one nesting context, that is, inside one sequence of outer regions.
#[derive(Debug)]
pub(crate) struct Node {
    /// The region, which may have other nodes in other nesting contexts.
    pub(crate) region: Region,
    /// Index of the parent; `None` for the root.
    pub(crate) parent: Option<usize>,
    visits: AtomicU64,
    units: AtomicU64,
    ticks: AtomicU64,
    counts: [AtomicU64; EVENTS_MAX],
    left: AtomicU64,
    long: AtomicU64,
    lost: AtomicU64,
}

/// Snapshot of a node's totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Number of completed visits.
    pub(crate) visits: u64,
    /// Number of units of work reported in the region.
    pub(crate) units: u64,
    /// Ticks between entry and exit, summed over all visits.
    pub(crate) ticks: u64,
    /// Event counts between entry and exit, summed over all visits.
    pub(crate) counts: Counts,
    /// Number of visits in which the thread left its CPU, so the counter registers also counted
    /// other threads. Only recorded if events are read from registers.
    pub(crate) left: u64,
    /// Number of visits in which the counter registers went unread for so long that their 32-bit
    /// counts may have wrapped. Only recorded if events are read from registers.
    pub(crate) long: u64,
    /// Number of visits to nested regions that were not recorded because a limit on depth or nodes
    /// was reached.
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

    /// Adds a visit when the thread leaves the region: its ticks and event counts.
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

    /// Counts a visit during which the counter registers also counted other threads. Called while
    /// the visit is added.
    #[cold]
    pub(crate) fn add_left(&self) {
        add(&self.left, 1);
    }

    /// Counts a visit during which the counter registers went unread for so long that their counts
    /// may have wrapped. Called while the visit is added.
    #[cold]
    pub(crate) fn add_long(&self) {
        add(&self.long, 1);
    }

    /// Counts a visit to a nested region that is not recorded because there is no room.
    pub(crate) fn add_lost(&self) {
        add(&self.lost, 1);
    }

    /// Returns the current totals. If the thread completed a visit meanwhile, they are read again,
    /// up to 16 times in all.
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

/// All data that one thread records about its regions.
#[derive(Debug)]
pub(crate) struct Log {
    /// Thread ID in the kernel (`gettid`).
    pub(crate) tid: u32,
    /// Evidence tier of each event, or why it is not counted.
    pub(crate) outcomes: Vec<Outcome>,
    /// For each event, whether it is read from a counter register.
    pub(crate) registers: Vec<bool>,
    /// How long, in ms, the counter registers may go unread before their counts may have wrapped.
    pub(crate) apart_ms: u64,
    /// Description of how the counters are read.
    pub(crate) reading: &'static str,
    /// Measurement overhead, once calibrated.
    pub(crate) cost: OnceLock<Cost>,
    /// The kernel's accounting of the thread, taken before it could enter its first region.
    pub(crate) began: OnceLock<Account>,
    /// The kernel's accounting of the thread when it stopped counting; not set before that.
    pub(crate) ended: OnceLock<Account>,
    /// Number of regions that the program has created.
    made: Arc<AtomicU32>,
    nodes: Mutex<Vec<Arc<Node>>>,
    has_lost_counters: AtomicBool,
}

/// Maximum number of nodes per thread. A program that enters regions recursively has one node per
/// sequence of nested regions.
const NODES_MAX: usize = 4096;

impl Log {
    /// Creates a log for the thread with this ID, which counts with `counters`. `made` is the
    /// number of regions that the program has created.
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

    /// Creates a log for a thread that reads no counter registers. The log treats every region as
    /// created by the program.
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

    /// Adds a node and returns it with its index; `None` if there are too many nodes. Must be
    /// called only by the log's own thread.
    pub(crate) fn add(&self, region: Region, parent: Option<usize>) -> Option<(usize, Arc<Node>)> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if nodes.len() >= NODES_MAX {
            return None;
        }
        let node = Arc::new(Node::new(region, parent));
        nodes.push(Arc::clone(&node));
        Some((nodes.len() - 1, node))
    }

    /// Returns whether the program has created this region.
    pub(crate) fn is_made(&self, region: Region) -> bool {
        region == Region::CALIBRATION || region.0 < self.made.load(Relaxed)
    }

    /// Returns the nodes added so far, parents before children.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records that reading the counters failed when a region was entered or left.
    pub(crate) fn lose_counters(&self) {
        self.has_lost_counters.store(true, Relaxed);
    }

    /// Returns whether reading the counters ever failed when a region was entered or left.
    pub(crate) fn has_lost_counters(&self) -> bool {
        self.has_lost_counters.load(Relaxed)
    }
}
