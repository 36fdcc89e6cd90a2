// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures: the quantities that conditions in rules refer to.

use super::costs::{Costs, fit};
use linerate_record::stats::Estimate;
use linerate_record::stream::{StreamMode, StreamPathKind, StreamPoint, StreamReport, StreamSide};

/// Minimum CPU demand at which a side counts as having no idle time: 1, minus the time for which it
/// waits for the other side although it is the bottleneck.
pub(super) const FULL: f64 = 0.85;
/// Fraction of the datagrams received at or above which a sender without idle time limits the
/// stream more than the loss does: at most 15 % of the datagrams sent are lost.
pub(super) const DELIVERED: f64 = 0.85;

/// A point, and the sweep that it is part of.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The sweep.
    pub report: &'a StreamReport,
    /// The point.
    pub point: &'a StreamPoint,
}

/// A measure. Times are fractions (0 to 1) of the measurement time; CPU times are fractions of the
/// CPUs that the threads can use, which are at most one per thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// About 1 if the CPUs that the busier side can use are busy with it, or if its threads always
    /// run or wait for a CPU. On one machine, also if both sides together use all CPUs they can.
    Demand,
    /// As `Demand`, but also about 1 if at nearly all times one end of each connection needs a CPU.
    /// On two machines, this equals `Demand`, unless the ends take turns (requests).
    BothDemand,
    /// CPU time of the busier side.
    Cpu,
    /// Mean time that a thread of the busier side waited for a CPU.
    Waiting,
    /// CPU time of threads that outnumber the CPUs that they can use, relative to those CPUs; 0 if
    /// they do not outnumber them. About 1 if the threads keep the CPUs busy.
    OwnLoad,
    /// 1 if sender and receiver were confined to the same CPU, otherwise 0.
    SameCpu,
    /// Time limited by the receiver's window.
    WindowLimited,
    /// Time limited by the send buffer.
    SendBufferLimited,
    /// Time limited by the send buffer, relative to the time spent limited by the receiver's
    /// window.
    SendBufferOverWindow,
    /// Message size relative to the sender's buffer.
    MessageOverSendBuffer,
    /// The sender's buffer relative to the bandwidth-delay product at the minimum round-trip time.
    /// A full queue on the way raises the round-trip time, not the minimum.
    SendBufferOverBdp,
    /// Context switches of the sender per call: about 1 if it sleeps in each call.
    SenderSwitchesPerCall,
    /// 1 if TCP window scaling is in use, 0 if not.
    WindowScaling,
    /// Fraction of readings in which Nagle's algorithm held back data.
    HeldBack,
    /// Time that the sender slept between messages.
    SenderPaused,
    /// Time that the receiver slept between reads.
    ReceiverPaused,
    /// Window advertised by the receiver, relative to the bandwidth-delay product. About 1 if the
    /// receive buffer is small; much larger if the buffer is large and data waits in it to be read.
    PeerWindow,
    /// Fraction of segments retransmitted, excluding spurious retransmissions (segments that the
    /// receiver already had).
    Retransmitted,
    /// Segments dropped by the receivers' sockets, per retransmitted segment. Excludes segments
    /// that a receiver already had: their copies are dropped as well.
    ReceiverDropped,
    /// Throughput relative to the pacing limit.
    OfPacing,
    /// Throughput relative to the limit of the queueing discipline.
    OfQdisc,
    /// Datagrams dropped at the receiver's buffer, per datagram sent.
    BufferDrops,
    /// Fraction of the drops at the receiver's buffer that a buffer four times as large leaves,
    /// according to other points of the sweep; 0 if it has no such point.
    DropsLeft,
    /// Datagrams received per datagram sent by a sender without idle time; 0 if it has idle time.
    DeliveredAtFullLoad,
    /// Datagrams lost in transit, per datagram sent.
    LostInTransit,
    /// 1 if checksums are computed by a CPU.
    SoftwareChecksum,
    /// Payload per segment, bytes.
    SegmentBytes,
    /// Fraction of the busier side's CPU time that is per-call cost.
    CallShare,
    /// Bytes per call of the busier side.
    BytesPerCall,
    /// Context switches of both sides per MB of payload.
    Switches,
    /// 1 for requests and replies, 0 for a one-way stream.
    IsRequest,
    /// 1 if both ends are on this machine.
    IsLocal,
}

impl Measure {
    /// Returns the description and unit to show in the evidence.
    pub fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Demand => ("CPU demand of the busier side", "ratio"),
            Self::BothDemand => ("CPU demand of both sides", "ratio"),
            Self::Cpu => ("CPU time of the busier side", "ratio"),
            Self::Waiting => ("time that the busier side waited for a CPU", "ratio"),
            Self::OwnLoad => ("CPU time of threads that share CPUs", "ratio"),
            Self::SameCpu => ("both sides on one CPU", "1 = yes"),
            Self::WindowLimited => ("time spent limited by the receiver's window", "ratio"),
            Self::SendBufferLimited => ("time spent limited by the send buffer", "ratio"),
            Self::SendBufferOverWindow => (
                "time spent limited by the send buffer / time spent limited by the receiver's \
                 window",
                "ratio",
            ),
            Self::MessageOverSendBuffer => ("message size / send buffer", "ratio"),
            Self::SendBufferOverBdp => {
                ("send buffer relative to the bandwidth-delay product (minimum RTT)", "ratio")
            }
            Self::SenderSwitchesPerCall => ("context switches of the sender per call", "ratio"),
            Self::WindowScaling => ("window scaling", "1 = yes"),
            Self::HeldBack => ("readings with small writes held back (Nagle)", "ratio"),
            Self::SenderPaused => ("time that the sender paused", "ratio"),
            Self::ReceiverPaused => ("time that the receiver paused", "ratio"),
            Self::PeerWindow => ("window relative to the bandwidth-delay product", "ratio"),
            Self::Retransmitted => ("retransmitted segments", "ratio"),
            Self::ReceiverDropped => ("drops at the receiver per retransmission", "ratio"),
            Self::OfPacing => ("throughput relative to the pacing limit", "ratio"),
            Self::OfQdisc => ("throughput relative to the qdisc limit", "ratio"),
            Self::BufferDrops => ("datagrams dropped at the receive buffer", "ratio"),
            Self::DropsLeft => (
                "drops that remain with a receive buffer four times as large (0: not swept)",
                "ratio",
            ),
            Self::DeliveredAtFullLoad => {
                ("datagrams received per datagram sent (0: the sender has idle time)", "ratio")
            }
            Self::LostInTransit => ("datagrams lost in transit", "ratio"),
            Self::SoftwareChecksum => ("checksums in software", "1 = yes"),
            Self::SegmentBytes => ("payload per segment", "bytes"),
            Self::CallShare => ("share of CPU time that is per-call overhead", "ratio"),
            Self::BytesPerCall => ("payload per system call", "bytes"),
            Self::Switches => ("context switches of both sides", "1/MB"),
            Self::IsRequest => ("requests and replies", "1 = yes"),
            Self::IsLocal => ("both ends on this machine", "1 = yes"),
        }
    }

    /// Returns the measure's value; `None` if it was not read or does not apply.
    pub fn of(self, facts: &Facts<'_>) -> Option<Estimate> {
        let exactly = |value: f64| Some(Estimate::exactly(value));
        let yes = |is: bool| exactly(if is { 1.0 } else { 0.0 });
        let Facts { report, point } = facts;
        let tcp = point.tcp.as_ref();
        let busier = facts.busier();
        match self {
            Self::Demand => exactly(facts.demand()?),
            Self::BothDemand => exactly(facts.both_demand()?),
            Self::Cpu => exactly(facts.cpu_share(busier)?),
            Self::Waiting => exactly(busier.waiting? / facts.threads()),
            Self::OwnLoad => exactly(facts.own_load()?),
            Self::SameCpu => yes(facts.same_cpu()?),
            Self::WindowLimited => exactly(tcp?.rwnd_limited),
            Self::SendBufferLimited => exactly(tcp?.sndbuf_limited),
            Self::SendBufferOverWindow => {
                let tcp = tcp.filter(|tcp| tcp.sndbuf_limited > 0.0)?;
                exactly(tcp.sndbuf_limited / tcp.rwnd_limited.max(1e-9))
            }
            Self::MessageOverSendBuffer => {
                let buffer = tcp.and(point.sender.buffer_bytes).filter(|bytes| *bytes > 0)?;
                exactly(point.message_bytes as f64 / buffer as f64)
            }
            Self::SenderSwitchesPerCall => {
                let calls = Some(point.sender.calls_per_mb).filter(|calls| *calls > 0.0)?;
                exactly(point.sender.switches_per_mb / calls)
            }
            Self::WindowScaling => yes(tcp?.window_scaling),
            Self::HeldBack => exactly(tcp?.held_back),
            Self::SenderPaused => exactly(point.sender.paused),
            Self::ReceiverPaused => exactly(point.receiver.paused),
            Self::Retransmitted => {
                let tcp = tcp.filter(|tcp| tcp.segments > 0)?;
                let lost = tcp.retransmitted.saturating_sub(tcp.needless.unwrap_or(0));
                exactly(lost as f64 / tcp.segments as f64)
            }
            Self::ReceiverDropped => {
                let tcp = tcp.filter(|tcp| tcp.retransmitted > 0)?;
                let needless = tcp.needless.unwrap_or(0);
                let lost = tcp.retransmitted.saturating_sub(needless).max(1);
                exactly(tcp.receiver_drops?.saturating_sub(needless) as f64 / lost as f64)
            }
            Self::SendBufferOverBdp => {
                let needed = facts.bdp_bytes(tcp?.min_rtt_us)?;
                exactly(point.sender.buffer_bytes? as f64 / needed)
            }
            Self::PeerWindow => {
                exactly(tcp?.peer_window_bytes? as f64 / facts.bdp_bytes(tcp?.rtt_us)?)
            }
            Self::OfPacing => of_limit(point, facts.pacing()?),
            Self::OfQdisc => of_limit(point, report.path.qdisc_bits_per_s?),
            Self::BufferDrops => of_sent(point, point.udp.as_ref()?.buffer_drops?),
            Self::DropsLeft => exactly(facts.drops_left()?),
            Self::DeliveredAtFullLoad => exactly(facts.delivered_at_full_load()?),
            Self::LostInTransit => of_sent(point, point.udp.as_ref()?.lost?),
            Self::SoftwareChecksum => yes(report.path.software_checksum?),
            Self::SegmentBytes => match tcp {
                Some(tcp) => exactly(tcp.segment_bytes),
                None => exactly(point.message_bytes as f64),
            },
            Self::CallShare => exactly(facts.costs()?.share_of_call(busier.bytes_per_call)),
            Self::BytesPerCall => exactly(busier.bytes_per_call).filter(|x| x.value > 0.0),
            Self::Switches => exactly(facts.switches()),
            Self::IsRequest => yes(report.mode == StreamMode::Request),
            Self::IsLocal => yes(report.path.kind != StreamPathKind::Network),
        }
    }
}

fn of_limit(point: &StreamPoint, bits_per_s: f64) -> Option<Estimate> {
    Some(point.gbps.estimate()?.scale(1e9 / bits_per_s))
}

fn of_sent(point: &StreamPoint, datagrams: u64) -> Option<Estimate> {
    let sent = point.udp.as_ref()?.sent;
    (sent > 0).then(|| Estimate::exactly(datagrams as f64 / sent as f64))
}

impl<'a> Facts<'a> {
    /// Returns whether the sender is the busier side, counting both CPU time and time waiting for a
    /// CPU. A sender of datagrams goes on sending if the receiver has no time left to read them, so
    /// such a receiver is the busier side.
    pub(super) fn is_sender_busier(&self) -> bool {
        let of = |side| self.demand_of(side).unwrap_or(0.0);
        let (sender, receiver) = (of(&self.point.sender), of(&self.point.receiver));
        let is_overrun = receiver >= FULL && self.delivered() < DELIVERED;
        sender >= receiver && !is_overrun
    }

    pub(super) fn busier(&self) -> &'a StreamSide {
        match self.is_sender_busier() {
            true => &self.point.sender,
            false => &self.point.receiver,
        }
    }

    /// Returns the bandwidth-delay product per connection in bytes, for a round-trip time in us;
    /// `None` if it is 0, or the throughput unknown.
    pub(super) fn bdp_bytes(&self, rtt_us: f64) -> Option<f64> {
        // Bits per nanosecond times microseconds.
        let gbps = self.point.gbps.as_number()? / self.point.connections as f64;
        Some(gbps * rtt_us * 1e3 / 8.0).filter(|bytes| *bytes > 0.0)
    }

    /// Returns the context switches of both sides per MB of payload.
    pub(super) fn switches(&self) -> f64 {
        self.point.sender.switches_per_mb + self.point.receiver.switches_per_mb
    }

    /// Returns the total pacing limit of all connections, in bits per second; `None` if they are
    /// not paced.
    pub(super) fn pacing(&self) -> Option<f64> {
        let tcp = self.point.tcp.as_ref().and_then(|tcp| tcp.pacing_bits_per_s);
        let udp = self.point.udp.and_then(|udp| udp.paced_bits_per_s).map(|bits| bits as f64);
        tcp.or(udp).map(|bits| bits * self.point.connections as f64)
    }

    /// Returns whether sender and receiver were confined to the same CPU; `None` if they are on two
    /// machines.
    fn same_cpu(&self) -> Option<bool> {
        let (sender, receiver) = (&self.point.sender, &self.point.receiver);
        let is_fixed = sender.allowed_cpus == 1 && receiver.allowed_cpus == 1;
        let is_local = self.report.path.kind != StreamPathKind::Network;
        let is_same = sender.cpus.len() == 1 && sender.cpus == receiver.cpus;
        is_local.then_some(is_fixed && is_same)
    }

    /// Returns the points with the same message size and number of connections.
    pub(super) fn alike(&self) -> impl Iterator<Item = &'a StreamPoint> {
        let (message, connections) = (self.point.message_bytes, self.point.connections);
        self.report
            .points
            .iter()
            .filter(move |point| point.message_bytes == message && point.connections == connections)
    }

    /// Returns the fastest point with the same message size and number of connections.
    pub(super) fn fastest_alike(&self) -> Option<&'a StreamPoint> {
        let rate = |point: &&StreamPoint| point.gbps.as_number().unwrap_or(0.0);
        self.alike().max_by(|a, b| rate(a).total_cmp(&rate(b)))
    }

    /// Returns the cost per call and per byte on the busier side, derived from the points that
    /// differ from this one only in message size; `None` if [`fit`] rejects them.
    pub(super) fn costs(&self) -> Option<Costs> {
        let is_sender = self.is_sender_busier();
        let is_alike = |point: &&StreamPoint| {
            point.send_buffer_bytes == self.point.send_buffer_bytes
                && point.receive_buffer_bytes == self.point.receive_buffer_bytes
                && point.connections == self.point.connections
        };
        let cost = |point: &StreamPoint| {
            let side = if is_sender { &point.sender } else { &point.receiver };
            let per_byte = side.cpu_us_per_kb.as_number()? / 1024.0;
            Some((side.bytes_per_call, per_byte * side.bytes_per_call))
        };
        let points: Vec<(f64, f64)> =
            self.report.points.iter().filter(is_alike).filter_map(cost).collect();
        fit(&points)
    }
}
