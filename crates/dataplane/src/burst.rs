// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bursts: groups of packets that a worker processes and passes on together.

use crate::context::StageContext;
use crate::packet::Packet;

/// Maximum number of packets in a burst.
pub const MAX_BURST: usize = 256;

/// A stage's decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet continues to the next stage.
    Pass,
    /// The packet is dropped. The value is an index into the stage's `drop_causes`.
    Drop(u8),
    /// The packet ends in this stage by design.
    Consume,
}

/// A group of packets that a worker processes in order and passes on together.
pub struct Burst<'p> {
    pub(crate) packets: Vec<Packet<'p>>,
    /// Dropped and consumed packets, whose buffers the worker returns to their pools.
    pub(crate) released: Vec<Packet<'p>>,
    /// Index of the packet that the stage is processing, for reports of panics. Between packets,
    /// the index is past the end of the burst.
    cursor: usize,
    /// While verdicts are being applied: the number of packets before the cursor that stay in the
    /// burst.
    kept: usize,
}

impl<'p> Burst<'p> {
    /// Creates an empty burst with room for [`MAX_BURST`] packets.
    pub fn new() -> Self {
        Self {
            packets: Vec::with_capacity(MAX_BURST),
            released: Vec::with_capacity(MAX_BURST),
            cursor: usize::MAX,
            kept: 0,
        }
    }

    /// Returns the number of packets in the burst.
    #[inline]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns whether the burst contains no packets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Iterates over the packets, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Packet<'p>> {
        self.packets.iter()
    }

    /// Appends a packet. Does not allocate while the burst has fewer than [`MAX_BURST`] packets.
    #[inline]
    pub fn push(&mut self, packet: Packet<'p>) {
        self.packets.push(packet);
    }

    /// Returns the dropped and consumed packets whose buffers are not yet back in their pools.
    pub fn released(&self) -> &[Packet<'p>] {
        &self.released
    }

    /// Removes all packets and returns them for reuse of their buffers: first those still in the
    /// burst, then the dropped and consumed ones.
    pub fn drain(&mut self) -> impl Iterator<Item = Packet<'p>> + '_ {
        self.packets.drain(..).chain(self.released.drain(..))
    }

    /// Returns the total length of the frames, in bytes.
    pub fn bytes(&self) -> u64 {
        self.packets.iter().map(|p| p.length() as u64).sum()
    }

    /// Calls `f` on each packet in order and applies the returned verdict. Passed packets keep
    /// their order; dropped and consumed packets are counted in the account of `context`.
    #[inline]
    pub fn sift(
        &mut self,
        context: &mut StageContext,
        mut f: impl FnMut(&mut Packet<'p>, &mut StageContext) -> Verdict,
    ) {
        self.kept = 0;
        for i in 0..self.packets.len() {
            self.cursor = i;
            let packet = &mut self.packets[i];
            let tally = match f(packet, context) {
                Verdict::Pass => {
                    if self.kept != i {
                        self.packets.swap(self.kept, i);
                    }
                    self.kept += 1;
                    continue;
                }
                Verdict::Drop(cause) => &mut context.account.drops[usize::from(cause)],
                Verdict::Consume => &mut context.account.consumed,
            };
            tally.add(1, packet.length() as u64);
        }
        self.released.extend(self.packets.drain(self.kept..));
        self.cursor = usize::MAX;
    }

    /// Sets the index of the packet being processed; an index past the end means none. Call only if
    /// no packet before that index has been dropped.
    pub(crate) fn set_cursor(&mut self, index: usize) {
        (self.cursor, self.kept) = (index, index);
    }

    /// Returns the packet that a stage was processing when it panicked; `None` if it was between
    /// packets.
    pub(crate) fn at_cursor(&self) -> Option<&Packet<'p>> {
        self.packets.get(self.cursor)
    }

    /// Returns the packets that were still in the burst when a stage panicked.
    pub(crate) fn remaining(&self) -> impl Iterator<Item = &Packet<'p>> {
        let gone = if self.at_cursor().is_some() { self.kept..self.cursor } else { 0..0 };
        let left = self.packets.iter().enumerate().filter(move |(i, _)| !gone.contains(i));
        left.map(|(_, packet)| packet)
    }
}

impl Default for Burst<'_> {
    fn default() -> Self {
        Self::new()
    }
}
