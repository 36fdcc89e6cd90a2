// SPDX-License-Identifier: MIT OR Apache-2.0
//! A worker: a pinned thread that runs one segment. It receives bursts from its head (source queue
//! or rings), passes them through its stages, and hands them to its tail (sink or rings).

pub(crate) mod bypass;
mod control;
pub(crate) mod homes;

use crate::burst::{Burst, MAX_BURST};
use crate::context::StageContext;
use crate::cycle::following;
use crate::idle::wake::{Slept, Waker};
use crate::idle::{LONGEST, Rest, Step};
use crate::live::transmit::Stall;
use crate::meter::{Clock, Meter, Work};
use crate::packet::Packet;
use crate::queue::{Origin, SourceQueue};
use crate::ring::{Consumer, Producer};
use crate::sink::Sink;
use crate::source::Poll;
use crate::stage::{BUCKETS, Stage};
use bypass::{Branch, Bypass};
pub(crate) use control::Control;
use homes::Homes;
use linerate_path::model::{FullRing, IdlePolicy};
use linerate_record::run::Tally;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Number of bins in the histogram of a ring's occupancy: one for an empty ring, then one for each
/// tenth of its capacity.
pub(crate) const OCCUPANCY_STEPS: usize = 11;

/// An input ring of a worker, with statistics of its occupancy.
pub(crate) struct Inlet<'p> {
    pub(crate) ring: Consumer<Packet<'p>>,
    pub(crate) capacity: usize,
    pub(crate) occupancy: [u64; OCCUPANCY_STEPS],
}

/// Input of a worker: a source queue, or rings from the workers of the previous segment.
pub(crate) enum Head<'a, 'p> {
    Source(Box<SourceQueue<'a, 'p>>),
    Rings { inlets: Vec<Inlet<'p>>, turn: usize },
}

/// An output ring, with the packets to be pushed into it.
pub(crate) struct Outlet<'p> {
    pub(crate) ring: Producer<Packet<'p>>,
    pub(crate) staged: Vec<Packet<'p>>,
    pub(crate) full_pushes: u64,
    /// Waker of the worker that reads the ring; `None` if that worker never sleeps.
    pub(crate) waker: Option<Arc<Waker>>,
}

/// Output of a worker: a sink, or rings to the workers of the next segment.
pub(crate) enum Tail<'p> {
    Sink(Sink),
    Rings { outlets: Vec<Outlet<'p>>, replica_of: [u8; BUCKETS], full: FullRing },
}

/// A stage with its context and packet counts.
pub(crate) struct Part {
    pub(crate) name: String,
    /// The stage's drop causes, by index.
    pub(crate) drop_causes: &'static [&'static str],
    pub(crate) stage: Box<dyn Stage>,
    pub(crate) context: StageContext,
    /// Packet class of the stage, with bypass counts; `None` if the stage processes all packets.
    pub(crate) branch: Option<Branch>,
    /// Packets that the stage processed.
    pub(crate) input_packets: u64,
    /// `input_packets` at the start and end of the measurement.
    pub(crate) measured: [u64; 2],
    /// Packets and bytes that left the stage, recounted in audited runs.
    pub(crate) audited_output: Tally,
}

/// A worker: its head, stages, tail, and state during and after the run.
pub(crate) struct Worker<'a, 'p> {
    pub(crate) head: Head<'a, 'p>,
    pub(crate) parts: Vec<Part>,
    pub(crate) tail: Tail<'p>,
    /// The worker's idle policy, with the state it needs.
    pub(crate) rest: Rest,
    pub(crate) homes: Homes<'p>,
    pub(crate) burst_size: usize,
    pub(crate) burst: Burst<'p>,
    pub(crate) bypass: Bypass<'p>,
    /// Index of the part that is running: 0 for the head, then the stages, then the tail.
    pub(crate) at: usize,
    pub(crate) input: Tally,
    pub(crate) output: Tally,
    /// `input.packets` and `output.packets` at the start and end of the measurement.
    pub(crate) measured: [[u64; 2]; 2],
    pub(crate) overflow: Tally,
}

impl<'p> Worker<'_, 'p> {
    /// Runs until the input ends or the run is aborted.
    pub(crate) fn run<const ON: bool, C: Clock>(
        &mut self,
        meter: &mut Meter<ON, C>,
        control: &Control<'_>,
    ) {
        meter.begin();
        self.note_edge(meter);
        loop {
            meter.begin_turn();
            self.at = 0;
            if meter.is_logging() {
                self.begin_log();
            }
            match self.poll(meter, control) {
                Poll::Ready => {
                    self.rest.ladder.reset();
                    self.turn(meter, control);
                }
                Poll::Finished => break,
                Poll::Dropped => {
                    self.rest.ladder.reset();
                    // Frames before the dropped ones must not wait for packets of the path.
                    let _ = self.tail.flush();
                    meter.dropped();
                }
                Poll::Starved => match self.tail.flush() {
                    true => self.rest(meter, control),
                    false => {
                        control.relax(meter.clock());
                        meter.starved();
                    }
                },
                Poll::Blocked => {
                    control.relax(meter.clock());
                    meter.blocked();
                }
            }
            if meter.is_logging() {
                self.end_log();
            }
            self.note_edge(meter);
            if control.is_aborted() {
                break;
            }
        }
    }

    /// Waits after an empty poll, in the way that the worker's idle policy specifies, and records
    /// the poll and the wait. The wait is recorded before the next poll: otherwise, it would count
    /// as busy time if that poll finds packets.
    #[inline]
    fn rest<const ON: bool, C: Clock>(&mut self, meter: &mut Meter<ON, C>, control: &Control<'_>) {
        match self.rest.ladder.next(|| meter.clock().ticks()) {
            Step::Spin if !control.yields => {}
            Step::Spin | Step::Pause => control.relax(meter.clock()),
            Step::Slow(step) => control.wait_slowly(step, meter.clock()),
            // The poll is recorded first, so that only the sleep counts as time asleep.
            Step::Park => {
                meter.starved();
                return self.park(meter, control);
            }
        }
        meter.starved();
    }

    /// Sleeps until there is something to do. Polls slowly instead if nothing would wake the
    /// worker, or if sleeping does not pay off.
    #[inline(never)]
    fn park<const ON: bool, C: Clock>(&mut self, meter: &mut Meter<ON, C>, control: &Control<'_>) {
        let longest = self.head.longest_sleep(control, meter.clock());
        // If the next packet's due time is known, `auto` need not poll first to find out whether
        // sleeping pays off.
        let pays_off = |sleep: &Duration| match self.rest.policy {
            IdlePolicy::Auto => {
                sleep.as_secs_f64() * control.ticks_per_s >= self.rest.ladder.park_after as f64
            }
            _ => true,
        };
        let longest = longest.filter(pays_off).filter(|_| !control.is_ending());
        let (Some(longest), Some(sleeper)) = (longest, &mut self.rest.sleeper) else {
            control.wait_slowly(u32::MAX, meter.clock());
            return meter.waited();
        };
        let head = &self.head;
        let slept = sleeper.sleep(|| control.is_ending() || head.is_ready(), longest);
        if slept == Slept::NotAtAll {
            return meter.waited();
        }
        meter.rested(slept == Slept::Woken);
        if slept != Slept::Woken
            && let Head::Source(queue) = &mut self.head
            && let Origin::Live(live) = &mut queue.origin
        {
            live.query_soon();
            // The descriptor of an interface that is gone reports an error forever, which would end
            // each sleep at once.
            if slept == Slept::Failed {
                live.gone().for_each(|port| sleeper.leave_out(port));
            }
        }
    }

    /// Logs kernel calls for the current iteration.
    #[cold]
    fn begin_log(&mut self) {
        if let Head::Source(queue) = &mut self.head {
            queue.stock.kernels.begin_turn(self.input.packets);
        }
        for part in &mut self.parts {
            part.context.kernels.begin_turn(part.input_packets);
        }
    }

    #[cold]
    fn end_log(&mut self) {
        if let Head::Source(queue) = &mut self.head {
            queue.stock.kernels.end_turn(self.input.packets);
        }
        for part in &mut self.parts {
            part.context.kernels.end_turn(part.input_packets);
        }
    }

    /// Records the running packet counts at the beginning and at the end of the measurement.
    #[inline]
    fn note_edge<const ON: bool, C: Clock>(&mut self, meter: &mut Meter<ON, C>) {
        if let Some(edge) = meter.edge() {
            self.measured[edge] = [self.input.packets, self.output.packets];
            for part in &mut self.parts {
                part.measured[edge] = part.input_packets;
            }
        }
    }

    #[inline]
    fn poll<const ON: bool, C: Clock>(
        &mut self,
        meter: &Meter<ON, C>,
        control: &Control<'_>,
    ) -> Poll {
        match &mut self.head {
            Head::Source(queue) => {
                // Relaxed ordering suffices: the flag is only a request and publishes no data.
                if control.stop.load(Ordering::Relaxed) {
                    return Poll::Finished;
                }
                // Latency is measured only in sampled iterations. In every iteration, two more
                // counter reads and the update of a histogram would cost 0.6 % of the edge path.
                let now = if meter.is_sampling() { meter.last() } else { 0 };
                queue.poll(&mut self.burst, self.burst_size, now, meter.clock())
            }
            Head::Rings { inlets, turn } => {
                let count = inlets.len();
                for _ in 0..count {
                    let inlet = &mut inlets[*turn];
                    *turn = following(*turn, count);
                    if meter.is_sampling() {
                        inlet.poll();
                    }
                    if inlet.ring.pop_into(&mut self.burst.packets, self.burst_size) > 0 {
                        self.burst.packets.iter().for_each(Packet::prefetch);
                        return Poll::Ready;
                    }
                }
                if inlets.iter().all(|inlet| inlet.ring.is_finished()) {
                    Poll::Finished
                } else {
                    Poll::Starved
                }
            }
        }
    }

    /// Runs all stages on the current burst and passes it to the tail.
    #[inline]
    fn turn<const ON: bool, C: Clock>(&mut self, meter: &mut Meter<ON, C>, control: &Control<'_>) {
        let taken = self.burst.len();
        self.input.add(taken as u64, self.burst.bytes());
        meter.mark(0, taken);
        for index in 0..self.parts.len() {
            self.at = index + 1;
            let mut given = self.burst.len();
            let part = &mut self.parts[index];
            if part.branch.is_none() {
                part.input_packets += given as u64;
                part.stage.process(&mut self.burst, &mut part.context);
            } else {
                given = part.process_some(&mut self.burst, &mut self.bypass);
            }
            if control.audit {
                part.audited_output.add(self.burst.len() as u64, self.burst.bytes());
            }
            meter.mark(index + 1, given);
        }
        self.at = self.parts.len() + 1;
        let given = self.burst.len();
        self.output.add(given as u64, self.burst.bytes());
        let mut work = self.hand_over(meter, control);
        if matches!(self.head, Head::Source(_)) {
            work.taken = taken as u64;
        }
        self.send_home();
        meter.mark(self.parts.len() + 1, given);
        meter.worked(taken, work);
    }

    /// Passes the burst to the tail: the sink, or the rings to the next segment.
    #[inline]
    fn hand_over<const ON: bool, C: Clock>(
        &mut self,
        meter: &mut Meter<ON, C>,
        control: &Control<'_>,
    ) -> Work {
        let packets = &mut self.burst.packets;
        match &mut self.tail {
            Tail::Sink(sink) => {
                let mut since = 0;
                let stall = |stall| {
                    since = match stall {
                        Stall::Begins => meter.now(),
                        Stall::Lasts => meter.blocked_within(since),
                    };
                };
                let refused = sink.send(packets, stall).packets;
                let delivered = packets.len() as u64 - refused;
                let mut arrival = None;
                // The sink has set `born_ticks` of packets that it could not send to 0.
                for packet in packets.iter() {
                    let born = packet.meta().born_ticks;
                    if born != 0 {
                        let now = *arrival.get_or_insert_with(|| meter.now());
                        meter.arrived(born, now);
                    }
                    sink.take(packet);
                }
                self.burst.released.append(packets);
                Work { delivered, overflowed: refused, ..Work::default() }
            }
            Tail::Rings { outlets, replica_of, full } => {
                if let [only] = outlets.as_mut_slice() {
                    std::mem::swap(&mut only.staged, packets);
                } else {
                    for packet in packets.drain(..) {
                        // A stage may have set `bucket` to an arbitrary value.
                        let bucket = usize::from(packet.meta().bucket) % BUCKETS;
                        let replica = replica_of[bucket];
                        outlets[usize::from(replica)].staged.push(packet);
                    }
                }
                let mut lost = Tally::default();
                for outlet in outlets {
                    if !outlet.staged.is_empty() {
                        outlet.push(*full, &mut self.burst.released, &mut lost, meter, control);
                    }
                }
                self.overflow = self.overflow + lost;
                Work { overflowed: lost.packets, ..Work::default() }
            }
        }
    }

    /// Gives the buffers of packets that ended on this worker back to their source queues.
    #[inline]
    fn send_home(&mut self) {
        let released = &mut self.burst.released;
        if released.is_empty() {
            return;
        }
        match &mut self.head {
            Head::Source(queue) => queue.stock.free.append(released),
            Head::Rings { .. } => self.homes.give_back(released),
        }
    }

    /// Returns a part's name in the report. Part 0 is the head, followed by the stages and the
    /// tail.
    pub(crate) fn part_name(&self, part: usize) -> &str {
        match (part.checked_sub(1).map(|stage| self.parts.get(stage)), &self.head, &self.tail) {
            (Some(Some(stage)), _, _) => &stage.name,
            (None, Head::Source(_), _) => "source",
            (None, Head::Rings { .. }, _) => "ring in",
            (Some(None), _, Tail::Sink(_)) => "sink",
            (Some(None), _, Tail::Rings { .. }) => "ring out",
        }
    }

    /// Marks the worker's source queue, if any, as finished, and closes its sink or output rings.
    pub(crate) fn close(&mut self) {
        if let Head::Source(queue) = &mut self.head {
            queue.retire();
        }
        match &mut self.tail {
            Tail::Sink(sink) => sink.close(),
            Tail::Rings { outlets, .. } => {
                for outlet in outlets {
                    outlet.ring.close();
                    outlet.notify();
                }
            }
        }
    }
}

impl Tail<'_> {
    /// Makes the kernel send frames that it has left in a ring, if the tail is a sink with
    /// interfaces. Returns whether none are left.
    #[inline]
    fn flush(&mut self) -> bool {
        match self {
            Self::Sink(Sink { live: Some(live), .. }) => live.flush(),
            _ => true,
        }
    }
}

impl Head<'_, '_> {
    /// Returns for how long the worker may sleep; `None` if nothing would wake it in time. An
    /// unpaced source, for example, waits for other queues, which do not signal when they have
    /// caught up.
    fn longest_sleep<C: Clock>(&self, control: &Control<'_>, clock: &C) -> Option<Duration> {
        let Self::Source(queue) = self else { return Some(LONGEST) };
        let Origin::Replay(replay) = &queue.origin else { return Some(LONGEST) };
        let ticks = replay.next_due()?.saturating_sub(clock.ticks());
        let due = Duration::try_from_secs_f64(ticks as f64 / control.ticks_per_s);
        Some(due.map_or(LONGEST, |due| due.min(LONGEST)))
    }

    /// Returns whether a poll would find packets or the end of the input. Always `false` for a
    /// source: a wait on interfaces checks for packets itself.
    fn is_ready(&self) -> bool {
        match self {
            Self::Source(_) => false,
            Self::Rings { inlets, .. } => {
                inlets.iter().any(|inlet| !inlet.ring.is_empty())
                    || inlets.iter().all(|inlet| inlet.ring.is_finished())
            }
        }
    }
}

impl Inlet<'_> {
    fn poll(&mut self) {
        let inside = self.ring.len();
        let step = (inside * (OCCUPANCY_STEPS - 1)).div_ceil(self.capacity);
        self.occupancy[step.min(OCCUPANCY_STEPS - 1)] += 1;
    }
}

impl<'p> Outlet<'p> {
    pub(crate) fn new(ring: Producer<Packet<'p>>) -> Self {
        Self { ring, staged: Vec::with_capacity(MAX_BURST), full_pushes: 0, waker: None }
    }

    /// Wakes the worker that reads the ring, if it is asleep.
    #[inline]
    fn notify(&self) {
        if let Some(waker) = &self.waker {
            waker.notify();
        }
    }

    /// Pushes the packets in `staged` into the ring. If it is full, waits for room or drops
    /// packets, as `full` says. Dropped packets are moved to `released` and counted in `lost`.
    #[inline]
    fn push<const ON: bool, C: Clock>(
        &mut self,
        full: FullRing,
        released: &mut Vec<Packet<'p>>,
        lost: &mut Tally,
        meter: &mut Meter<ON, C>,
        control: &Control<'_>,
    ) {
        self.ring.push_from(&mut self.staged);
        self.notify();
        if self.staged.is_empty() {
            return;
        }
        self.full_pushes += 1;
        match full {
            FullRing::Drop => {
                for packet in self.staged.drain(..) {
                    lost.add(1, packet.length() as u64);
                    released.push(packet);
                }
            }
            FullRing::Wait => {
                let mut since = meter.now();
                while !self.staged.is_empty() && !control.is_aborted() {
                    control.relax(meter.clock());
                    self.ring.push_from(&mut self.staged);
                    self.notify();
                    since = meter.blocked_within(since);
                }
            }
        }
    }
}
