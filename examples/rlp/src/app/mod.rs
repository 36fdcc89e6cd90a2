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
//! `PDSN_RXTX` and `ATIF_RXTX` act as the side given by a packet's direction. One input packet
//! becomes at most one output packet, in the same buffer: a partial frame waits for the next packet
//! of its session, and a NAK list becomes the packet with the retransmission. A path has one
//! direction, so NAK lists from the opposite direction are among its packets; the stages before
//! `RLP`, and after it those of the other side, let them through.
//!
//! The progress of a packet is in its [`Layers`]: none while it is unmodified.
//!
//! Leaves out: opening sessions by A11 (a key within the configured range opens one), time (timers
//! run on the positions of packets), and a way back on which the two directions meet.

mod atif;
mod pdsn;
mod rlp;
mod sides;
pub mod source;

use crate::envelope::{self, ETHERNET_BYTES, GRE_BYTES};
use crate::frame;
use linerate_stage_api::{BUCKETS, Extension, StageKind, Steer};
use linerate_stage_api::{Layers, Packet};
use std::ops::Range;

/// Every kind of stage of the application.
pub static KINDS: &[StageKind] =
    &[pdsn::RX, rlp::KIND, atif::TX, atif::RX, pdsn::TX, pdsn::RXTX, atif::RXTX];

/// The rows of this crate in the program's table of kinds.
pub static EXTENSION: Extension = Extension { stages: KINDS, sources: &[source::KIND] };

/// Progress of a packet.
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
    /// Layers that no stage of this application produces.
    Other,
}

const IPV4: u8 = 4;
const GRE: u8 = 47;

/// Progress of a packet, as left by the previous stage.
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

/// Marks the packet as one of A10 with its payload at `payload`, after its GRE header.
#[inline]
fn mark_a10(packet: &mut Packet<'_>, payload: Range<usize>) {
    let gre = payload.start - GRE_BYTES..payload.end;
    // Frames have at most 65535 bytes.
    packet.meta_mut().layers = Layers {
        l3: ETHERNET_BYTES as u16,
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
    let end = packet.length() as u16;
    packet.meta_mut().layers = Layers {
        l3: ETHERNET_BYTES as u16,
        l4: frame::PACKET_HEADER_BYTES as u16,
        l3_end: end,
        ..Layers::default()
    };
}

/// Keeps the packets of a session together, whichever way they travel.
struct BySession;

/// The session of a frame from the wire, if it is valid enough to have one.
fn session(packet: &[u8]) -> Option<u32> {
    if frame::is_access(packet) {
        return frame::parse(packet).ok().map(|access| access.session);
    }
    envelope::parse(packet).ok().map(|envelope| envelope.key)
}

/// Keys are allocated consecutively, so their low bits spread them evenly.
fn bucket_of(key: u32) -> u8 {
    (key % BUCKETS as u32) as u8
}

impl Steer for BySession {
    fn bucket(&self, frame: &[u8]) -> Option<u8> {
        session(frame).map(bucket_of)
    }
}
