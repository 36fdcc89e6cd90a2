// SPDX-License-Identifier: MIT OR Apache-2.0
//! Combines the sender and the receiver of a session at one end of the link. The two ends work
//! identically.
//!
//! The caller looks up the session, and supplies and consumes the stream.

use crate::frame::{self, Access, Fault, Frame, Writer};
use crate::receiver::{self, Receiver};
use crate::sender::{self, Sender};

/// One end of a session.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Session key.
    pub session: u32,
    /// Outgoing stream.
    pub sender: Sender,
    /// Incoming stream.
    pub receiver: Receiver,
}

impl Peer {
    /// Creates an end that has neither sent nor received anything.
    ///
    /// # Panics
    /// Panics if [`Sender::new`] or [`Receiver::new`] rejects the limits.
    pub fn new(session: u32, sends: sender::Limits, receives: receiver::Limits) -> Self {
        Self { session, sender: Sender::new(sends), receiver: Receiver::new(receives) }
    }

    /// Processes a packet's frames. Rejected frames are counted by the sender or receiver.
    ///
    /// # Errors
    /// Returns the first frame fault. The frames before it have been processed.
    #[inline]
    pub fn hear(&mut self, access: &Access<'_>) -> Result<(), Fault> {
        for frame in access.frames() {
            match frame? {
                // Errors are counted by the receiver; the protocol reports back to the sender only
                // which bytes are missing.
                Frame::Data { sequence, bytes, .. } => {
                    let _ = self.receiver.receive(sequence, bytes);
                }
                Frame::Idle { sequence } => {
                    let _ = self.receiver.receive(sequence, &[]);
                }
                Frame::Nak(ranges) => self.sender.serve(ranges.iter()),
            }
        }
        Ok(())
    }

    /// Writes a packet: a NAK if one is due, then retransmissions, then new data. If there is none
    /// of these and `idle` is set, writes an idle frame. A packet contains at most one NAK, so that
    /// the copies of a NAK travel in separate packets.
    ///
    /// Returns the packet's length; `None` if there is nothing to send or the buffer `packet` is
    /// too short.
    #[inline]
    pub fn speak(&mut self, now: u64, packet: &mut [u8], how: &Speech) -> Option<usize> {
        let mut writer = Writer::new(packet)?;
        if self.receiver.wants_nak() && writer.room()? >= frame::MAX_NAK_BYTES {
            let list = self.receiver.next_nak(now)?;
            writer.nak(&list);
        }
        self.sender.emit(&mut writer, how.flush);
        if writer.frames() == 0 && !(how.idle && writer.idle(self.sender.next())) {
            return None;
        }
        Some(writer.finish(&how.ethernet, self.session))
    }
}

/// How an end frames its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speech {
    /// Ethernet destination, then source.
    pub ethernet: [u8; 12],
    /// Send a short frame immediately rather than wait until there is enough data for a full one.
    pub flush: bool,
    /// Send an idle frame if there is nothing else to send.
    pub idle: bool,
}
