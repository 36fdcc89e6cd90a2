// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stages that process only one class of packets. Packets of other classes bypass the stage and
//! rejoin the burst after it.
//!
//! ```text
//! burst       a B c D e      capitals: not in the stage's class
//! split       a c e          set aside: B D        order: a B c D e
//! the stage   a e            drops c
//! join        a B D e        in the original order
//! ```
//!
//! Packets are identified by their buffers, not by their positions: a burst may contain packets
//! from several source queues, and their positions are not in order.

use super::Part;
use crate::burst::{Burst, MAX_BURST};
use crate::packet::Packet;
use linerate_path::model::PacketClass;
use linerate_record::run::Tally;

/// The packet class of a stage that processes only some packets, and the stage's packet counts.
#[derive(Debug)]
pub(crate) struct Branch {
    /// The class that the stage processes; packets of other classes bypass it.
    only: PacketClass,
    /// Packets that arrived at the stage, counted before the burst is split.
    pub(crate) arrived: u64,
    /// Packets that bypassed the stage, counted when they rejoin the burst.
    pub(crate) bypassed: Tally,
}

impl Branch {
    /// Creates the branch of a stage that is restricted to `only`; `None` if the stage processes
    /// all packets.
    pub(crate) fn new(only: PacketClass) -> Option<Self> {
        let is_branch = only != PacketClass::All;
        is_branch.then(|| Self { only, arrived: 0, bypassed: Tally::default() })
    }

    /// Returns the reason why a stage had nothing to do: none of the packets that arrived was in
    /// its class. Returns `None` if no packet arrived. Call only if the stage processed none.
    pub(crate) fn idle(&self) -> Option<String> {
        let word = self.only.word();
        (self.arrived > 0).then(|| format!("`only` = {word} matches none of them"))
    }
}

/// The packets of a burst that bypass a stage while the stage processes the others.
pub(crate) struct Bypass<'p> {
    /// Packets that bypass the stage, in order.
    aside: Vec<Packet<'p>>,
    /// IDs of the buffers in the burst, in their order before the stage. Empty if all packets
    /// bypass the stage, or none.
    order: Vec<usize>,
    /// Temporary storage while packets are moved; otherwise empty.
    spare: Vec<Packet<'p>>,
}

impl<'p> Bypass<'p> {
    /// Creates an empty bypass. If `is_used`, allocates all its memory now.
    pub(crate) fn new(is_used: bool) -> Self {
        let room = if is_used { MAX_BURST } else { 0 };
        Self {
            aside: Vec::with_capacity(room),
            order: Vec::with_capacity(room),
            spare: Vec::with_capacity(room),
        }
    }

    /// Returns the packets that currently bypass the stage.
    pub(crate) fn aside(&self) -> &[Packet<'p>] {
        &self.aside
    }

    /// Moves those packets of a burst that are not in the class `only` to `aside`. Does nothing if
    /// all packets are in the class.
    fn split(&mut self, packets: &mut Vec<Packet<'p>>, only: PacketClass) {
        let is_chosen = |packet: &Packet<'_>| {
            let layers = &packet.meta().layers;
            only.contains(layers.ip_version, layers.protocol)
        };
        if packets.iter().all(is_chosen) {
            return;
        }
        if !packets.iter().any(is_chosen) {
            std::mem::swap(packets, &mut self.aside);
            return;
        }
        std::mem::swap(packets, &mut self.spare);
        for packet in self.spare.drain(..) {
            self.order.push(packet.id());
            if is_chosen(&packet) { &mut *packets } else { &mut self.aside }.push(packet);
        }
    }

    /// Moves the packets that bypassed the stage back into the burst, in the original order. If the
    /// stage reordered packets, these come last, in the stage's order.
    fn join(&mut self, packets: &mut Vec<Packet<'p>>) {
        if packets.is_empty() {
            self.order.clear();
            std::mem::swap(packets, &mut self.aside);
            return;
        }
        std::mem::swap(packets, &mut self.spare);
        let mut aside = self.aside.drain(..).peekable();
        let mut processed = self.spare.drain(..).peekable();
        for id in self.order.drain(..) {
            let next = match aside.next_if(|packet| packet.id() == id) {
                None => processed.next_if(|packet| packet.id() == id),
                bypassed => bypassed,
            };
            packets.extend(next);
        }
        packets.extend(aside.chain(processed));
    }
}

impl Part {
    /// Processes those packets of a burst that are in the stage's class. Returns their number.
    pub(crate) fn process_some<'p>(
        &mut self,
        burst: &mut Burst<'p>,
        bypass: &mut Bypass<'p>,
    ) -> usize {
        let Some(branch) = &mut self.branch else { return 0 };
        branch.arrived += burst.len() as u64;
        bypass.split(&mut burst.packets, branch.only);
        let given = burst.len();
        self.input_packets += given as u64;
        if given > 0 {
            self.stage.process(burst, &mut self.context);
        }
        if !bypass.aside.is_empty() {
            bypass.aside.iter().for_each(|packet| branch.bypassed.add(1, packet.length() as u64));
            bypass.join(&mut burst.packets);
        }
        given
    }

    /// Returns the number of packets that arrived at the stage, whether it processed them or not.
    pub(crate) fn arrived(&self) -> u64 {
        self.branch.as_ref().map_or(self.input_packets, |branch| branch.arrived)
    }

    /// Returns the numbers of packets and bytes that bypassed the stage.
    pub(crate) fn bypassed(&self) -> Tally {
        self.branch.as_ref().map_or(Tally::default(), |branch| branch.bypassed)
    }
}

#[cfg(test)]
mod tests;
