// SPDX-License-Identifier: MIT OR Apache-2.0
//! An access terminal, emulated: an end of a session behind a link that loses frames.
//!
//! Leaves out: everything of a radio but what it does to frames.

use crate::channel::Channel;
use crate::frame::{self, Fault, MAX_FRAME_BYTES, MAX_NAK_BYTES, PACKET_HEADER_BYTES};
use crate::peer::{Peer, Speech};

/// Bytes of a packet of the terminal: a NAK and some frames.
const PACKET_BYTES: usize = PACKET_HEADER_BYTES + MAX_NAK_BYTES + 8 * MAX_FRAME_BYTES;

/// A terminal and the air around it.
#[derive(Clone, Debug)]
pub struct Terminal {
    /// The terminal's end of the session.
    pub peer: Peer,
    /// From the network to the terminal.
    pub down: Channel,
    /// From the terminal to the network.
    pub up: Channel,
    packet: Box<[u8]>,
}

impl Terminal {
    /// A terminal behind a link.
    pub fn new(peer: Peer, down: Channel, up: Channel) -> Self {
        Self { peer, down, up, packet: vec![0; PACKET_BYTES].into() }
    }

    /// Sends a packet of the network through the air.
    ///
    /// # Errors
    /// The error in the packet; the frames before it are in flight.
    pub fn send(&mut self, now: u64, packet: &[u8]) -> Result<(), Fault> {
        self.down.send(now, packet)
    }

    /// Delivers downstream frames that have arrived to the terminal, and ends its rounds. Packets
    /// of other sessions are ignored.
    pub fn tick(&mut self, now: u64) {
        let peer = &mut self.peer;
        self.down.arrive(now, |packet| {
            // The link took nothing that is not in order, and damages nothing.
            if let Ok(access) = frame::parse(packet)
                && access.session == peer.session
            {
                let _ = peer.hear(&access);
            }
        });
        peer.receiver.tick(now);
    }

    /// Lets the terminal say what it has to say, into the air.
    pub fn speak(&mut self, now: u64, how: &Speech) {
        let mut how = *how;
        while let Some(bytes) = self.peer.speak(now, &mut self.packet, &how) {
            // The packet just written is valid.
            let _ = self.up.send(now, &self.packet[..bytes]);
            how.idle = false;
        }
    }

    /// Delivers upstream frames that have arrived, in packets of one frame each.
    pub fn arrive(&mut self, now: u64, take: impl FnMut(&[u8])) {
        self.up.arrive(now, take);
    }
}
