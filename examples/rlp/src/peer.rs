// SPDX-License-Identifier: MIT OR Apache-2.0
//! Both halves of a session at one end of the link. The two ends differ in nothing.
//!
//! Not here: source and destination of the stream; finding the session of a packet.

use crate::frame::{self, Access, Fault, Frame, Writer};
use crate::receiver::{self, Receiver};
use crate::sender::{self, Sender};

/// One end of a session.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Key of the session.
    pub session: u32,
    /// Outgoing stream.
    pub sender: Sender,
    /// Incoming stream.
    pub receiver: Receiver,
}

impl Peer {
    /// An end at which nothing was sent or received.
    ///
    /// # Panics
    /// If the limits are not what [`Sender::new`] and [`Receiver::new`] want.
    pub fn new(session: u32, sends: sender::Limits, receives: receiver::Limits) -> Self {
        Self { session, sender: Sender::new(sends), receiver: Receiver::new(receives) }
    }

    /// Takes in the frames of a packet. What the halves refuse they count.
    ///
    /// # Errors
    /// The first fault of a frame; the frames in front of it were taken in.
    #[inline]
    pub fn hear(&mut self, access: &Access<'_>) -> Result<(), Fault> {
        for frame in access.frames() {
            match frame? {
                // Refusals are counted; the sender only learns what is missing.
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

    /// Writes a packet: a NAK if one is due, retransmissions, new data; an idle frame if `idle` and
    /// there is nothing else. At most one NAK, so that copies are in separate packets.
    ///
    /// Returns its bytes; `None` when there is nothing to say or `packet` has no room for it.
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

/// Framing policy of an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speech {
    /// Ethernet destination, then source.
    pub ethernet: [u8; 12],
    /// Whether bytes that do not fill a frame are sent in a shorter one.
    pub flush: bool,
    /// Whether to say that there is nothing new.
    pub idle: bool,
}
