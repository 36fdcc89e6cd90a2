// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bursts: groups of packets that are handed over together.

use crate::context::StageContext;
use crate::packet::Packet;

/// Maximum number of packets in a burst.
pub const MAX_BURST: usize = 256;

/// What happens to a packet after a stage has processed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet continues to the next stage.
    Pass,
    /// The packet is dropped; the index into the stage's `drop_causes` says why.
    Drop(u8),
    /// The packet ends in this stage by design.
    Consume,
}

/// Packets handed over together, in order.
pub struct Burst<'p> {
    pub(crate) packets: Vec<Packet<'p>>,
    /// Dropped or consumed packets, whose buffers the worker returns.
    pub(crate) released: Vec<Packet<'p>>,
    /// Index of the packet being processed, for reporting a panic; past the end when none is.
    cursor: usize,
    /// Number of packets before the cursor that passed, during a pass over the burst.
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

    /// Returns whether no packet is left in the burst.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns the packets of the burst, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Packet<'p>> {
        self.packets.iter()
    }

    /// Appends a packet.
    ///
    /// Never allocates below [`MAX_BURST`] packets.
    #[inline]
    pub fn push(&mut self, packet: Packet<'p>) {
        self.packets.push(packet);
    }

    /// Returns the dropped or consumed packets that have not been returned to their pool yet.
    pub fn released(&self) -> &[Packet<'p>] {
        &self.released
    }

    /// Removes all packets, passed ones first, so that their buffers can be reused.
    pub fn drain(&mut self) -> impl Iterator<Item = Packet<'p>> + '_ {
        self.packets.drain(..).chain(self.released.drain(..))
    }

    /// Returns the total length of the frames, in bytes.
    pub fn bytes(&self) -> u64 {
        self.packets.iter().map(|p| p.length() as u64).sum()
    }

    /// Calls `f` on each packet in order and applies the verdict it returns. Passed packets keep
    /// their order; the others are counted in the account of `context`.
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

    /// Returns the packet that a stage was processing when it panicked; `None` if it was between
    /// packets.
    pub(crate) fn at_cursor(&self) -> Option<&Packet<'p>> {
        self.packets.get(self.cursor)
    }

    /// Returns the packets that are still in the burst after a stage panicked while it processed
    /// the burst.
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
