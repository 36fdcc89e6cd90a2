// SPDX-License-Identifier: MIT OR Apache-2.0
//! One queue of a live source. It receives frames from one queue of each port, and restores them to
//! their form on the wire.
//!
//! Each frame is copied once, from the memory in which the kernel delivered it to a buffer from the
//! pool; a coalesced frame is copied twice. The copy also undoes offloads: it reinserts a VLAN tag
//! that the kernel removed, computes a missing checksum, and splits coalesced segments (for
//! captures, see [decision 0301]).
//!
//! ```text
//! poll: while the burst has room: take the next segment of the coalesced frame being split, if
//! any, else the next frame of a port; each poll starts at a different port
//! ```
//!
//! [decision 0301]: ../../../../docs/decisions/0301-joined-segments-are-cut-again.md

use super::limit::Limit;
use super::segments::{Coalesced, Segments};
use super::{Ports, Receiver, XdpEnd};
use crate::bucket::flow_bucket;
use crate::burst::Burst;
use crate::capture::repair::complete;
use crate::cycle::following;
use crate::packet::Packet;
use crate::source::Poll;
use crate::stage::Steer;
use crate::stock::Stock;
use linerate_kernels::Sum;
use linerate_linux::port::{Offload, PortState, Received, Segmentation, XdpCounts};
use linerate_record::input::cause;
use linerate_record::run::{CutSegments, Tally};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Number of consecutive empty polls, a few milliseconds' worth, after which the queue asks for the
/// state of its ports.
const IDLE_POLLS: u32 = 1 << 14;

/// Length in bytes of the two Ethernet addresses, after which a VLAN tag is inserted.
const ADDRESSES_BYTES: usize = 12;

/// Names of the drop causes, in the order of `Counts::drops`.
const CAUSES: [&str; 6] = [
    cause::TOO_LONG,
    cause::CUT_SHORT,
    "unknown_offload",
    cause::RING_FULL,
    "run_ended",
    super::XDP_TOO_LONG,
];
const TOO_LONG: usize = 0;
const CUT_SHORT: usize = 1;
const UNKNOWN_OFFLOAD: usize = 2;
const RING_FULL: usize = 3;
/// Index in [`CAUSES`] of the cause of packets that were taken from an interface, but not delivered
/// before the run ended.
const RUN_ENDED: usize = 4;
const XDP_TOO_LONG: usize = 5;

/// A port from which a queue receives.
pub(crate) struct PortQueue {
    pub(crate) receiver: Receiver,
    /// Number of frames taken from the receiver.
    pub(crate) taken: u64,
    /// The coalesced frames among those taken.
    pub(crate) coalesced: Coalesced,
    pub(crate) went_down: u64,
    is_gone: bool,
    /// The interface's counter of received packets, just before and just after this queue stopped
    /// receiving.
    pub(crate) stopped: [Option<u64>; 2],
    /// The counts of an AF_XDP socket at the moment when it should have stopped; `None` for sockets
    /// of other types.
    pub(crate) end: Option<XdpEnd>,
}

/// Counts of a queue, except for the number of delivered packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    drops: [Tally; CAUSES.len()],
    cut_frames: u64,
    cut_segments: u64,
    /// Size of the largest IP packet that resulted from splitting, in bytes.
    mtu: u64,
    /// Number of frames whose missing checksum was computed.
    pub(crate) completed: u64,
}

impl Counts {
    fn drop(&mut self, cause: usize, bytes: u64) {
        self.drops[cause].add(1, bytes);
    }

    /// Adds frames that the kernel dropped, with 0 bytes because their sizes are unknown.
    pub(crate) fn add_kernel_drops(&mut self, lost: XdpCounts) {
        self.drops[RING_FULL].add(lost.ring_full, 0);
        self.drops[XDP_TOO_LONG].add(lost.too_long, 0);
    }

    /// Returns statistics of the coalesced frames that were split; `None` if there were none.
    pub(crate) fn cut(&self) -> Option<CutSegments> {
        (self.cut_frames > 0).then_some(CutSegments {
            frames: self.cut_frames,
            segments: self.cut_segments,
            mtu: self.mtu,
        })
    }
}

/// Why the filling of a burst ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filled {
    /// The burst is full, or no port has another frame.
    AsFarAsPossible,
    /// No buffer is free.
    OutOfBuffers,
    /// Frames were refused, and counted as drops.
    Refusing,
}

/// Settings of one queue of a live source.
pub(crate) struct Rules<'a> {
    /// Maximum frame size in bytes; longer frames are dropped.
    pub(crate) buffer_bytes: usize,
    /// Whether to split coalesced segments.
    pub(crate) cuts: bool,
    /// The stages' steering, in order.
    pub(crate) steers: Vec<Arc<dyn Steer>>,
    /// Limit on the packets that all queues together deliver; `None` for no limit.
    pub(crate) limit: Option<&'a Limit>,
    /// Index of this queue, and the number of queues. Positions of packets start at the index and
    /// increase by the number.
    pub(crate) queue: [u64; 2],
}

/// One queue of a live source.
pub(crate) struct LiveQueue<'a> {
    pub(crate) open: &'a Ports,
    pub(crate) ports: Vec<PortQueue>,
    rules: Rules<'a>,
    /// Index of the port to poll first, which changes with each poll.
    first: usize,
    segments: Segments,
    position: u64,
    /// Number of consecutive empty polls since the state of the ports was last queried; less than
    /// `IDLE_POLLS`.
    idle_polls: u32,
    pub(crate) counts: Counts,
}

impl<'a> LiveQueue<'a> {
    /// Creates a queue that receives from `receivers`, one per port.
    pub(crate) fn new(open: &'a Ports, receivers: Vec<Receiver>, rules: Rules<'a>) -> Self {
        let port = |receiver| PortQueue {
            receiver,
            taken: 0,
            coalesced: Coalesced::default(),
            went_down: 0,
            is_gone: false,
            stopped: [None; 2],
            end: None,
        };
        Self {
            open,
            ports: receivers.into_iter().map(port).collect(),
            first: 0,
            segments: Segments::new(),
            position: rules.queue[0],
            rules,
            idle_polls: 0,
            counts: Counts::default(),
        }
    }

    /// Fills `burst` with up to `most` packets. `now` is a recent timestamp in ticks, or 0 if there
    /// is none; it becomes `born_ticks` of the first packet.
    #[inline]
    pub(crate) fn poll<'p>(
        &mut self,
        stock: &mut Stock<'p>,
        burst: &mut Burst<'p>,
        most: usize,
        now: u64,
    ) -> Poll {
        // The limit may shrink during the poll, because other queues share it. So the packets
        // received are claimed afterwards.
        let left = self.rules.limit.map_or(u64::MAX, Limit::left);
        if left == 0 {
            return Poll::Finished;
        }
        let filled = self.fill(stock, burst, left.min(most as u64) as usize);
        if !burst.is_empty() && !self.claim(stock, burst) {
            return Poll::Finished;
        }
        if let Some(first) = burst.packets.first_mut() {
            first.meta_mut().born_ticks = now;
            self.idle_polls = 0;
            return Poll::Ready;
        }
        match filled {
            Filled::OutOfBuffers => return Poll::Blocked,
            Filled::Refusing => return Poll::Dropped,
            Filled::AsFarAsPossible => {}
        }
        self.idle_polls += 1;
        if self.idle_polls == IDLE_POLLS {
            self.idle_polls = 0;
            if self.are_gone() {
                return Poll::Finished;
            }
        }
        Poll::Starved
    }

    /// Claims the packets of a burst from the limit, if there is one, and drops those that exceed
    /// it. Returns whether the burst still has packets.
    #[inline]
    fn claim<'p>(&mut self, stock: &mut Stock<'p>, burst: &mut Burst<'p>) -> bool {
        let Some(limit) = self.rules.limit else { return true };
        let claimed = limit.claim(burst.len() as u64) as usize;
        for packet in burst.packets.drain(claimed..) {
            let bytes = packet.length() as u64;
            stock.taken.packets -= 1;
            stock.taken.bytes -= bytes;
            self.counts.drop(RUN_ENDED, bytes);
            stock.free.push(packet);
        }
        claimed > 0
    }

    /// Fills the burst with packets from the ports. Refuses at most as many frames as the burst
    /// could have packets: a sender of frames that do not fit must not keep the worker in this
    /// function.
    #[inline]
    fn fill<'p>(&mut self, stock: &mut Stock<'p>, burst: &mut Burst<'p>, most: usize) -> Filled {
        let count = self.ports.len();
        let mut port = self.first;
        let mut refused = 0;
        let mut clock = Clock::default();
        for _ in 0..count {
            while burst.len() < most && refused < most {
                if stock.free.is_empty() {
                    return Filled::OutOfBuffers;
                }
                if !self.segments.is_empty() {
                    let before = burst.len();
                    self.deliver_segment(stock, burst);
                    refused += usize::from(burst.len() == before);
                    continue;
                }
                let ports = &mut self.ports[port];
                let hides_offloads = ports.receiver.hides_offloads();
                let Some(received) = ports.receiver.receive() else { break };
                ports.taken += 1;
                let work = Work {
                    rules: &self.rules,
                    segments: &mut self.segments,
                    counts: &mut self.counts,
                    coalesced: &mut ports.coalesced,
                    port: port as u8,
                    hides_offloads,
                    clock: &mut clock,
                };
                match work.accept(received, stock) {
                    Some(packet) => push(packet, burst, &mut self.position, &self.rules),
                    None => refused += usize::from(self.segments.is_empty()),
                }
            }
            port = following(port, count);
        }
        self.first = following(self.first, count);
        if refused > 0 { Filled::Refusing } else { Filled::AsFarAsPossible }
    }

    /// Appends the next segment of the coalesced frame being split to the burst.
    fn deliver_segment<'p>(&mut self, stock: &mut Stock<'p>, burst: &mut Burst<'p>) {
        let Some(bytes) = self.segments.next_bytes() else { return self.segments.skip() };
        let Some(mut packet) = stock.free.pop() else { return };
        match packet.renew(bytes) {
            Some(room) if bytes <= self.rules.buffer_bytes => {
                self.segments.write_next(room);
                let meta = packet.meta_mut();
                (meta.time_ns, meta.port) = (self.segments.time_ns, self.segments.port);
                stock.taken.add(1, bytes as u64);
                push(packet, burst, &mut self.position, &self.rules);
            }
            _ => {
                self.counts.drop(TOO_LONG, bytes as u64);
                self.segments.skip();
                stock.free.push(packet);
            }
        }
    }

    /// Queries the state of the ports, and returns the indices of those whose interfaces are gone.
    #[cold]
    pub(crate) fn gone(&mut self) -> impl Iterator<Item = usize> {
        self.are_gone();
        self.ports.iter().enumerate().filter(|(_, port)| port.is_gone).map(|(index, _)| index)
    }

    /// Queries the state of the ports. Returns whether the interfaces of all of them are gone.
    #[cold]
    fn are_gone(&mut self) -> bool {
        for port in &mut self.ports {
            match port.receiver.state() {
                PortState::Unchanged => {}
                PortState::WentDown => port.went_down += 1,
                PortState::Gone => port.is_gone = true,
            }
        }
        self.ports.iter().all(|port| port.is_gone)
    }

    /// Returns the file descriptors that become readable when frames are waiting.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.ports.iter().map(|port| port.receiver.descriptor())
    }

    /// Makes the next empty poll query the state of the ports.
    pub(crate) fn query_soon(&mut self) {
        self.idle_polls = IDLE_POLLS - 1;
    }

    /// Stops receiving, and reads the interfaces' counters just before and just after. Segments of
    /// a coalesced frame that have not been delivered are dropped.
    pub(crate) fn retire(&mut self) {
        while let Some(bytes) = self.segments.next_bytes() {
            self.counts.drop(RUN_ENDED, bytes as u64);
            self.segments.skip();
        }
        let before = self.open.received(self.ports.len());
        for port in &mut self.ports {
            port.end = port.receiver.stop();
        }
        let after = self.open.received(self.ports.len());
        for (index, port) in self.ports.iter_mut().enumerate() {
            port.stopped = [before[index], after[index]];
            port.went_down += u64::from(port.receiver.state() == PortState::WentDown);
        }
    }

    /// Returns the packets that reached a socket but not the path, keyed by cause.
    pub(crate) fn drops(&self) -> BTreeMap<String, Tally> {
        let drops = CAUSES.iter().zip(self.counts.drops).filter(|(_, tally)| tally.packets > 0);
        drops.map(|(cause, tally)| ((*cause).to_owned(), tally)).collect()
    }
}

/// Sets the position and the RSS bucket of a packet, and appends it to the burst.
#[inline]
fn push<'p>(mut packet: Packet<'p>, burst: &mut Burst<'p>, position: &mut u64, rules: &Rules<'_>) {
    let steered = rules.steers.iter().find_map(|steer| steer.bucket(packet.bytes()));
    let bucket = steered.unwrap_or_else(|| flow_bucket(packet.bytes()));
    let meta = packet.meta_mut();
    (meta.bucket, meta.position, meta.born_ticks) = (bucket, *position, 0);
    *position += rules.queue[1];
    burst.packets.push(packet);
}

/// What a queue needs to accept one frame.
struct Work<'w, 'a> {
    rules: &'w Rules<'a>,
    segments: &'w mut Segments,
    counts: &'w mut Counts,
    coalesced: &'w mut Coalesced,
    port: u8,
    /// Whether the receiver does not report missing checksums, so that they can be recognized only
    /// by the value of the checksum field.
    hides_offloads: bool,
    clock: &'w mut Clock,
}

impl Work<'_, '_> {
    /// Returns a packet with the received frame; `None` if the frame was dropped, or if it is
    /// coalesced and was loaded for splitting. The stock must have a free buffer.
    #[inline]
    fn accept<'p>(self, received: Received<'_>, stock: &mut Stock<'p>) -> Option<Packet<'p>> {
        if let Some(segmentation) = received.offload.segments {
            self.coalesced.add(received.bytes, segmentation);
        }
        let on_wire = received.original_bytes as usize;
        if received.bytes.len() < on_wire {
            self.counts.drop(CUT_SHORT, on_wire as u64);
            return None;
        }
        let tag = received.vlan.map(|(ethertype, tag)| {
            let ([a, b], [c, d]) = (ethertype.to_be_bytes(), tag.to_be_bytes());
            [a, b, c, d]
        });
        if let Some(segmentation) = received.offload.segments {
            match segmentation {
                Segmentation::Unknown(_) => {
                    self.counts.drop(UNKNOWN_OFFLOAD, on_wire as u64);
                    return None;
                }
                Segmentation::Tcp(step) | Segmentation::Udp(step) if self.rules.cuts => {
                    self.load_segments(&received, tag, step);
                    return None;
                }
                Segmentation::Tcp(_) | Segmentation::Udp(_) => {}
            }
        }
        let bytes = received.bytes.len() + tag.map_or(0, |tag| tag.len());
        if bytes > self.rules.buffer_bytes || bytes == 0 {
            self.counts.drop(TOO_LONG, bytes as u64);
            return None;
        }
        let mut packet = stock.free.pop()?;
        let Some(room) = packet.renew(bytes) else {
            stock.free.push(packet);
            self.counts.drop(TOO_LONG, bytes as u64);
            return None;
        };
        let shift = match tag.filter(|_| received.bytes.len() >= ADDRESSES_BYTES) {
            None => {
                stock.kernels.copy(room, received.bytes);
                0
            }
            Some(tag) => {
                let (addresses, rest) = received.bytes.split_at(ADDRESSES_BYTES);
                room[..ADDRESSES_BYTES].copy_from_slice(addresses);
                room[ADDRESSES_BYTES..ADDRESSES_BYTES + 4].copy_from_slice(&tag);
                stock.kernels.copy(&mut room[ADDRESSES_BYTES + 4..], rest);
                4
            }
        };
        let is_finished = match self.hides_offloads {
            false => finish_checksum(room, received.offload, shift, stock).is_some(),
            true => complete(room),
        };
        self.counts.completed += u64::from(is_finished);
        let meta = packet.meta_mut();
        (meta.time_ns, meta.port) = (self.clock.time_ns(&received), self.port);
        stock.taken.add(1, bytes as u64);
        Some(packet)
    }

    fn load_segments(self, received: &Received<'_>, tag: Option<[u8; 4]>, step: u16) {
        let Some(count) = self.segments.load(received.bytes, tag, step) else {
            return self.counts.drop(UNKNOWN_OFFLOAD, received.bytes.len() as u64);
        };
        (self.segments.time_ns, self.segments.port) = (self.clock.time_ns(received), self.port);
        self.counts.cut_frames += 1;
        self.counts.cut_segments += count as u64;
        let frame = self.segments.next_bytes().unwrap_or(0);
        let link = ADDRESSES_BYTES + 2 + tag.map_or(0, |tag| tag.len());
        self.counts.mtu = self.counts.mtu.max(frame.saturating_sub(link) as u64);
    }
}

/// The time of a poll. It is read at most once per poll, because reading it takes longer than most
/// of the work on a packet.
#[derive(Debug, Default)]
struct Clock(Option<u64>);

impl Clock {
    /// Returns the receive timestamp in nanoseconds since 1970-01-01 UTC; the time of the poll if
    /// the kernel did not report one.
    #[inline]
    fn time_ns(&mut self, received: &Received<'_>) -> u64 {
        match received.time_ns {
            0 => *self.0.get_or_insert_with(|| {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                now.map_or(0, |now| now.as_nanos() as u64)
            }),
            time_ns => time_ns,
        }
    }
}

/// Computes a checksum that the sender left to the interface. So far, the checksum field contains
/// only the sum of the pseudo-header. `shift` is the number of bytes that were inserted before the
/// network header. Returns `None` if no checksum is missing, or if the offsets are outside the
/// frame.
#[inline]
fn finish_checksum(
    frame: &mut [u8],
    offload: Offload,
    shift: usize,
    stock: &mut Stock<'_>,
) -> Option<()> {
    let (start, offset) = offload.checksum?;
    let start = usize::from(start) + shift;
    let field = start + usize::from(offset);
    let sum = stock.kernels.checksum(frame.get(start..)?, Sum::ZERO).finish_udp();
    frame.get_mut(field..field + 2)?.copy_from_slice(&sum.to_be_bytes());
    Some(())
}

#[cfg(test)]
mod tests;
