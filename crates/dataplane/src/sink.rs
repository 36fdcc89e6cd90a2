// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet sinks: packets are discarded, or kept in memory until they are written to a file after
//! the run.

use crate::packet::Packet;

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
    /// Returns the number of packets kept.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns whether no packet was kept.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns each packet's position in the source's sequence, time of capture in nanoseconds, and
    /// bytes.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, &[u8])> {
        self.packets.iter().map(|p| (p.position, p.time_ns, &self.bytes[p.start..p.end]))
    }

    fn push(&mut self, position: u64, time_ns: u64, frame: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(frame);
        self.packets.push(KeptPacket { position, time_ns, start, end: self.bytes.len() });
    }

    /// Merges the contents of several sinks, always taking from the one whose next packet has the
    /// lowest position. The order within each sink is preserved, including packets that arrived out
    /// of order.
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

/// The sink of one worker, which keeps packets or discards them.
#[derive(Debug)]
pub(crate) struct Sink {
    /// Packets from this source position on are not kept.
    until: u64,
    pub(crate) kept: Kept,
}

impl Sink {
    /// Creates a sink that keeps the output for the first `until` packets of the source.
    pub(crate) fn keeping(until: u64) -> Self {
        Self { until, kept: Kept::default() }
    }

    #[inline]
    pub(crate) fn take(&mut self, packet: &Packet<'_>) {
        let meta = packet.meta();
        if meta.position < self.until {
            self.kept.push(meta.position, meta.time_ns, packet.bytes());
        }
    }
}
