// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fuzz targets: the two parsers on arbitrary bytes, and a session driven by an arbitrary script.
//!
//! A run returns a bit mask of the events that occurred. Invariants are asserted here, so a
//! violation panics.

use linerate_rlp::envelope;
use linerate_rlp::frame::{self, ByteRange, Frame, MAX_RANGES, PACKET_HEADER_BYTES};
use linerate_rlp::peer::{Peer, Speech};
use linerate_rlp::receiver::{self, Refusal, Rounds, Taken};
use linerate_rlp::sender;
use linerate_rlp::window::Window;

/// Code under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A10 packet parser.
    Envelope,
    /// Access-side packet parser.
    Access,
    /// Session driven by the bytes as a script.
    Session,
}

impl Target {
    pub(crate) const ALL: [Self; 3] = [Self::Envelope, Self::Access, Self::Session];

    pub(crate) fn name(self) -> &'static str {
        ["envelope", "access", "session"][self as usize]
    }

    /// Runs the target; bit `i` of the result is set if event `i` occurred.
    pub(crate) fn run(self, bytes: &[u8]) -> u32 {
        match self {
            Self::Envelope => run_envelope(bytes),
            Self::Access => run_access(bytes),
            Self::Session => Script::new(bytes).run(),
        }
    }
}

/// Events 0 to 7: faults; 8: valid; 9: no stream bytes; 10: IPv4 options; 11: padding.
fn run_envelope(bytes: &[u8]) -> u32 {
    match envelope::parse(bytes) {
        Err(fault) => 1 << fault.index(),
        Ok(found) => {
            let header_end = 14 + usize::from(bytes[14] & 0x0f) * 4;
            assert_eq!(found.payload.start, header_end + 12);
            let total = usize::from(bytes[16]) << 8 | usize::from(bytes[17]);
            assert_eq!(found.payload.end, 14 + total);
            let payload = &bytes[found.payload];
            assert_eq!((bytes[23], &bytes[header_end..][..4]), (47, &[0x30, 0, 0x88, 0x81][..]));
            1 << 8
                | u32::from(payload.is_empty()) << 9
                | u32::from(header_end > 34) << 10
                | u32::from(bytes.len() > 14 + total) << 11
        }
    }
}

/// Events 0 to 6: header faults; 7: valid header; 8 to 11: kinds of frames; 12: a full NAK list;
/// 13: more than 8 frames; 16 to 22: the fault at which the frames ended.
fn run_access(bytes: &[u8]) -> u32 {
    let access = match frame::parse(bytes) {
        Err(fault) => return 1 << fault.index(),
        Ok(access) => access,
    };
    let (mut bits, mut count) = (1 << 7, 0_u32);
    for frame in access.frames() {
        count += 1;
        bits |= match frame {
            Ok(Frame::Data { bytes, again, .. }) => {
                assert!((1..=frame::MAX_FRAME_BYTES).contains(&bytes.len()));
                1 << (8 + u32::from(again))
            }
            Ok(Frame::Idle { .. }) => 1 << 10,
            Ok(Frame::Nak(ranges)) => {
                let count = ranges.iter().count();
                assert!((1..=MAX_RANGES).contains(&count));
                1 << 11 | u32::from(count == MAX_RANGES) << 12
            }
            Err(fault) => 1 << (16 + fault.index()),
        };
    }
    assert!(count <= u32::from(access.frames) + 1);
    bits | u32::from(count > 8) << 13
}

const RING_BYTES: usize = 256;
const FRAME_BYTES: usize = 16;

/// A session and the script that drives it.
struct Script<'s> {
    rest: &'s [u8],
    peer: Peer,
    window: Window,
    number: u32,
    now: u64,
    /// Bytes taken and abandoned so far.
    position: u64,
    bits: u32,
}

impl<'s> Script<'s> {
    fn new(rest: &'s [u8]) -> Self {
        let sends = sender::Limits { frame_bytes: FRAME_BYTES, ring_bytes: RING_BYTES };
        let rounds = Rounds::new(&[1, 2]).expect("two rounds");
        let receives = receiver::Limits { ring_bytes: RING_BYTES, rounds, timer_ticks: 4 };
        let peer = Peer::new(1, sends, receives);
        Self { rest, peer, window: Window::default(), number: 0, now: 0, position: 0, bits: 0 }
    }

    fn byte(&mut self) -> u8 {
        let (first, rest) = self.rest.split_first().unwrap_or((&0, &[]));
        self.rest = rest;
        *first
    }

    /// Reads a distance from the script that is small in most cases.
    fn distance(&mut self) -> u32 {
        let [high, low] = [self.byte(), self.byte()].map(u32::from);
        // A signed 16-bit number; the largest are scaled up.
        let near = (high << 8 | low) as u16;
        let far = near.cast_signed();
        if high == 0x7f { near.into() } else { i32::from(far).cast_unsigned() }
    }

    fn slice(&mut self) -> &'s [u8] {
        let bytes = usize::from(self.byte()).min(self.rest.len());
        let (slice, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        slice
    }

    fn happened(&mut self, bit: u32, what: bool) {
        self.bits |= u32::from(what) << bit;
    }

    /// Events 0 to 4: receiver refusals; 5 to 7: sender refusals; 8: bytes abandoned; 9: bytes
    /// taken; 10 to 12: window refusals; 13: retransmission; 14: append rejected; 15: an invalid
    /// frame; 16: a NAK.
    fn run(mut self) -> u32 {
        while !self.rest.is_empty() {
            match self.byte() % 8 {
                0 => self.hear(),
                1 => {
                    let wire = (self.position as u32).wrapping_add(self.distance());
                    let bytes = self.slice();
                    let _ = self.peer.receiver.receive(wire, bytes);
                }
                2 => {
                    self.now += u64::from(self.byte());
                    self.peer.receiver.tick(self.now);
                }
                3 => self.take(),
                4 => self.speak(),
                5 => {
                    let first = self.peer.sender.next().wrapping_add(self.distance());
                    let bytes = self.byte().max(1).into();
                    self.peer.sender.serve([ByteRange { first, bytes }]);
                }
                6 => {
                    let bytes = self.slice();
                    let fits = self.peer.sender.append(bytes);
                    self.happened(14, !fits);
                }
                _ => {
                    self.number = self.number.wrapping_add(self.distance());
                    if let Err(stale) = self.window.admit(self.number) {
                        self.happened(10 + stale.index() as u32, true);
                    }
                }
            }
            assert!(self.peer.sender.pending() <= RING_BYTES);
            assert!(self.peer.receiver.ready() <= RING_BYTES);
        }
        self.take();
        self.judge()
    }

    fn hear(&mut self) {
        let count = self.byte();
        let body = self.slice();
        let mut packet = [0; PACKET_HEADER_BYTES + u8::MAX as usize];
        packet[12..16].copy_from_slice(&[0x88, 0xb5, 1, count]);
        packet[17] = body.len() as u8;
        packet[PACKET_HEADER_BYTES..][..body.len()].copy_from_slice(body);
        let access = frame::parse(&packet).expect("the header is in order");
        let result = self.peer.hear(&access);
        self.happened(15, result.is_err());
    }

    fn take(&mut self) {
        let mut out = [0; 100];
        loop {
            match self.peer.receiver.take(&mut out) {
                Taken::Bytes(bytes) => {
                    assert!((1..=out.len()).contains(&bytes));
                    self.position += bytes as u64;
                    self.happened(9, true);
                }
                Taken::Aborted { first, bytes } => {
                    assert!(first == self.position && bytes > 0, "in its place, and not empty");
                    self.position += bytes;
                }
                Taken::Nothing => return,
            }
        }
    }

    fn speak(&mut self) {
        let how = self.byte();
        let room = PACKET_HEADER_BYTES + 4 * usize::from(self.byte());
        let mut packet = [0; PACKET_HEADER_BYTES + 4 * u8::MAX as usize];
        let how = Speech { flush: how & 1 != 0, idle: how & 2 != 0, ..Speech::default() };
        let again = self.peer.sender.counts().frames_again;
        let Some(bytes) = self.peer.speak(self.now, &mut packet[..room], &how) else {
            return;
        };
        self.happened(13, self.peer.sender.counts().frames_again > again);
        let access = frame::parse(&packet[..bytes]).expect("what is written is in order");
        for frame in access.frames() {
            let frame = frame.expect("what is written is in order");
            self.happened(16, matches!(frame, Frame::Nak(_)));
        }
    }

    fn judge(mut self) -> u32 {
        let sends = *self.peer.sender.counts();
        let receives = *self.peer.receiver.counts();
        let sent = [sends.nak_unsent, sends.nak_gone, sends.nak_overflow];
        for (bit, count) in (0..).zip(receives.refused.into_iter().chain(sent)) {
            self.happened(bit, count > 0);
        }
        assert_eq!(Refusal::Jump as usize + 1, receives.refused.len());
        self.happened(8, receives.aborts > 0);
        assert!(self.position >= receives.aborted_bytes || !self.peer.receiver.is_settled());
        self.bits
    }
}
