// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reference application: stages between a packet data serving node (PDSN) and the interface to
//! access terminals (ATIF), named as in "Netra Data Plane Software Suite 2.0", chapter 10
//! (Performance Tuning), and the traffic for them.
//!
//! ```text
//!  forward:  A10 packet --> PDSN_RX --> RLP --> ATIF_TX --> frames to the terminal
//!  reverse:  A10 packet <-- PDSN_TX <-- RLP <-- ATIF_RX <-- frames from the terminal
//! ```
//!
//! `PDSN_RXTX` and `ATIF_RXTX` do whichever side a packet's direction asks for. One packet in makes
//! at most one packet out, in the same buffer: what does not fill a frame waits for the next packet
//! of its session, and a NAK list becomes the packet of what it asks for. A path has one direction,
//! so the lists that come against it stand among its packets; the stages in front of `RLP`, and
//! behind it those of the other side, let them through.
//!
//! Where a packet stands is told by its [`Layers`]: none while it is as it came from the wire.
//!
//! Leaves out: opening sessions by A11 (a key within the configured range opens one), time (timers
//! run on the positions of packets), and a way back on which the two directions meet.

mod atif;
mod pdsn;
mod rlp;
pub mod source;

use crate::envelope::{self, ETHERNET_OCTETS, GRE_OCTETS};
use crate::frame;
use linerate_dataplane::packet::{Layers, Packet};
use linerate_dataplane::ring::{Consumer, Producer, ring};
use linerate_dataplane::{BUCKETS, StageKind, Steer};
use std::ops::Range;

/// Every kind of stage of the application.
pub static KINDS: &[StageKind] =
    &[pdsn::RX, rlp::KIND, atif::TX, atif::RX, pdsn::TX, pdsn::RXTX, atif::RXTX];

/// Where a packet stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// As it came from the wire.
    Wire,
    /// An A10 packet, checked, or with its GRE header written: where GRE begins, where it ends.
    A10 {
        /// Offset of the GRE header.
        gre: u16,
        /// Offset of what follows the packet.
        end: u16,
    },
    /// A packet of the access side, checked or written.
    Access,
    /// What no stage of this application makes.
    Other,
}

const IPV4: u8 = 4;
const GRE: u8 = 47;

/// Where a packet stands, as the stage before has left it.
#[inline]
fn place(packet: &Packet<'_>) -> Place {
    let layers = &packet.meta().layers;
    match (layers.l3, layers.ip_version, layers.protocol) {
        (0, _, _) => Place::Wire,
        (_, IPV4, GRE) => Place::A10 { gre: layers.l4, end: layers.l3_end },
        (_, 0, 0) => Place::Access,
        _ => Place::Other,
    }
}

/// Notes that the packet is one of A10 whose payload lies in `payload`, behind its GRE header.
#[inline]
fn mark_a10(packet: &mut Packet<'_>, payload: Range<usize>) {
    let gre = payload.start - GRE_OCTETS..payload.end;
    // Frames have at most 65535 octets.
    packet.meta_mut().layers = Layers {
        l3: ETHERNET_OCTETS as u16,
        l4: gre.start as u16,
        l3_end: gre.end as u16,
        ip_version: IPV4,
        protocol: GRE,
        ..Layers::default()
    };
}

/// Notes that the packet is one of the access side.
#[inline]
fn mark_access(packet: &mut Packet<'_>) {
    let end = packet.octets() as u16;
    packet.meta_mut().layers = Layers {
        l3: ETHERNET_OCTETS as u16,
        l4: frame::PACKET_HEADER_OCTETS as u16,
        l3_end: end,
        ..Layers::default()
    };
}

/// Causes of drops: `faults`, and last `not_framed`, for a packet that `RLP` has not made.
const fn and_not_framed<const FAULTS: usize, const CAUSES: usize>(
    faults: &[&'static str; FAULTS],
) -> [&'static str; CAUSES] {
    assert!(CAUSES == FAULTS + 1);
    let mut causes = ["not_framed"; CAUSES];
    let (of_faults, _) = causes.split_at_mut(FAULTS);
    of_faults.copy_from_slice(faults);
    causes
}

/// Keeps the packets of a session together, whichever way they travel.
struct BySession;

/// The session of a frame from the wire, if it is sound enough to have one.
fn session(packet: &[u8]) -> Option<u32> {
    if frame::is_access(packet) {
        return frame::parse(packet).ok().map(|access| access.session);
    }
    envelope::parse(packet).ok().map(|envelope| envelope.key)
}

/// Keys are given out in a row, so their low bits spread them evenly.
fn bucket_of(key: u32) -> u8 {
    (key % BUCKETS as u32) as u8
}

impl Steer for BySession {
    fn bucket(&self, frame: &[u8]) -> Option<u8> {
        session(frame).map(bucket_of)
    }
}

/// The queue of the direction that has no packets: a strand that serves both sides looks there once
/// a turn, as the strands of the document do. What that costs on a device, this queue in memory
/// does not show.
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
        debug_assert!(found.is_none(), "nobody sends the other way");
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![("looks_at_other_side", self.looks)]
    }
}
