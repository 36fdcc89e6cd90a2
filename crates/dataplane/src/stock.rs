// SPDX-License-Identifier: MIT OR Apache-2.0
//! The buffers of a source queue, and the handling of buffers that all sources share.

use crate::kernels::StageKernels;
use crate::packet::Packet;
use crate::ring::Consumer;
use linerate_record::run::Tally;

/// The free buffers of a source queue, the rings over which used buffers return, and the number of
/// packets delivered.
pub(crate) struct Stock<'p> {
    /// Free buffers, as a stack: the most recently used buffer is the most likely to be in the
    /// cache.
    pub(crate) free: Vec<Packet<'p>>,
    pub(crate) returns: Vec<Consumer<Packet<'p>>>,
    /// Kernels for copying frames.
    pub(crate) kernels: StageKernels,
    pub(crate) taken: Tally,
}

impl<'p> Stock<'p> {
    pub(crate) fn new(
        free: Vec<Packet<'p>>,
        returns: Vec<Consumer<Packet<'p>>>,
        kernels: StageKernels,
    ) -> Self {
        Self { free, returns, kernels, taken: Tally::default() }
    }

    /// Collects returned buffers if fewer than `wanted` are free.
    #[inline]
    pub(crate) fn collect(&mut self, wanted: usize) {
        if self.free.len() < wanted {
            for ring in &mut self.returns {
                ring.pop_into(&mut self.free, usize::MAX);
            }
        }
    }
}
