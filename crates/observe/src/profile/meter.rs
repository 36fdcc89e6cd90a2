// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads packet counts and CPU time for each slice of samples. Both are needed to separate work
//! from polling.

use super::losses::Losses;
use crate::ObserveError;
use crate::adapters::{self, Program};
use crate::namespace::Namespace;
use crate::procfs::net::parse_dev;
use crate::sampler::CPU_CLOCK;
use crate::sockets::{Moment, Sockets};
use linerate_linux::monotonic_ns;
use linerate_linux::network::Link;
use linerate_linux::perf::{self, Event, Request, Target};
use linerate_machine::Root;
use linerate_record::profile::TimeSlice;
use linerate_record::why::{PacketCount, Unread};
use std::collections::BTreeMap;

/// Counts packets and the CPU time of threads.
pub(super) struct Meter {
    source: Option<Source>,
    clocks: BTreeMap<u32, Clock>,
    readings: Vec<Reading>,
    losses: Option<Losses>,
    pub(super) unread: Vec<Unread>,
}

/// Where packet counts come from.
enum Source {
    /// An interface in the network namespace of this process.
    Interface { pid: u32, name: String },
    /// The program itself.
    Program(Box<Program>),
}

/// A thread's CPU time, and its time spent waiting for a CPU.
struct Clock {
    pid: u32,
    event: Event,
    /// Index of the first reading that includes the thread.
    first: usize,
    run_ns: Vec<u64>,
    waited_ns: [u64; 2],
    has_ended: bool,
}

/// Counts of packets and bytes, received and sent, at the end of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reading {
    at_ns: u64,
    received: Option<Count>,
    sent: Option<Count>,
    /// Packets lost so far.
    lost: Option<u64>,
    is_late: bool,
}

/// A thread's CPU time and packets by slice.
pub(super) struct Metered {
    /// Index of the first slice that includes the thread.
    pub(super) first: usize,
    /// CPU time in nanoseconds and packets per slice. The packets are `None` if they were not
    /// counted, or counted too long before the slice's samples were read.
    pub(super) slices: Vec<(u64, Option<u64>)>,
    /// Fraction of time asleep, 0 to 1.
    pub(super) asleep: f64,
    /// CPU time divided by wall time, 0 to 1.
    pub(super) running: f64,
}

/// Packets and, if counted, bytes.
type Count = (u64, Option<u64>);
/// Selects a count from a reading.
type Counter = fn(&Reading) -> Option<Count>;

/// Maximum delay in ns from reading a slice's packet counts to reading its samples.
const LATE_NS: u64 = 3_000_000;
/// Maximum number of threads whose CPU time is read.
const MAX_CLOCKS: usize = 64;

impl Meter {
    /// Finds the source of packet counts. The first [`read`](Self::read) begins the first slice.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such interface.
    pub(super) fn new(
        root: &Root,
        pids: &[u32],
        interface: Option<&str>,
    ) -> Result<Self, ObserveError> {
        let mut unread = Vec::new();
        let source = match (interface, pids.first()) {
            (Some(name), Some(&pid)) => Some(Source::Interface { pid, name: name.to_owned() }),
            (None, Some(&pid)) => of_program(root, pid, pids, &mut unread),
            _ => None,
        };
        let (clocks, readings) = (BTreeMap::new(), Vec::new());
        let meter = Self { source, clocks, readings, losses: None, unread };
        if let Some(Source::Interface { pid, name }) = &meter.source {
            let links = links(root, *pid);
            if !links.iter().any(|(link, ..)| link == name) {
                let (name, known) = (name.clone(), links.into_iter().map(|(link, ..)| link));
                return Err(ObserveError::NoSuchInterface { name, known: known.collect() });
            }
        }
        Ok(meter)
    }

    /// Returns whether packets are counted.
    pub(super) fn has_packets(&self) -> bool {
        self.source.is_some()
    }

    /// Tracks the CPU time of the first [`MAX_CLOCKS`] threads.
    pub(super) fn watch(&mut self, root: &Root, threads: impl Iterator<Item = (u32, u32)>) {
        if self.source.is_none() {
            return;
        }
        for (pid, tid) in threads {
            if tid == 0 || self.clocks.contains_key(&tid) || self.clocks.len() >= MAX_CLOCKS {
                continue;
            }
            let request =
                Request { exclude_kernel: true, disabled: false, ..Request::new(CPU_CLOCK) };
            // Fails if the thread has exited.
            let Ok(event) = perf::open(&request, Target::Thread(tid), None) else { continue };
            let waited_ns = [waited_ns(root, pid, tid).unwrap_or(0); 2];
            let (first, run_ns) = (self.readings.len() - 1, Vec::new());
            let mut clock = Clock { pid, event, first, run_ns, waited_ns, has_ended: false };
            clock.read();
            self.clocks.insert(tid, clock);
        }
    }

    /// Takes a reading. The first reading begins the first slice; each later reading ends a slice.
    pub(super) fn read(&mut self, root: &Root) {
        let mut reading = Reading { at_ns: monotonic_ns(), ..Reading::default() };
        match &mut self.source {
            None => {}
            Some(Source::Interface { pid, name }) => {
                let link = links(root, *pid).into_iter().find(|(link, ..)| link == name);
                reading.received = link.as_ref().map(|(_, received, _)| *received);
                reading.sent = link.map(|(.., sent)| sent);
            }
            Some(Source::Program(program)) => reading.received = program.read(),
        }
        reading.lost = self.losses.as_ref().map(|losses| losses.read(root));
        // A program may take long to respond: timestamp its count at the middle of the request.
        reading.at_ns = reading.at_ns.midpoint(monotonic_ns());
        self.readings.push(reading);
        self.clocks.values_mut().for_each(Clock::read);
    }

    /// Records the time at which a slice's samples were read from the rings. Processing them takes
    /// longer, but only the time of reading matters.
    pub(super) fn end_slice(&mut self, drained_ns: u64) {
        if let Some(last) = self.readings.last_mut() {
            last.is_late = drained_ns.saturating_sub(last.at_ns) > LATE_NS;
        }
    }

    /// Returns whether no slice is usable, because samples were read late at its start or its end.
    pub(super) fn is_always_late(&self) -> bool {
        let is_late = |ends: &[Reading]| ends[0].is_late || ends[1].is_late;
        self.readings.len() > 1 && self.readings.windows(2).all(is_late)
    }

    /// Takes the readings that are only needed at the end.
    pub(super) fn finish(&mut self, root: &Root) {
        for (&tid, clock) in &mut self.clocks {
            let waited = waited_ns(root, clock.pid, tid);
            clock.waited_ns[1] = waited.unwrap_or(0).max(clock.waited_ns[0]);
            clock.has_ended = waited.is_none();
        }
    }

    /// Returns whether more packets were sent than received.
    fn is_sent(&self) -> bool {
        self.grown(|reading| reading.sent) > self.grown(|reading| reading.received)
    }

    fn counter(&self) -> Counter {
        if self.is_sent() { |reading| reading.sent } else { |reading| reading.received }
    }

    /// Returns a packet counter's increase over the window; `None` if it was never read.
    fn grown(&self, of: impl Fn(&Reading) -> Option<Count>) -> Option<u64> {
        let first = self.readings.iter().find_map(&of)?;
        let last = self.readings.iter().rev().find_map(&of)?;
        Some(last.0.saturating_sub(first.0))
    }

    /// Returns the packets received or sent in the window, whichever is more.
    pub(super) fn packets(&self) -> Option<PacketCount> {
        let of = self.counter();
        let first = self.readings.iter().find_map(of)?;
        let last = self.readings.iter().rev().find_map(of)?;
        let counter = match (self.source.as_ref()?, self.is_sent()) {
            (Source::Program(program), _) => program.counter().to_owned(),
            (Source::Interface { name, .. }, true) => format!("{name} tx_packets"),
            (Source::Interface { name, .. }, false) => format!("{name} rx_packets"),
        };
        let bytes = last.1.zip(first.1).map(|(last, first)| last.saturating_sub(first));
        Some(PacketCount { packets: last.0.saturating_sub(first.0), bytes, counter })
    }

    /// Also counts losses at an interface, or at all interfaces of a process's network namespace.
    pub(super) fn count_losses(&mut self, pid: u32, interface: Option<&str>) {
        self.losses = Some(Losses::new(pid, interface));
    }

    /// Returns the names of the loss counters; `None` if losses are not counted.
    pub(super) fn loss_counter(&self) -> Option<String> {
        self.losses.as_ref().map(Losses::counter)
    }

    /// Returns the slices of the window, with times relative to `began_ns`.
    pub(super) fn slices(&self, began_ns: u64) -> Vec<TimeSlice> {
        let of = self.counter();
        let slice = |ends: &[Reading]| {
            let (first, last) = (&ends[0], &ends[1]);
            let more = |first: Option<u64>, last: Option<u64>| last?.checked_sub(first?);
            let packets = |reading: &Reading| of(reading).map(|(packets, _)| packets);
            TimeSlice {
                begins_s: first.at_ns.saturating_sub(began_ns) as f64 / 1e9,
                seconds: last.at_ns.saturating_sub(first.at_ns) as f64 / 1e9,
                packets: more(packets(first), packets(last)),
                lost: more(first.lost, last.lost),
            }
        };
        self.readings.windows(2).map(slice).collect()
    }

    /// Returns the CPU time and packets of a thread.
    pub(super) fn of_thread(&self, tid: u32) -> Option<Metered> {
        let clock = self.clocks.get(&tid)?;
        let run_ns = clock.run_ns();
        let of = self.counter();
        let readings = self.readings.get(clock.first..clock.first + run_ns.len())?;
        let slice = |(ends, runs): (&[Reading], &[u64])| {
            let is_good = !ends[0].is_late && !ends[1].is_late;
            let packets = of(&ends[1])?.0.checked_sub(of(&ends[0])?.0).filter(|_| is_good);
            Some((runs[1].saturating_sub(runs[0]), packets))
        };
        let pairs = readings.windows(2).zip(run_ns.windows(2));
        let slices = pairs.map(|pair| slice(pair).unwrap_or((0, None))).collect();
        let elapsed = readings.last()?.at_ns.saturating_sub(readings.first()?.at_ns).max(1) as f64;
        let ran = run_ns.last()?.saturating_sub(*run_ns.first()?) as f64;
        let waited = (clock.waited_ns[1] - clock.waited_ns[0]) as f64;
        Some(Metered {
            first: clock.first,
            slices,
            asleep: (1.0 - (ran + waited) / elapsed).clamp(0.0, 1.0),
            running: (ran / elapsed).min(1.0),
        })
    }
}

impl Clock {
    /// Returns the CPU time readings that were taken while the thread existed.
    fn run_ns(&self) -> &[u64] {
        let last = self.run_ns.last().copied();
        let is_over = |&run_ns: &u64| self.has_ended && Some(run_ns) == last;
        let until = self.run_ns.iter().position(is_over).unwrap_or(self.run_ns.len());
        &self.run_ns[..until]
    }

    fn read(&mut self) {
        let before = self.run_ns.last().copied().unwrap_or(0);
        let now = self.event.read().ok();
        self.run_ns.push(now.map_or(before, |reading| reading.values()[0]));
    }
}

/// Finds a readable packet counter that the program itself maintains.
fn of_program(root: &Root, pid: u32, pids: &[u32], unread: &mut Vec<Unread>) -> Option<Source> {
    let namespace = Namespace::of(root, Some(pid), unread);
    let mut sockets = Sockets::new(false, namespace.network.as_ref());
    sockets.look(root, &namespace, pids, Moment::Start);
    let unix = root.text(&namespace.file("unix")).unwrap_or_default();
    let program = adapters::find(root, &unix, &sockets, namespace.is_own, unread)?;
    Some(Source::Program(Box::new(program)))
}

/// An interface's name, and its received and sent counts.
type LinkCount = (String, Count, Count);

fn links(root: &Root, pid: u32) -> Vec<LinkCount> {
    let text = root.text(&format!("proc/{pid}/net/dev")).unwrap_or_default();
    let count = |link: Link| {
        let received = (link.rx_packets, Some(link.rx_bytes));
        (link.name, received, (link.tx_packets, Some(link.tx_bytes)))
    };
    parse_dev(&text).into_iter().map(count).collect()
}

/// Returns how long a thread has waited for a CPU, in ns, from the second field of its schedstat;
/// `None` if unreadable.
fn waited_ns(root: &Root, pid: u32, tid: u32) -> Option<u64> {
    let text = root.text(&format!("proc/{pid}/task/{tid}/schedstat"))?;
    text.split_whitespace().nth(1)?.parse().ok()
}
