// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet sinks: they discard packets, send them on interfaces, or keep them in memory until they
//! are written to a file after the run.

use crate::live::transmit::{LiveSink, Stall};
use crate::packet::Packet;
use linerate_record::run::Tally;
use std::collections::BTreeMap;

/// Packets kept by the sinks, in source order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    bytes: Vec<u8>,
    packets: Vec<KeptPacket>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeptPacket {
    position: u64,
    time_ns: u64,
    start: usize,
    end: usize,
}

impl Kept {
    /// Returns the number of packets.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns whether there are no packets.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Iterates over the packets' positions in the source sequence, times of capture in
    /// nanoseconds, and bytes.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, &[u8])> {
        self.packets.iter().map(|p| (p.position, p.time_ns, &self.bytes[p.start..p.end]))
    }

    fn push(&mut self, position: u64, time_ns: u64, frame: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(frame);
        self.packets.push(KeptPacket { position, time_ns, start, end: self.bytes.len() });
    }

    /// Merges the packets of several sinks by repeatedly taking the next packet with the lowest
    /// position. Preserves the order within each sink, even if packets arrived out of order.
    pub(crate) fn merge(parts: &[Self]) -> Self {
        let mut merged = Self::default();
        let mut next = vec![0; parts.len()];
        let head = |part: usize, next: &[usize]| parts[part].packets.get(next[part]).copied();
        while let Some((part, packet)) = (0..parts.len())
            .filter_map(|part| Some((part, head(part, &next)?)))
            .min_by_key(|(_, packet)| packet.position)
        {
            let frame = &parts[part].bytes[packet.start..packet.end];
            merged.push(packet.position, packet.time_ns, frame);
            next[part] += 1;
        }
        merged
    }
}

/// A worker's sink, which keeps, sends or discards packets.
#[derive(Debug)]
pub(crate) struct Sink {
    /// Packets at this or a later position in the source sequence are not kept.
    until: u64,
    pub(crate) kept: Kept,
    /// The interfaces on which packets are sent, if any.
    pub(crate) live: Option<Box<LiveSink>>,
}

impl Sink {
    /// Creates a sink that keeps packets at source positions below `until`.
    pub(crate) fn keeping(until: u64) -> Self {
        Self { until, kept: Kept::default(), live: None }
    }

    /// Creates a sink that sends packets on interfaces.
    pub(crate) fn sending(live: LiveSink) -> Self {
        Self { live: Some(Box::new(live)), ..Self::keeping(0) }
    }

    /// Sends a burst if this sink has interfaces. Returns the number of packets and bytes that were
    /// dropped, and sets `born_ticks` of the dropped packets to 0. Calls `stall` while an interface
    /// is full.
    #[inline]
    pub(crate) fn send(&mut self, packets: &mut [Packet<'_>], stall: impl FnMut(Stall)) -> Tally {
        self.live.as_mut().map_or_else(Tally::default, |live| live.send(packets, stall))
    }

    /// Makes the kernel send frames that it has left in a ring, if this sink has interfaces.
    pub(crate) fn close(&mut self) {
        self.live.iter_mut().for_each(|live| live.close());
    }

    /// Returns the packets that could not be sent, by cause.
    pub(crate) fn drops(&self) -> BTreeMap<String, Tally> {
        self.live.as_ref().map(|live| live.drops()).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn take(&mut self, packet: &Packet<'_>) {
        let meta = packet.meta();
        if meta.position < self.until {
            self.kept.push(meta.position, meta.time_ns, packet.bytes());
        }
    }
}
