// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reference application: stages between a packet data serving node (PDSN) and the interface to
//! the access terminals (ATIF), named as in "Netra Data Plane Software Suite 2.0", chapter 10
//! (Performance Tuning), and a traffic source for them.
//!
//! ```text
//!  forward:  A10 packet --> PDSN_RX --> RLP --> ATIF_TX --> frames to the terminal
//!  reverse:  A10 packet <-- PDSN_TX <-- RLP <-- ATIF_RX <-- frames from the terminal
//! ```
//!
//! `PDSN_RXTX` and `ATIF_RXTX` receive or send, depending on a packet's direction. One input packet
//! becomes at most one output packet, in the same buffer: a partial frame waits for its session's
//! next packet, and a NAK list becomes the packet with the retransmission. A path is
//! unidirectional, so NAK lists from the opposite direction arrive among its packets. The stages
//! before `RLP`, and those of the other side after it, pass them on unchanged.
//!
//! A packet's [`Layers`] record its progress; they are empty until a stage has processed the
//! packet.
//!
//! There is no session establishment by A11 (the first packet with a key in the configured range
//! opens a session), no clock (timers count packets), and no return path that joins both
//! directions.

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

/// All stage kinds of the application.
pub static KINDS: &[StageKind] =
    &[pdsn::RX, rlp::KIND, atif::TX, atif::RX, pdsn::TX, pdsn::RXTX, atif::RXTX];

/// Stage and source kinds that this crate adds to the program.
pub static EXTENSION: Extension = Extension { stages: KINDS, sources: &[source::KIND] };

/// A packet's progress through the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// As received from the wire.
    Wire,
    /// An A10 packet that was checked, or whose GRE header was written.
    A10 {
        /// Offset of the GRE header.
        gre: u16,
        /// Offset of the first byte after the packet.
        end: u16,
    },
    /// An access-side packet that was checked or written.
    Access,
    /// Layers that no stage of this application produces.
    Other,
}

const IPV4: u8 = 4;
const GRE: u8 = 47;

/// Returns the progress recorded by the previous stage.
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

/// Marks the packet as A10, with its payload at `payload`, directly after the GRE header.
#[inline]
fn mark_a10(packet: &mut Packet<'_>, payload: Range<usize>) {
    let gre = payload.start - GRE_BYTES..payload.end;
    // Offsets fit in 16 bits: frames have at most 65535 bytes.
    packet.meta_mut().layers = Layers {
        l3: ETHERNET_BYTES as u16,
        l4: gre.start as u16,
        l3_end: gre.end as u16,
        ip_version: IPV4,
        protocol: GRE,
        ..Layers::default()
    };
}

/// Marks the layers of an access-side packet, whose frames follow the Ethernet and packet headers.
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

/// Steers all of a session's packets to the same RSS bucket, in both directions.
struct BySession;

/// Returns the session key of a frame from the wire; `None` if the frame is too damaged to have
/// one.
fn session(packet: &[u8]) -> Option<u32> {
    if frame::is_access(packet) {
        return frame::parse(packet).ok().map(|access| access.session);
    }
    envelope::parse(packet).ok().map(|envelope| envelope.key)
}

/// Returns a session's RSS bucket. Keys are allocated consecutively, so their low bits spread them
/// evenly.
fn bucket_of(key: u32) -> u8 {
    (key % BUCKETS as u32) as u8
}

impl Steer for BySession {
    fn bucket(&self, frame: &[u8]) -> Option<u8> {
        session(frame).map(bucket_of)
    }
}
