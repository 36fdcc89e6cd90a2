// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives buffers back to the source queues from whose pools they came.

use crate::burst::MAX_BURST;
use crate::packet::Packet;
use crate::ring::Producer;

/// Buffer return rings, one per source queue; none on workers that have a source queue themselves.
#[derive(Default)]
pub(crate) struct Homes<'p> {
    rings: Vec<Producer<Packet<'p>>>,
    /// Buffers of the current burst, by source queue. Not used if there is only one source queue.
    staged: Vec<Vec<Packet<'p>>>,
}

impl<'p> Homes<'p> {
    /// Adds the return ring of the next source queue. It must have room for all buffers of that
    /// queue's pool.
    pub(crate) fn add(&mut self, ring: Producer<Packet<'p>>) {
        self.rings.push(ring);
        self.staged.push(Vec::with_capacity(MAX_BURST));
    }

    /// Gives the buffers in `released`, at most [`MAX_BURST`], back to their source queues, and
    /// leaves `released` empty. Publishes the index of each ring once.
    #[inline]
    pub(crate) fn give_back(&mut self, released: &mut Vec<Packet<'p>>) {
        if let [only] = self.rings.as_mut_slice() {
            only.push_from(released);
            return;
        }
        for packet in released.drain(..) {
            self.staged[packet.home()].push(packet);
        }
        for (ring, staged) in self.rings.iter_mut().zip(&mut self.staged) {
            ring.push_from(staged);
            debug_assert!(staged.is_empty(), "a return ring has room for all buffers of its pool");
        }
    }
}

#[cfg(test)]
mod tests;
