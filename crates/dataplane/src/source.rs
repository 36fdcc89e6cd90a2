// SPDX-License-Identifier: MIT OR Apache-2.0
//! Source queues that replay packets from memory. Each queue delivers the packets that the
//! indirection table assigns to one replica.
//!
//! Traffic is an endless sequence: the frames in memory, repeated in a loop. A frame's *position*
//! is its index in this sequence. A queue takes the frames of its buckets in order, copies them
//! into buffers as a NIC would, and delivers them in bursts.
//!
//! All queues model queues of the same NIC on the same line, so one queue cannot get ahead of
//! another by more packets than their receive rings hold. Therefore, a queue that is
//! [`DESCRIPTORS`] positions ahead of the slowest one stops, and its wait counts as starved. A
//! paced line does not wait: if a worker falls more than [`DESCRIPTORS`] packets behind, its queue
//! drops the oldest packets and counts them as missed. A NIC with a full ring would drop the same
//! number.

use crate::bucket::indirection;
use crate::burst::Burst;
use crate::meter::Clock;
use crate::packet::Packet;
use crate::stage::BUCKETS;
use crate::stock::Stock;
use crate::traffic::Traffic;
use linerate_path::model::{FRAME_BYTES_MIN, Rate, WIRE_OVERHEAD_BYTES};
use linerate_record::run::Tally;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of receive descriptors per queue: the largest ring size of common NICs.
pub const DESCRIPTORS: u64 = 4_096;

/// Maximum number of frames that [`coupled_share`] simulates. More would take minutes for 64
/// replicas.
const SIMULATED_FRAMES: usize = 1 << 19;

/// Maximum number of packets that one poll drops as missed, which takes a few milliseconds. Without
/// this limit, a worker might never notice the end of the run if packets arrived much faster than
/// it can process them.
const MISSED_PER_LOOK: u32 = 1 << 19;

/// Returns the load share that limits the throughput of `replicas` equally fast replicas, which
/// process frames in a loop; `buckets` is the bucket of each frame. It is at least the most loaded
/// replica's share of the packets, and more if other replicas have to wait because traffic is
/// uneven over stretches longer than [`DESCRIPTORS`].
///
/// Simulates the queues, assuming that all packets cost the same:
///
/// ```text
/// repeat: q <- the queue whose clock is lowest
///         if its next position is within DESCRIPTORS of the slowest other: take it, clock + 1
///         else wait for the slowest s to take one: clock of q <- clock of s + 1
/// ```
///
/// Takes time proportional to the number of frames and of replicas, and 4 bytes of memory per
/// frame. If there are more than half a million frames, only evenly spaced stretches of them are
/// simulated.
///
/// # Panics
/// Panics unless `replicas` is 1 to 256.
pub fn coupled_share(buckets: &[u8], replicas: u32) -> f64 {
    let mut weights = [0; BUCKETS];
    buckets.iter().for_each(|bucket| weights[usize::from(*bucket)] += 1);
    let table = indirection(&weights, replicas);
    let mut loads = vec![0; replicas as usize];
    for (weight, queue) in weights.iter().zip(&table) {
        loads[usize::from(*queue)] += weight;
    }
    let largest = loads.iter().max().copied().unwrap_or(0) as f64 / buckets.len().max(1) as f64;
    simulated_share(&stretches(buckets), &table, replicas).max(largest)
}

/// Returns all frames or, if there are more than [`SIMULATED_FRAMES`], evenly spaced runs of
/// consecutive frames. Each run is several times as long as the maximum lead of one queue over
/// another.
fn stretches(buckets: &[u8]) -> Cow<'_, [u8]> {
    const STRETCHES: usize = SIMULATED_FRAMES / (8 * DESCRIPTORS as usize);
    if buckets.len() <= SIMULATED_FRAMES {
        return Cow::Borrowed(buckets);
    }
    let all = buckets.chunks(buckets.len().div_ceil(STRETCHES));
    let each = SIMULATED_FRAMES / STRETCHES;
    Cow::Owned(all.flat_map(|part| &part[..part.len().min(each)]).copied().collect())
}

/// Returns the load share of the simulated queues (see [`coupled_share`]).
fn simulated_share(buckets: &[u8], table: &[u8; BUCKETS], replicas: u32) -> f64 {
    const PASSES: u64 = 4;
    // The frames of each queue in one pass.
    let mut queues: Vec<Vec<u32>> = vec![Vec::new(); replicas as usize];
    for (index, bucket) in (0..).zip(buckets) {
        queues[usize::from(table[usize::from(*bucket)])].push(index);
    }
    let position = |queue: usize, taken: usize| -> Option<u64> {
        let own = &queues[queue];
        let pass = taken.checked_div(own.len()).filter(|pass| *pass < PASSES as usize)?;
        Some((pass * buckets.len()) as u64 + u64::from(own[taken % own.len()]))
    };
    let mut taken = vec![0; queues.len()];
    let mut clock = vec![0_u64; queues.len()];
    while let Some((queue, next)) = (0..queues.len())
        .filter_map(|queue| Some((queue, position(queue, taken[queue])?)))
        .min_by_key(|&(queue, _)| clock[queue])
    {
        let others = (0..queues.len()).filter(|other| *other != queue);
        let others = others.filter_map(|other| Some((position(other, taken[other])?, other)));
        match others.min() {
            Some((slowest, other)) if next >= slowest + DESCRIPTORS => {
                clock[queue] = clock[other] + 1;
            }
            _ => {
                clock[queue] += 1;
                taken[queue] += 1;
            }
        }
    }
    let packets = PASSES as f64 * buckets.len() as f64;
    let even = 1.0 / f64::from(replicas);
    clock.iter().max().map_or(even, |last| (*last as f64 / packets).max(even))
}

/// Progress of all source queues: the position of each queue's next frame.
pub(crate) struct Progress(Vec<PaddedPosition>);

#[repr(align(128))]
struct PaddedPosition(AtomicU64);

impl Progress {
    pub(crate) fn new(queues: usize) -> Self {
        Self((0..queues).map(|_| PaddedPosition(AtomicU64::new(0))).collect())
    }

    /// Returns the position of the slowest queue other than `me`. Relaxed loads suffice: the
    /// position limits how far a queue may run ahead, and no other data depends on it.
    fn slowest_other(&self, me: usize) -> u64 {
        let others = self.0.iter().enumerate().filter(|(queue, _)| *queue != me);
        others.map(|(_, position)| position.0.load(Ordering::Relaxed)).min().unwrap_or(u64::MAX)
    }

    fn publish(&self, me: usize, position: u64) {
        self.0[me].0.store(position, Ordering::Relaxed);
    }
}

/// Due time of each frame, in ticks from the start of a pass over the traffic.
pub(crate) struct Timetable {
    due: Vec<u64>,
    pass_ticks: f64,
}

impl Timetable {
    /// Creates the timetable for `rate`; `None` if packets arrive as fast as the path accepts them,
    /// or if a pass takes no time, as with a capture of zero duration. `line_bits_per_second` is
    /// the total over all ports.
    pub(crate) fn new(
        traffic: &Traffic,
        rate: Rate,
        line_bits_per_second: Option<f64>,
        ticks_per_s: f64,
    ) -> Option<Self> {
        let frames = traffic.frames();
        let wire_bits =
            |bytes: u16| 8.0 * (f64::from(bytes.max(FRAME_BYTES_MIN)) + WIRE_OVERHEAD_BYTES as f64);
        let seconds: Box<dyn Fn(usize) -> f64> = match (rate, line_bits_per_second) {
            (Rate::Max, _) | (Rate::Line, None) => return None,
            (Rate::Line, Some(bits)) | (Rate::BitsPerSecond(bits), _) => {
                Box::new(move |i| wire_bits(frames[i].bytes) / bits)
            }
            (Rate::PacketsPerSecond(packets), _) => Box::new(move |_| 1.0 / packets),
            (Rate::Capture, _) => {
                let gaps = frames.len().max(2) - 1;
                let mean_gap_ns = traffic.duration_ns() as f64 / gaps as f64;
                Box::new(move |i| {
                    let next = frames.get(i + 1).map(|f| f.time_ns);
                    let gap = next.map(|t| t.saturating_sub(frames[i].time_ns) as f64);
                    gap.unwrap_or(mean_gap_ns) / 1e9
                })
            }
        };
        let mut at = 0.0;
        let due = (0..frames.len())
            .map(|i| {
                let due = at as u64;
                at += seconds(i) * ticks_per_s;
                due
            })
            .collect();
        (at > 0.0).then_some(Self { due, pass_ticks: at })
    }

    /// Returns the mean number of frames that are due per tick, over all queues.
    pub(crate) fn packets_per_tick(&self) -> f64 {
        self.due.len() as f64 / self.pass_ticks
    }

    #[inline]
    fn due(&self, pass: u64, frame: u32) -> u64 {
        ((pass as f64 * self.pass_ticks) as u64).saturating_add(self.due[frame as usize])
    }
}

/// Result of polling an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Poll {
    /// The burst contains at least one packet.
    Ready,
    /// No packet is available yet.
    Starved,
    /// Packets were received, but none that the path can process; they are counted as drops.
    Dropped,
    /// Packets are waiting, but no buffer is free.
    Blocked,
    /// No packets are left, and none will follow.
    Finished,
}

/// State shared by a run's source queues.
#[derive(Clone, Copy)]
pub(crate) struct Feed<'a> {
    pub(crate) traffic: &'a Traffic,
    pub(crate) timetable: Option<&'a Timetable>,
    pub(crate) progress: &'a Progress,
    /// Number of packets to offer, over all queues and passes; `u64::MAX` for no limit.
    pub(crate) limit: u64,
    /// Duration of a pass over the traffic, in nanoseconds of capture time.
    pub(crate) pass_ns: u64,
}

/// One queue of a source that replays packets from memory.
pub(crate) struct Replay<'a> {
    feed: Feed<'a>,
    me: usize,
    /// Indices of the frames that this queue delivers in each pass, in order.
    order: Vec<u32>,
    next: usize,
    pass: u64,
    horizon: u64,
    /// Start of the first pass, in ticks.
    start_ticks: u64,
    missed: Tally,
}

impl<'a> Replay<'a> {
    /// Creates queue number `me`, which delivers the frames listed in `order` in each pass.
    pub(crate) fn new(feed: Feed<'a>, me: usize, order: Vec<u32>) -> Self {
        let queue = Self {
            feed,
            me,
            order,
            next: 0,
            pass: 0,
            horizon: 0,
            start_ticks: 0,
            missed: Tally::default(),
        };
        feed.progress.publish(me, queue.position());
        queue
    }

    /// Sets the start time of a paced source, in ticks.
    pub(crate) fn start_at(&mut self, ticks: u64) {
        self.start_ticks = ticks;
    }

    /// Returns the position of this queue's next packet; `u64::MAX` if the queue has no frames.
    #[inline]
    fn position(&self) -> u64 {
        match self.order.get(self.next) {
            Some(&frame) => self.position_of(self.pass, frame),
            None => u64::MAX,
        }
    }

    #[inline]
    fn position_of(&self, pass: u64, frame: u32) -> u64 {
        pass * self.feed.traffic.len() as u64 + u64::from(frame)
    }

    #[inline]
    fn advance(&mut self) {
        self.next += 1;
        if self.next == self.order.len() {
            self.next = 0;
            self.pass += 1;
        }
    }

    /// Returns whether the packet at `position` may be delivered now: it is less than
    /// [`DESCRIPTORS`] positions ahead of the slowest other queue, or the source is paced.
    #[inline]
    fn within_reach(&mut self, position: u64) -> bool {
        if position < self.horizon {
            return true;
        }
        if self.feed.timetable.is_some() {
            self.horizon = u64::MAX;
        } else {
            let slowest = self.feed.progress.slowest_other(self.me);
            self.horizon = slowest.saturating_add(DESCRIPTORS);
        }
        position < self.horizon
    }

    /// Fills `burst` with up to `most` packets. `now` is a recent timestamp in ticks, or 0 if there
    /// is none. A paced source reads the clock itself.
    #[inline]
    pub(crate) fn poll<'p, C: Clock>(
        &mut self,
        stock: &mut Stock<'p>,
        burst: &mut Burst<'p>,
        most: usize,
        now: u64,
        clock: &C,
    ) -> Poll {
        let due_by = self.feed.timetable.map(|timetable| {
            let now = clock.ticks().saturating_sub(self.start_ticks);
            self.miss_overdue(timetable, now);
            (timetable, now)
        });
        let mut position = self.position();
        let mut is_out_of_buffers = false;
        while burst.packets.len() < most {
            let born = match due_by {
                None if burst.packets.is_empty() => now,
                None => 0,
                Some((timetable, now)) => match self.due(timetable) {
                    Some(due) if due <= now => self.start_ticks + due,
                    _ => break,
                },
            };
            if position >= self.feed.limit || !self.within_reach(position) {
                break;
            }
            let Some(packet) = stock.free.pop() else {
                is_out_of_buffers = true;
                break;
            };
            burst.packets.push(self.fill(stock, packet, position, born));
            self.advance();
            position = self.position();
        }
        if !burst.packets.is_empty() {
            self.feed.progress.publish(self.me, position);
            return Poll::Ready;
        }
        let unlimited = self.feed.limit == u64::MAX;
        if position >= self.feed.limit && !(unlimited && self.order.is_empty()) {
            self.feed.progress.publish(self.me, u64::MAX);
            return Poll::Finished;
        }
        if is_out_of_buffers { Poll::Blocked } else { Poll::Starved }
    }

    /// Copies the next frame into `packet`, and sets its metadata.
    #[inline]
    fn fill<'p>(
        &self,
        stock: &mut Stock<'p>,
        mut packet: Packet<'p>,
        position: u64,
        born_ticks: u64,
    ) -> Packet<'p> {
        let index = self.order[self.next] as usize;
        let frame = self.feed.traffic.frames()[index];
        let bytes = self.feed.traffic.frame(index);
        match packet.renew(bytes.len()) {
            Some(room) => {
                stock.kernels.copy(room, bytes);
                for number in self.feed.traffic.running(frame) {
                    number.write(room, self.pass);
                }
            }
            None => debug_assert!(false, "every frame of the traffic fits into a buffer"),
        }
        let meta = packet.meta_mut();
        meta.position = position;
        let passed_ns = self.pass.saturating_mul(self.feed.pass_ns);
        meta.time_ns = frame.time_ns.saturating_add(passed_ns);
        meta.born_ticks = born_ticks;
        meta.bucket = frame.bucket;
        stock.taken.add(1, u64::from(frame.bytes));
        packet
    }

    /// Returns the due time of this queue's next packet, in ticks from the start of the first pass.
    #[inline]
    fn due(&self, timetable: &Timetable) -> Option<u64> {
        self.order.get(self.next).map(|&frame| timetable.due(self.pass, frame))
    }

    /// Returns the due time of this queue's next packet, in ticks of the clock; `u64::MAX` if the
    /// queue has no packets, `None` if the source is not paced.
    pub(crate) fn next_due(&self) -> Option<u64> {
        let timetable = self.feed.timetable?;
        Some(self.due(timetable).map_or(u64::MAX, |due| self.start_ticks.saturating_add(due)))
    }

    /// Drops as many packets as a NIC would have dropped by `now` for lack of free descriptors. It
    /// drops the oldest packets, whereas a NIC drops the newest.
    fn miss_overdue(&mut self, timetable: &Timetable, now: u64) {
        if self.order.is_empty() {
            return;
        }
        for _ in 0..MISSED_PER_LOOK {
            let ahead = self.next + DESCRIPTORS as usize;
            let pass = self.pass + (ahead / self.order.len()) as u64;
            let frame = self.order[ahead % self.order.len()];
            let fits = self.position_of(pass, frame) >= self.feed.limit;
            if fits || timetable.due(pass, frame) > now {
                return;
            }
            let frame = self.feed.traffic.frames()[self.order[self.next] as usize];
            self.missed.add(1, u64::from(frame.bytes));
            self.advance();
        }
    }

    /// Returns the packets that a NIC would have dropped, keyed by cause; empty if there are none.
    pub(crate) fn drops(&self) -> BTreeMap<String, Tally> {
        let missed = Some(self.missed).filter(|missed| missed.packets > 0);
        missed.map(|missed| ("rx_missed".to_owned(), missed)).into_iter().collect()
    }

    /// Marks the queue as finished, so that other queues do not wait for it.
    pub(crate) fn retire(&self) {
        self.feed.progress.publish(self.me, u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_mix_is_shared_evenly() {
        let buckets: Vec<u8> = (0..20_000).map(|i| (i % 128) as u8).collect();
        for replicas in [1, 2, 4] {
            let share = coupled_share(&buckets, replicas);
            let even = 1.0 / f64::from(replicas);
            assert!((even..even * 1.01).contains(&share), "{replicas}: {share}");
        }
    }

    #[test]
    fn one_flow_takes_all() {
        assert_eq!(coupled_share(&[7; 1_000], 2), 1.0);
    }

    #[test]
    fn long_stretches_of_one_side_make_the_other_wait() {
        // Two buckets, each of which gets 40 000 packets in a row. Except for what fits in the
        // descriptors, the replicas work one after the other.
        let buckets: Vec<u8> = (0..80_000).map(|i| u8::from(i >= 40_000)).collect();
        let share = coupled_share(&buckets, 2);
        assert!(share > 0.85 && share <= 1.0, "{share}");
        // The same packets, alternating between buckets.
        let mixed: Vec<u8> = (0..80_000).map(|i| (i % 2) as u8).collect();
        assert!(coupled_share(&mixed, 2) < 0.51);
    }

    /// Not only the beginning of the traffic is simulated: here, it is balanced, but the rest is
    /// not.
    #[test]
    fn large_captures_are_simulated_in_part() {
        let frames = SIMULATED_FRAMES + SIMULATED_FRAMES / 2;
        let mixed = |index: usize| (index % 2) as u8;
        let buckets: Vec<u8> = (0..frames).map(mixed).collect();
        assert_eq!(stretches(&buckets).len(), SIMULATED_FRAMES);
        assert!(coupled_share(&buckets, 2) < 0.51);
        let uneven = |index: usize| match index < frames / 2 {
            true => mixed(index),
            false => u8::from(index >= frames / 4 * 3),
        };
        let buckets: Vec<u8> = (0..frames).map(uneven).collect();
        let share = coupled_share(&buckets, 2);
        assert!((0.7..0.8).contains(&share), "{share}");
    }
}
