// SPDX-License-Identifier: MIT OR Apache-2.0
//! Code shared by both sides of the application: stages that receive, stages that send, and stages
//! that do either, depending on a packet's direction.

use super::{Place, place};
use linerate_stage_api::ring::{Consumer, Producer, ring};
use linerate_stage_api::{Burst, Packet, Stage, StageContext, Verdict};

/// One side of the application: the serving node's or the terminals'.
pub(super) trait Side: Send + 'static {
    /// Checks a packet from the wire.
    fn receive(packet: &mut Packet<'_>) -> Verdict;

    /// Writes the headers of a packet from `RLP`.
    fn send(&self, packet: &mut Packet<'_>, context: &mut StageContext) -> Verdict;
}

/// Stage that receives on side `S`.
pub(super) struct Receive<S>(std::marker::PhantomData<S>);

impl<S: Side> Receive<S> {
    pub(super) fn boxed() -> Box<dyn Stage> {
        Box::new(Self(std::marker::PhantomData))
    }
}

impl<S: Side> Stage for Receive<S> {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, _| S::receive(packet));
    }
}

/// Stage that sends on side `S`.
pub(super) struct Transmit<S>(pub(super) S);

impl<S: Side> Stage for Transmit<S> {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, context| self.0.send(packet, context));
    }
}

/// Stage that receives and sends on side `S`.
pub(super) struct Both<S> {
    side: S,
    other: OtherSide,
}

impl<S: Side> Both<S> {
    pub(super) fn new(side: S) -> Self {
        Self { side, other: OtherSide::new() }
    }
}

impl<S: Side> Stage for Both<S> {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        self.other.look();
        burst.sift(context, |packet, context| match place(packet) {
            Place::Wire => S::receive(packet),
            _ => self.side.send(packet, context),
        });
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        self.other.counts()
    }
}

/// Returns the drop causes: `faults`, followed by `not_framed` for packets that did not come from
/// `RLP`.
pub(super) const fn and_not_framed<const FAULTS: usize, const CAUSES: usize>(
    faults: &[&'static str; FAULTS],
) -> [&'static str; CAUSES] {
    assert!(CAUSES == FAULTS + 1);
    let mut causes = ["not_framed"; CAUSES];
    let (of_faults, _) = causes.split_at_mut(FAULTS);
    of_faults.copy_from_slice(faults);
    causes
}

/// Input queue of the other direction, which is always empty. As in the Netra document, a worker
/// that serves both directions polls it once per iteration. Polling this queue in memory costs less
/// than polling a device.
struct OtherSide {
    _producer: Producer<u32>,
    queue: Consumer<u32>,
    looks: u64,
}

impl OtherSide {
    fn new() -> Self {
        let (producer, queue) = ring(2);
        Self { _producer: producer, queue, looks: 0 }
    }

    #[inline]
    fn look(&mut self) {
        self.looks += 1;
        let found = self.queue.pop();
        debug_assert!(found.is_none(), "the queue of the other direction is always empty");
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![("looks_at_other_side", self.looks)]
    }
}
