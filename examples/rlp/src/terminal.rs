// SPDX-License-Identifier: MIT OR Apache-2.0
//! An emulated access terminal: one end of a session, behind a lossy link.
//!
//! Radio properties other than loss, delay and duplication are not modelled.

use crate::channel::Channel;
use crate::frame::{self, Fault, MAX_FRAME_BYTES, MAX_NAK_BYTES, PACKET_HEADER_BYTES};
use crate::peer::{Peer, Speech};

/// Maximum length of a packet from the terminal: a NAK and eight data frames.
const PACKET_BYTES: usize = PACKET_HEADER_BYTES + MAX_NAK_BYTES + 8 * MAX_FRAME_BYTES;

/// A terminal and both directions of its radio link.
#[derive(Clone, Debug)]
pub struct Terminal {
    /// The terminal's end of the session.
    pub peer: Peer,
    /// Link from the network to the terminal.
    pub down: Channel,
    /// Link from the terminal to the network.
    pub up: Channel,
    packet: Box<[u8]>,
}

impl Terminal {
    /// Connects a peer to a link in each direction.
    pub fn new(peer: Peer, down: Channel, up: Channel) -> Self {
        Self { peer, down, up, packet: vec![0; PACKET_BYTES].into() }
    }

    /// Sends a packet from the network towards the terminal.
    ///
    /// # Errors
    /// Returns the first fault in the packet. The frames before it have been sent.
    pub fn send(&mut self, now: u64, packet: &[u8]) -> Result<(), Fault> {
        self.down.send(now, packet)
    }

    /// Passes the downstream frames that have arrived to the terminal, and ends the terminal's
    /// expired NAK rounds. Packets for other sessions are ignored.
    pub fn tick(&mut self, now: u64) {
        let peer = &mut self.peer;
        self.down.arrive(now, |packet| {
            // Always valid: the link accepts only valid frames and does not damage them.
            if let Ok(access) = frame::parse(packet)
                && access.session == peer.session
            {
                let _ = peer.hear(&access);
            }
        });
        peer.receiver.tick(now);
    }

    /// Sends the terminal's next packet, if any, on the uplink.
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
