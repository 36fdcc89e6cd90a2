// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts hardware events separately for each part of a worker (head, stages, tail), in a sample of
//! its loop iterations.
//!
//! Counted iterations are picked at random. In such an iteration, the counters are read before the
//! first part and after each part. The difference between two successive reads, minus the read
//! overhead measured before the run, is attributed to the part in between. Empty polls are not
//! counted. Iterations in which the worker was interrupted or waited for room in a ring are
//! discarded.
//!
//! The sampling rate depends on the cost of a read; see [`TurnCounter::new`].
//!
//! Multiplexing is not supported. The few events of a profile fit the hardware counters of every
//! processor that has an event table; an event that does not fit is reported with the reason.

use crate::stage::MAX_PARTS;
use linerate_counters::catalog::Catalog;
use linerate_counters::event::Event;
use linerate_counters::opener::{Kernel, Opener};
use linerate_counters::reading::{Counts, EVENTS_MAX};
use linerate_counters::thread_group::{Machine, ThreadGroup};
use linerate_doctor::host_facts::HostFacts;
use linerate_doctor::refusal::Explainer;
use linerate_machine::ticks::ticks;
use linerate_record::Tier;
use linerate_record::run::CountedEvent;

/// Hardware events to count for each part of a worker.
pub struct Counting {
    opener: Box<dyn Opener + Sync>,
    host_facts: HostFacts,
    is_known_processor: bool,
    events: Vec<Event>,
    /// Events that this processor cannot count, and why.
    absent: Vec<CountedEvent>,
}

/// Portable names of the events reported per packet. Together, they show how much work and time a
/// packet takes, and the most common causes of stalls.
const EVENTS: [&str; 4] = ["instructions", "cycles", "ll_misses", "branch_misses"];

impl Counting {
    /// Selects the events to count: instructions, cycles, last-level cache misses and branch
    /// mispredictions, as far as this machine can count them. Does not open any events yet.
    pub fn of_this_machine() -> Self {
        let catalog = Catalog::of_this_machine();
        let mut events = Vec::new();
        let mut absent = Vec::new();
        for name in EVENTS {
            match catalog.resolve(name) {
                Ok(event) => events.push(event),
                Err(error) => absent.push(CountedEvent {
                    name: name.to_owned(),
                    reason: Some(error.to_string()),
                    fix: None,
                }),
            }
        }
        let is_known_processor = catalog.is_known_processor();
        Self { absent, is_known_processor, ..Self::new(Box::new(Kernel), events) }
    }

    /// Creates a selection of events to be opened with `opener`.
    pub fn new(opener: Box<dyn Opener + Sync>, events: Vec<Event>) -> Self {
        Self {
            opener,
            host_facts: HostFacts::gather(),
            is_known_processor: true,
            events,
            absent: Vec::new(),
        }
    }
}

impl std::fmt::Debug for Counting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.events.iter().map(|event| event.name.as_str()).collect();
        f.debug_tuple("Counting").field(&names).finish()
    }
}

/// Maximum number of counted iterations in memory. When it is reached, every second one of them is
/// discarded.
const KEPT: usize = 2_048;

/// Number of pairs of reads for measuring the read overhead: enough that a timer tick does not
/// affect the median.
const PAIRS: usize = 63;

/// A worker's hardware counters and the counts read from them.
pub(crate) struct TurnCounter {
    group: ThreadGroup,
    /// Read overhead: how much one read of the counters adds to the count of each event.
    own: Counts,
    /// Duration of one read, in ticks.
    read_ticks: u64,
    one_iteration_in: u32,
    marks: [Counts; MAX_PARTS + 1],
    parts: usize,
    /// Values of all kept iterations: for each part, the number of packets, followed by the count
    /// of each event.
    turns: Vec<u64>,
    /// One in `stride` counted iterations is kept. `skipped` is the number of iterations counted
    /// since the last one that was kept.
    stride: u64,
    skipped: u64,
    /// Whether a read of the counters failed in the current iteration.
    is_broken: bool,
    /// Number of iterations in which a read of the counters failed.
    broken: u64,
}

/// Average interval between counted iterations if the counters can be read without a system call.
/// It is a multiple of the meter's intervals for timing and logging, so a single random number per
/// iteration selects at most one of timing, logging and counting.
const ONE_IN_BY_USER_READ: u32 = 64;

/// Average interval between counted iterations if each read of the counters is a system call, which
/// takes some 1500 ticks (for a group of four events, at 2.6 GHz). With ten parts, the reads cost
/// 15 ticks per iteration on average, or 0.2 % of an iteration with 32 packets on the edge path.
const ONE_IN_BY_CALL: u32 = 1_024;

/// An iteration is counted if its random number, modulo the interval, is this value. Timed
/// iterations have the value 0, logged iterations 1.
const COUNTED: u32 = 2;

impl TurnCounter {
    /// Opens and starts the counters on the calling thread. Returns the counters (`None` if no
    /// event could be opened) and all requested events. Events that could not be opened have a
    /// reason.
    pub(crate) fn new(counting: &Counting, parts: usize) -> (Option<Self>, Vec<CountedEvent>) {
        let Counting { opener, host_facts, is_known_processor, events, absent } = counting;
        let pmu_user = host_facts.pmu_user();
        let pmu_user = pmu_user.as_ref();
        let machine = Machine { opener: &**opener, pmu_user, compares_marks: false };
        let group = ThreadGroup::open(machine, events, false);
        let explainer = Explainer::new(host_facts, *is_known_processor);
        let told = events.iter().zip(group.outcomes()).map(|(event, outcome)| {
            let refusal = outcome.as_ref().err().map(|refusal| explainer.explain(refusal, event));
            CountedEvent {
                name: event.name.clone(),
                fix: refusal.as_ref().and_then(|refusal| refusal.fix.clone()),
                reason: refusal.map(|refusal| refusal.sentence),
            }
        });
        let told = told.chain(absent.iter().cloned()).collect();
        if group.outcomes().iter().all(Result::is_err) {
            return (None, told);
        }
        let is_by_call = group.reading() == "read(2)";
        let (own, read_ticks) = own_cost(&group);
        let counter = Self {
            own,
            read_ticks,
            one_iteration_in: if is_by_call { ONE_IN_BY_CALL } else { ONE_IN_BY_USER_READ },
            marks: [[0; EVENTS_MAX]; MAX_PARTS + 1],
            parts,
            turns: Vec::with_capacity(KEPT * parts * (1 + group.outcomes().len())),
            stride: 1,
            skipped: 0,
            is_broken: false,
            broken: 0,
            group,
        };
        (Some(counter), told)
    }

    /// Returns whether an iteration with this random number is counted.
    #[inline]
    pub(crate) fn wants(&self, random: u32) -> bool {
        random % self.one_iteration_in == COUNTED
    }

    /// Returns how many ticks a counted iteration spends reading counters: once at its start and
    /// once after each part.
    pub(crate) fn turn_ticks(&self) -> u64 {
        self.read_ticks * (self.parts as u64 + 1)
    }

    /// Reads the counters: at mark 0, the start of an iteration, or at mark `n`, the end of its
    /// `n`th part.
    #[inline(never)]
    pub(crate) fn mark(&mut self, mark: usize) {
        self.is_broken = (mark > 0 && self.is_broken) || !self.group.read(&mut self.marks[mark]);
    }

    /// Keeps the counts of the iteration that has just ended. `given` is the number of packets
    /// passed to each part.
    pub(crate) fn keep(&mut self, given: &[u64]) {
        if self.is_broken {
            self.broken += 1;
            return;
        }
        self.skipped += 1;
        if self.skipped < self.stride {
            return;
        }
        self.skipped = 0;
        let row = self.parts * self.width();
        if self.turns.len() == KEPT * row {
            self.thin_out(row);
        }
        let events = self.width() - 1;
        for (packets, marks) in given.iter().zip(self.marks.windows(2)) {
            self.turns.push(*packets);
            let [before, after] = marks else { unreachable!("`windows(2)` yields pairs") };
            let counts = (0..events).map(|e| after[e].wrapping_sub(before[e]));
            self.turns.extend(counts);
        }
    }

    /// Discards every second kept iteration. `row` is the number of values per iteration.
    fn thin_out(&mut self, row: usize) {
        let kept = KEPT / 2;
        for turn in 0..kept {
            self.turns.copy_within(2 * turn * row..(2 * turn + 1) * row, turn * row);
        }
        self.turns.truncate(kept * row);
        self.stride *= 2;
    }

    /// Returns the number of values kept per part of an iteration: the packet count and the event
    /// counts.
    fn width(&self) -> usize {
        1 + self.group.outcomes().len()
    }

    /// Returns the counts of all kept iterations.
    pub(crate) fn finish(self) -> CountedTurns {
        let tiers = self.group.outcomes().iter().map(|outcome| outcome.as_ref().ok().copied());
        CountedTurns {
            reading: self.group.reading(),
            one_iteration_in: u64::from(self.one_iteration_in),
            tiers: tiers.collect(),
            own: self.own,
            parts: self.parts,
            width: self.width(),
            broken: self.broken,
            turns: self.turns,
        }
    }
}

/// Measures the read overhead, in counts and in ticks, as the medians over pairs of back-to-back
/// reads.
fn own_cost(group: &ThreadGroup) -> (Counts, u64) {
    let mut pairs: Vec<[Counts; 2]> = vec![[[0; EVENTS_MAX]; 2]; PAIRS];
    let mut read_ticks = Vec::with_capacity(PAIRS);
    for [first, second] in &mut pairs {
        group.read(first);
        let before = ticks();
        group.read(second);
        read_ticks.push(ticks().saturating_sub(before));
    }
    let own = std::array::from_fn(|event| {
        median(pairs.iter().map(|[a, b]| b[event].saturating_sub(a[event])).collect())
    });
    (own, median(read_ticks))
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// A worker's event counts, from its counted iterations.
pub(crate) struct CountedTurns {
    /// How counters were read, as worded in the record.
    pub(crate) reading: &'static str,
    pub(crate) one_iteration_in: u64,
    /// Evidence tier of each event; `None` if it could not be counted.
    pub(crate) tiers: Vec<Option<Tier>>,
    own: Counts,
    parts: usize,
    width: usize,
    /// Number of iterations dropped because another user of the PMU held the counters.
    pub(crate) broken: u64,
    turns: Vec<u64>,
}

impl CountedTurns {
    /// Returns the number of packets passed to a part in each kept iteration, without iterations in
    /// which it got none.
    pub(crate) fn packets(&self, part: usize) -> Vec<f64> {
        self.cells(part).map(|cell| cell[0] as f64).collect()
    }

    /// Returns the counts of an event in a part: one per kept iteration in which the part got
    /// packets. Counts from which the read overhead was subtracted may be negative; clamping them
    /// to 0 would bias their sum.
    pub(crate) fn counts(&self, part: usize, event: usize) -> Vec<f64> {
        let own = self.own[event] as f64;
        self.cells(part).map(|cell| cell[1 + event] as f64 - own).collect()
    }

    fn cells(&self, part: usize) -> impl Iterator<Item = &[u64]> {
        let rows = self.turns.chunks_exact(self.parts * self.width);
        let cells = rows.map(move |row| &row[part * self.width..][..self.width]);
        cells.filter(|cell| cell[0] > 0)
    }

    /// Creates the counts of iterations with a single part and a single event. Each row is an
    /// iteration: its packets and its count.
    #[cfg(test)]
    pub(crate) fn synthetic(rows: Vec<[u64; 2]>, own: u64) -> Self {
        let mut counts = [0; EVENTS_MAX];
        counts[0] = own;
        Self {
            reading: "read(2)",
            one_iteration_in: 1_024,
            tiers: vec![Some(Tier::Hw)],
            own: counts,
            parts: 1,
            width: 2,
            broken: 0,
            turns: rows.into_iter().flatten().collect(),
        }
    }
}
