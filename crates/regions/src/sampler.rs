// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts events in a packet loop without reading the counters for each packet: they are read every
//! N packets, and event sets alternate.
//!
//! Modelled on the Netra DPS profiling interface: a worker reports its packet count from time to
//! time; after N more packets, the counters are read and the next pair of events is started; once
//! every pair has been counted often enough, the worker is asked to dump. There are two
//! differences. In Netra DPS, a slice began when the packet count was a multiple of N, and a burst
//! can skip that count; here, a slice begins after at least N packets, whatever the burst size. In
//! Netra DPS, the pairs took turns in a fixed order, which may alias with the load; here, each
//! round uses a random order.
//!
//! ```text
//! update(packets):
//!     if packets < next: return
//!     note ticks, counts of this slice's set, and packets since the slice began
//!     select the next set at random from those that had no slice in this round
//!     next = packets + N
//! ```
//!
//! An event's total has no interval if fewer than four slices counted it.

use crate::regions::Regions;
use crate::tree::Outcome;
use linerate_counters::event::Event;
use linerate_counters::reading::{EVENTS_MAX, Mark};
use linerate_counters::thread_group::ThreadGroup;
use linerate_linux::thread_id;
use linerate_machine::ticks::ticks;
use linerate_record::random::Random;
use linerate_record::regions::{RegionEvent, RegionReport};
use linerate_record::stats::{CONFIDENCE, Estimate, block_bootstrap_ratio};
use linerate_record::{Figure, Tier};
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// When a [`Sampler`] reads the counters, and which event sets it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Event sets. The events in a set are counted at the same time.
    pub sets: Vec<Vec<String>>,
    /// Minimum number of packets per slice, which is the time between two counter reads.
    pub every: NonZeroU64,
    /// Number of slices per set after which the sampler is full.
    pub rounds: NonZeroU32,
    /// Seed for the random order of the sets.
    pub seed: u64,
}

/// One event set's counts in one slice, i.e. between two counter reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Index of the set in the schedule.
    pub set: usize,
    /// Number of packets processed in the slice.
    pub packets: u64,
    /// Duration of the slice in ticks.
    pub ticks: u64,
    /// Count of each event in the set; `None` for events that are not counted.
    pub counts: Vec<Option<u64>>,
}

/// Reads counters every N packets, in the thread that created the sampler.
#[derive(Debug)]
pub struct Sampler {
    regions: Regions,
    name: String,
    schedule: Schedule,
    sets: Vec<Set>,
    /// Sets that have not had a slice in this round.
    round: Vec<usize>,
    random: Random,
    turn: Option<Turn>,
    /// Packet count at which the current slice may end.
    next: u64,
    samples: Vec<Sample>,
    /// Set when another thread requests a dump.
    dump_wanted: Arc<AtomicBool>,
}

/// Requests a dump from a sampler on any thread.
#[derive(Clone, Debug)]
pub struct DumpRequest(Arc<AtomicBool>);

impl DumpRequest {
    /// Makes the sampler dump its results in its own thread: at the end of its current slice or, if
    /// it is full, at its next update. A sampler that is no longer updated will not dump.
    pub fn dump(&self) {
        // Relaxed: no other data is passed with the request.
        self.0.store(true, Relaxed);
    }
}

/// An event set with its counters.
#[derive(Debug)]
struct Set {
    events: Vec<Result<Event, String>>,
    counters: ThreadGroup,
    /// Evidence tier of each available event, or why it is not counted.
    outcomes: Vec<Outcome>,
}

/// The slice in progress: its event set, and the readings at its start.
#[derive(Debug)]
struct Turn {
    set: usize,
    packets: u64,
    ticks: u64,
    counts: [u64; EVENTS_MAX],
    /// Whether the thread kept its CPU, as recorded when the counters were read; `None` if reading
    /// them failed.
    mark: Option<Mark>,
}

const METHOD: &str = "counters read every N packets, with event sets in random order; value per \
                      packet times the number of packets";
/// Method stated for an event that has no interval because too few slices counted it.
const FEW_SLICES_METHOD: &str = "counters read every N packets; no interval, because the event was \
                                 counted in fewer than four slices";
const TICKS_METHOD: &str = "time between counter reads, summed over all slices; no interval";
impl Sampler {
    /// Creates a sampler that counts the calling thread, and opens the counters of all its sets.
    /// `name` is the name under which the report lists the sampler as a region.
    pub fn new(regions: &Regions, name: &str, schedule: Schedule) -> Self {
        let sets: Vec<Set> = schedule.sets.iter().map(|names| Set::open(regions, names)).collect();
        let room = sets.len() * schedule.rounds.get() as usize;
        Self {
            regions: regions.clone(),
            name: name.to_owned(),
            random: Random::new(schedule.seed),
            schedule,
            round: Vec::with_capacity(sets.len()),
            sets,
            turn: None,
            next: 0,
            samples: Vec::with_capacity(room),
            dump_wanted: Arc::default(),
        }
    }

    /// Starts the first slice now, after `packets` packets. Without this call, the first update
    /// starts it. Has no effect during a slice.
    pub fn start(&mut self, packets: u64) {
        if self.turn.is_none() && !self.is_full() {
            self.begin_turn(packets);
        }
    }

    /// Returns a handle with which any thread can request a dump.
    pub fn dump_request(&self) -> DumpRequest {
        DumpRequest(Arc::clone(&self.dump_wanted))
    }

    /// Reports how many packets have been processed since the program began. Within a slice, this
    /// costs one comparison; at the end of a slice, it reads and reprograms the counters, with a
    /// few system calls. Returns true once every set has had all its slices; from then on nothing
    /// is counted until [`Sampler::dump`].
    #[inline]
    pub fn update(&mut self, packets: u64) -> bool {
        match packets < self.next {
            true => self.is_full() && self.is_full_still(packets),
            false => self.end_turn(packets),
        }
    }

    /// Handles an update of a full sampler: dumps if another thread requested it, which restarts
    /// sampling. Returns whether the sampler is still full.
    #[cold]
    fn is_full_still(&mut self, packets: u64) -> bool {
        // Relaxed: as in `DumpRequest::dump`.
        if !self.dump_wanted.swap(false, Relaxed) {
            return true;
        }
        self.dump();
        self.begin_turn(packets);
        false
    }

    #[cold]
    fn end_turn(&mut self, packets: u64) -> bool {
        let now = ticks();
        if let Some(turn) = self.turn.take() {
            let set = &self.sets[turn.set];
            let mut counts = [0; EVENTS_MAX];
            let mark = set.counters.second(&mut counts);
            set.counters.stop();
            let differences =
                counts.iter().zip(turn.counts).map(|(now, then)| now.wrapping_sub(then));
            self.samples.push(Sample {
                set: turn.set,
                packets: packets.saturating_sub(turn.packets),
                ticks: now.saturating_sub(turn.ticks),
                counts: set.by_name(differences, turn.mark, mark),
            });
        }
        // Relaxed: as in `DumpRequest::dump`.
        if self.dump_wanted.swap(false, Relaxed) {
            self.dump();
        }
        if self.is_full() {
            self.next = u64::MAX;
            return true;
        }
        self.begin_turn(packets);
        false
    }

    fn begin_turn(&mut self, packets: u64) {
        let Some(set) = self.next_set() else {
            self.next = u64::MAX;
            return;
        };
        let counters = &self.sets[set].counters;
        let mut counts = [0; EVENTS_MAX];
        counters.start();
        let mark = counters.first(&mut counts);
        self.next = packets.saturating_add(self.schedule.every.get());
        self.turn = Some(Turn { set, packets, ticks: ticks(), counts, mark });
    }

    /// Draws the next set at random from those that have not had a slice in this round, and returns
    /// its index; `None` if there are no sets.
    fn next_set(&mut self) -> Option<usize> {
        if self.round.is_empty() {
            self.round.extend(0..self.sets.len());
        }
        if self.round.is_empty() {
            return None;
        }
        let drawn = self.random.below(self.round.len());
        Some(self.round.swap_remove(drawn))
    }

    /// Returns whether every set has had all its slices.
    pub fn is_full(&self) -> bool {
        !self.samples.is_empty() && self.samples.len() == self.room()
    }

    fn room(&self) -> usize {
        self.sets.len() * self.schedule.rounds.get() as usize
    }

    /// Returns the slices since the last dump.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Adds the results from all slices to the regions' report, and clears the slices. Sampling
    /// restarts with the next update.
    pub fn dump(&mut self) {
        if !self.samples.is_empty() {
            self.regions.add(self.report());
        }
        if let Some(turn) = self.turn.take() {
            self.sets[turn.set].counters.stop();
        }
        self.samples.clear();
        self.round.clear();
        self.next = 0;
    }

    /// Reports the slices since the last dump as one region whose units are packets.
    fn report(&self) -> RegionReport {
        let packets: u64 = self.samples.iter().map(|sample| sample.packets).sum();
        let ticks: u64 = self.samples.iter().map(|sample| sample.ticks).sum();
        let n = self.samples.len() as u64;
        let events = self.sets.iter().enumerate().flat_map(|(set, events)| {
            (0..events.events.len()).map(move |place| self.event(set, place, packets))
        });
        let exact = Figure::exact("ticks", ticks as f64, Tier::Sw, TICKS_METHOD);
        let ticks_figure = Figure { n, ..exact };
        RegionReport {
            name: self.name.clone(),
            tid: thread_id(),
            visits: n,
            units: packets,
            own_ticks: ticks_figure.clone(),
            ticks: ticks_figure,
            events: events.collect(),
            is_sampled: true,
            verdict: format!(
                "sampled: {n} slices of {} packets or more, {} event sets",
                self.schedule.every,
                self.sets.len()
            ),
        }
    }

    /// Estimates an event's count over all packets from the slices that counted it.
    fn event(&self, set: usize, place: usize, packets: u64) -> RegionEvent {
        let absent = |unit: &str, reason: &str| Figure::absent(unit, Tier::Sw, METHOD, reason);
        let asked = &self.schedule.sets[set][place];
        let event = match &self.sets[set].events[place] {
            Ok(event) => event,
            Err(reason) => {
                return RegionEvent { name: asked.clone(), count: absent("events", reason) };
            }
        };
        let (counts, done): (Vec<f64>, Vec<f64>) = self
            .samples
            .iter()
            .filter(|sample| sample.set == set)
            .filter_map(|sample| Some((sample.counts[place]? as f64, sample.packets as f64)))
            .unzip();
        let count = match self.sets[set].outcome(place) {
            Err(reason) => absent(event.unit, &reason),
            Ok(_) if counts.is_empty() => absent(event.unit, "not counted in any slice"),
            Ok(tier) => {
                let ratio = block_bootstrap_ratio(&counts, &done, CONFIDENCE, self.schedule.seed);
                let all = packets as f64;
                let scaled = Estimate {
                    value: ratio.value * all,
                    low: ratio.low * all,
                    high: ratio.high * all,
                    ..ratio
                };
                let has_interval = ratio.low.is_finite() && ratio.high.is_finite();
                let method = if has_interval { METHOD } else { FEW_SLICES_METHOD };
                Figure::number(event.unit, scaled, tier, method)
            }
        };
        RegionEvent { name: event.name.clone(), count }
    }
}

impl Set {
    fn open(regions: &Regions, names: &[String]) -> Self {
        let events = regions.look_up(names);
        let known: Vec<Event> = events.iter().flatten().cloned().collect();
        let counters = regions.counters(&known);
        counters.stop();
        let outcomes = regions.explained(&counters, &known);
        Self { events, counters, outcomes }
    }

    /// Returns the evidence tier of the event at an index, or why it is not counted.
    fn outcome(&self, place: usize) -> Result<Tier, String> {
        if let Err(reason) = &self.events[place] {
            return Err(reason.clone());
        }
        match &self.outcomes[self.known_place(place)] {
            Ok(tier) => Ok(*tier),
            Err(refusal) => Err(refusal.sentence.clone()),
        }
    }

    /// Converts an event's index in the set to its index among the events of the set that exist on
    /// this machine.
    fn known_place(&self, place: usize) -> usize {
        self.events[..place].iter().flatten().count()
    }

    /// Returns the count of each event in the set. An event has a count if it could be read at both
    /// ends of the slice and, if it is read from a register, the register counted only this thread.
    fn by_name(
        &self,
        counts: impl Iterator<Item = u64>,
        first: Option<Mark>,
        second: Option<Mark>,
    ) -> Vec<Option<u64>> {
        let counts: Vec<u64> = counts.collect();
        let of = |place| {
            self.outcome(place).ok()?;
            let known = self.known_place(place);
            let is_its_own = first == second || !self.counters.is_by_registers(known);
            (first.and(second).is_some() && is_its_own).then_some(counts[known])
        };
        (0..self.events.len()).map(of).collect()
    }
}
