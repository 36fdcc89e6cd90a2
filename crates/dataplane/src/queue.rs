// SPDX-License-Identifier: MIT OR Apache-2.0
//! A source queue: delivers packets from memory or from network interfaces.

use crate::burst::Burst;
use crate::live::receive::LiveQueue;
use crate::meter::Clock;
use crate::source::{Poll, Replay};
use crate::stock::Stock;
use linerate_record::run::Tally;
use std::collections::BTreeMap;

/// Where the packets of a source queue come from: memory or network interfaces.
pub(crate) enum Origin<'a> {
    Replay(Replay<'a>),
    Live(Box<LiveQueue<'a>>),
}

/// A source queue, which feeds one replica.
pub(crate) struct SourceQueue<'a, 'p> {
    pub(crate) origin: Origin<'a>,
    pub(crate) stock: Stock<'p>,
}

impl<'p> SourceQueue<'_, 'p> {
    /// Sets the start time of a paced source, in ticks.
    pub(crate) fn start_at(&mut self, ticks: u64) {
        if let Origin::Replay(replay) = &mut self.origin {
            replay.start_at(ticks);
        }
    }

    /// Fills `burst` with up to `most` packets. `now` is a recent timestamp in ticks, or 0 if there
    /// is none. A paced source reads the clock itself.
    #[inline]
    pub(crate) fn poll<C: Clock>(
        &mut self,
        burst: &mut Burst<'p>,
        most: usize,
        now: u64,
        clock: &C,
    ) -> Poll {
        self.stock.collect(most);
        match &mut self.origin {
            Origin::Replay(replay) => replay.poll(&mut self.stock, burst, most, now, clock),
            Origin::Live(live) => live.poll(&mut self.stock, burst, most, now),
        }
    }

    /// Marks the queue as finished: other queues no longer wait for it, and it receives no more
    /// packets.
    pub(crate) fn retire(&mut self) {
        match &mut self.origin {
            Origin::Replay(replay) => replay.retire(),
            Origin::Live(live) => live.retire(),
        }
    }

    /// Returns the packets that reached the source but not the path, by cause.
    pub(crate) fn drops(&self) -> BTreeMap<String, Tally> {
        match &self.origin {
            Origin::Replay(replay) => replay.drops(),
            Origin::Live(live) => live.drops(),
        }
    }
}
